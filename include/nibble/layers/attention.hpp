// SPDX-License-Identifier: MIT
// Multi-head self-attention with grouped keys and values: projections, optional per-head norms (Qwen3,
// Gemma 3), rotary embedding, append to the sequence's cache, masked attention.
#pragma once

#include <span>

#include "nibble/layers/linear.hpp"
#include "nibble/layers/norm.hpp"
#include "nibble/layers/rope.hpp"
#include "nibble/ops/attention/attention.hpp"

namespace nibble {

struct AttentionSpec {
  Index heads = 0, kv_heads = 0;
  Index head_dim = 0;   ///< of queries and keys
  Index value_dim = 0;
  double scale = 0;     ///< of q.k; 1/sqrt(head_dim) usually
  Index window = 0;     ///< sliding window in tokens, the token itself included; 0 = global
  double soft_cap = 0;  ///< cap * tanh(score / cap); 0 = none
  RopeSpec rope{};
};

/// Rows [first, first + count) of a batch belong to one sequence, whose cache in this layer is `kv`
/// (already counting the new positions).
struct SequenceRows {
  Index first = 0, count = 0;
  KvView kv{};
};

namespace layers {

template <Backend B>
struct SelfAttention {
  AttentionSpec spec{};
  Linear<B> query, key, value, output;
  RmsNorm<B> query_norm, key_norm;  ///< over head_dim; absent in most models
  Vector<float> frequencies;        ///< rope_frequencies(spec.rope)

  /// x[tokens, hidden] (already normalized) at `positions[tokens]` -> y[tokens, heads * value_dim], the
  /// concatenated heads before the output projection.
  void heads(ExecutionContext<B>& ctx, MatrixView<const float> x, VectorView<const Index> positions,
             std::span<const SequenceRows> sequences, MatrixView<float> y) const {
    ArenaScope scope(ctx.arena());
    const Index tokens = x.rows();
    const auto q = project(ctx, query, x, spec.heads, spec.head_dim);
    const auto k = project(ctx, key, x, spec.kv_heads, spec.head_dim);
    const auto v = project(ctx, value, x, spec.kv_heads, spec.value_dim);
    normalize(ctx, query_norm, q);
    normalize(ctx, key_norm, k);
    const Rope rope{spec.rope.pairs, frequencies.view()};
    run(ctx, rope, positions, q);
    run(ctx, rope, positions, k);
    const TensorView<float, 3> out(y.data(), {tokens, spec.heads, spec.value_dim}, {y.stride(0), spec.value_dim, 1});
    for (const SequenceRows& s : sequences) {
      const auto at = positions.slice(0, s.first, s.count);
      run(ctx, AppendKv{}, k.slice(0, s.first, s.count), v.slice(0, s.first, s.count), at, s.kv);
      attend_one(ctx, q.slice(0, s.first, s.count), at, s.kv, out.slice(0, s.first, s.count));
    }
  }

 private:
  static TensorView<float, 3> project(ExecutionContext<B>& ctx, const Linear<B>& layer, MatrixView<const float> x,
                                      Index heads, Index dim) {
    const auto flat = ctx.arena().template take<float>(Extents<2>{x.rows(), heads * dim});
    layer(ctx, x, flat);
    return {flat.data(), {x.rows(), heads, dim}};
  }
  static void normalize(ExecutionContext<B>& ctx, const RmsNorm<B>& norm, TensorView<float, 3> x) {
    if (!norm.present()) return;
    const MatrixView<float> rows(x.data(), {x.extent(0) * x.extent(1), x.extent(2)});
    norm(ctx, rows, rows);
  }
  void attend_one(ExecutionContext<B>& ctx, TensorView<const float, 3> q, VectorView<const Index> positions,
                  const KvView& kv, TensorView<float, 3> out) const {
    const auto scale = float(spec.scale);
    const auto with_mask = [&](const auto& mask) {
      if (spec.soft_cap > 0) attend(ctx, scale, mask, SoftCap{float(spec.soft_cap)}, q, positions, kv, out);
      else attend(ctx, scale, mask, NoHook{}, q, positions, kv, out);
    };
    if (spec.window > 0) with_mask(CausalMask{} & SlidingWindow{spec.window});
    else with_mask(CausalMask{});
  }
};

}  // namespace layers
}  // namespace nibble
