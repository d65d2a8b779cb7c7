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

  /// `norm` is applied to x on the way.
  void operator()(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y,
                  const FoldedNorm& norm = {}) const {
    if (bias.size() > 0) run(ctx, nibble::Linear{epilogue::Bias{bias.view()}, refined, norm}, x, weight, y);
    else run(ctx, nibble::Linear{epilogue::None{}, refined, norm}, x, weight, y);
  }
  /// y += post(x W^T + bias): into the residual stream, through a norm where one is given.
  void add_to(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y,
              const FoldedNorm& post = {}) const {
    using epilogue::Normed;
    if (!post.present()) run(ctx, nibble::Linear{epilogue::Add{bias.view()}, refined}, x, weight, y);
    else run(ctx, nibble::Linear{Normed{Normed::Then::add, post, bias.view()}, refined}, x, weight, y);
  }
  /// This layer as one of several on the same input.
  LinearOutput<B> into(MatrixView<float> y) const { return {&weight, y, bias.view()}; }
};

}  // namespace nibble::layers
