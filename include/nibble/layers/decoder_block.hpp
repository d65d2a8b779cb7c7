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

  /// x[tokens, hidden] in place, in five parallel regions: projections, attention, output, gate and up, down.
  void operator()(ExecutionContext<B>& ctx, MatrixView<float> x, VectorView<const Index> positions,
                  std::span<const SequenceRows> sequences) const {
    ArenaScope scope(ctx.arena());
    const AttentionSpec& spec = attention.spec;
    const auto heads = ctx.arena().template take<float>(Extents<2>{x.rows(), spec.heads * spec.value_dim});
    attention.heads(ctx, x, positions, sequences, heads, attention_norm.folded());
    attention.output.add_to(ctx, heads, x, attention_post_norm.folded());
    ffn.add_to(ctx, x, x, ffn_norm.folded(), ffn_post_norm.folded());
  }
};

}  // namespace nibble::layers
