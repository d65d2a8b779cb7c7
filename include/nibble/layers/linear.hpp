// SPDX-License-Identifier: MIT
// A linear layer: packed weights and an optional bias.
#pragma once

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/linear.hpp"

namespace nibble::layers {

/// y[tokens, out] = x[tokens, in] W^T (+ bias). Immutable after loading; shareable between threads.
template <Backend B>
struct Linear {
  PackedMatrix<B> weight;
  Vector<float> bias;  ///< [out], or empty
  bool refined = false;  ///< nibble::Linear::refined, for a layer whose rounding weighs more than its time

  Index in_features() const noexcept { return weight.cols(); }
  Index out_features() const noexcept { return weight.rows(); }

  void operator()(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y) const {
    if (bias.size() > 0) run(ctx, nibble::Linear{epilogue::Bias{bias.view()}, refined}, x, weight, y);
    else run(ctx, nibble::Linear{epilogue::None{}, refined}, x, weight, y);
  }
  /// y += x W^T: into the residual stream. A bias would have to be added apart, so there is none here.
  void add_to(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y) const {
    NIBBLE_EXPECTS(bias.size() == 0, "a linear layer that adds to the residual stream has no bias");
    run(ctx, nibble::Linear{epilogue::Add{}, refined}, x, weight, y);
  }
};

}  // namespace nibble::layers
