// SPDX-License-Identifier: MIT
// An RMS norm with its gain.
#pragma once

#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/norm.hpp"

namespace nibble::layers {

/// y[rows, hidden] = rms_norm(x) * weight; rows may be tokens, or tokens * heads for per-head norms.
template <Backend B>
struct RmsNorm {
  Vector<float> weight;  ///< [hidden]; empty = this norm is absent
  float eps = 1e-5f;

  bool present() const noexcept { return weight.size() > 0; }
  /// For ops that fold the norm in; absent stays absent.
  FoldedNorm folded() const noexcept {
    if (!present()) return {};
    return {.kind = FoldedNorm::Kind::rms, .weight = weight.view(), .eps = eps};
  }
  void operator()(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y) const {
    run(ctx, nibble::RmsNorm{eps}, x, weight.view(), y);
  }
};

}  // namespace nibble::layers
