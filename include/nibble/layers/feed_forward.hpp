// SPDX-License-Identifier: MIT
// The gated feed-forward network: y = down(act(gate(x)) * up(x)).
#pragma once

#include "nibble/layers/linear.hpp"
#include "nibble/ops/activation.hpp"

namespace nibble {

enum class Activation { silu, gelu_tanh };

namespace layers {

template <Backend B>
struct GatedFeedForward {
  Activation activation = Activation::silu;
  Linear<B> gate, up, down;

  /// x[tokens, hidden] -> y[tokens, ffn]: everything before the down projection.
  void inner(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y) const {
    ArenaScope scope(ctx.arena());
    const auto up_rows = ctx.arena().template take<float>(Extents<2>{x.rows(), up.out_features()});
    gate(ctx, x, y);
    up(ctx, x, up_rows);
    if (activation == Activation::silu) run(ctx, SwiGlu{}, y, up_rows, y);
    else run(ctx, GeGlu{}, y, up_rows, y);
  }
};

}  // namespace layers
}  // namespace nibble
