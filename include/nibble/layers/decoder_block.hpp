// SPDX-License-Identifier: MIT
// The pre-norm decoder block that dense models share, with Gemma's second pair of norms where present:
//   x += post?(output(attention(norm(x))))
//   x += post?(down(act(gate(norm(x))) * up(norm(x))))
#pragma once

#include <span>

#include "nibble/layers/attention.hpp"
#include "nibble/layers/feed_forward.hpp"

namespace nibble::layers {

template <Backend B>
struct DecoderBlock {
  RmsNorm<B> attention_norm;
  SelfAttention<B> attention;
  RmsNorm<B> attention_post_norm;  ///< on the branch, before the residual sum; absent in most models
  RmsNorm<B> ffn_norm;
  GatedFeedForward<B> ffn;
  RmsNorm<B> ffn_post_norm;

  /// x[tokens, hidden] in place.
  void operator()(ExecutionContext<B>& ctx, MatrixView<float> x, VectorView<const Index> positions,
                  std::span<const SequenceRows> sequences) const {
    ArenaScope scope(ctx.arena());
    Arena& arena = ctx.arena();
    const auto normed = arena.take<float>(x.extents());
    attention_norm(ctx, x, normed);
    const auto heads = arena.take<float>(Extents<2>{x.rows(), attention.spec.heads * attention.spec.value_dim});
    attention.heads(ctx, normed, positions, sequences, heads);
    residual(ctx, attention.output, attention_post_norm, heads, normed, x);

    ffn_norm(ctx, x, normed);
    const auto inner = arena.take<float>(Extents<2>{x.rows(), ffn.up.out_features()});
    ffn.inner(ctx, normed, inner);
    residual(ctx, ffn.down, ffn_post_norm, inner, normed, x);
  }

 private:
  static void residual(ExecutionContext<B>& ctx, const Linear<B>& layer, const RmsNorm<B>& post,
                       MatrixView<const float> branch, MatrixView<float> scratch, MatrixView<float> x) {
    if (!post.present() && layer.bias.size() == 0) {
      layer.add_to(ctx, branch, x);
      return;
    }
    layer(ctx, branch, scratch);
    if (post.present()) post(ctx, scratch, scratch);
    run(ctx, Add{}, scratch, x);
  }
};

}  // namespace nibble::layers
