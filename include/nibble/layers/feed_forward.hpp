// SPDX-License-Identifier: MIT
// The gated feed-forward network: y = down(act(gate(x)) * up(x)).
#pragma once

#include "nibble/layers/linear.hpp"

namespace nibble {

namespace layers {

template <Backend B>
struct GatedFeedForward {
  Activation activation = Activation::silu;
  Linear<B> gate, up, down;

  /// x[tokens, hidden] -> y[tokens, ffn]: everything before the down projection.
  void inner(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y,
             const FoldedNorm& norm = {}) const {
    run(ctx, gated(norm), x, gate.weight, up.weight, y);
  }
  /// y += post(down(inner(norm(x)))); y may be x.
  void add_to(ExecutionContext<B>& ctx, MatrixView<const float> x, MatrixView<float> y,
              const FoldedNorm& norm = {}, const FoldedNorm& post = {}) const {
    run(ctx, FeedForward{gated(norm), post, down.bias.view(), down.refined}, x, gate.weight, up.weight, down.weight,
        y);
  }

 private:
  GatedLinear gated(const FoldedNorm& norm) const {
    return {activation, gate.refined || up.refined, norm, gate.bias.view(), up.bias.view()};
  }
};

}  // namespace layers
}  // namespace nibble
