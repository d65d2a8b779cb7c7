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

namespace layers {

template <Backend B>
struct SelfAttention {
  AttentionSpec spec{};
  Linear<B> query, key, value, output;
  RmsNorm<B> query_norm, key_norm;  ///< over head_dim; absent in most models
  Vector<float> frequencies;        ///< rope_frequencies(spec.rope)

  /// x[tokens, hidden] at `positions[tokens]` -> y[tokens, heads * value_dim], the concatenated heads before the
  /// output projection. `norm` is applied to x first; without it x is normalized already.
  void heads(ExecutionContext<B>& ctx, MatrixView<const float> x, VectorView<const Index> positions,
             std::span<const SequenceRows> sequences, MatrixView<float> y, const FoldedNorm& norm = {}) const {
    ArenaScope scope(ctx.arena());
    Arena& arena = ctx.arena();
    const auto q = arena.take<float>(Extents<3>{x.rows(), spec.heads, spec.head_dim});
    const auto k = arena.take<float>(Extents<3>{x.rows(), spec.kv_heads, spec.head_dim});
    const auto v = arena.take<float>(Extents<3>{x.rows(), spec.kv_heads, spec.value_dim});
    const LinearOutput<B> projections[] = {query.into(flat(q)), key.into(flat(k)), value.into(flat(v))};
    run(ctx, LinearGroup{query.refined || key.refined || value.refined, norm}, x,
        std::span<const LinearOutput<B>>(projections));
    const TensorView<float, 3> out(y.data(), {y.rows(), spec.heads, spec.value_dim}, {y.stride(0), spec.value_dim, 1});
    attend(ctx, q, k, v, positions, sequences, out);
  }

 private:
  static MatrixView<float> flat(TensorView<float, 3> x) {
    return {x.data(), {x.extent(0), x.extent(1) * x.extent(2)}};
  }
  void attend(ExecutionContext<B>& ctx, TensorView<float, 3> q, TensorView<float, 3> k, TensorView<float, 3> v,
              VectorView<const Index> positions, std::span<const SequenceRows> sequences,
              TensorView<float, 3> out) const {
    const Rope rope{spec.rope.pairs, frequencies.view()};
    const auto with = [&](const auto& mask, const auto& hook) {
      attend_cached(ctx, float(spec.scale), mask, hook, rope, query_norm.folded(), key_norm.folded(), q, k, v,
                    positions, sequences, out);
    };
    const auto with_mask = [&](const auto& mask) {
      if (spec.soft_cap > 0) with(mask, SoftCap{float(spec.soft_cap)});
      else with(mask, NoHook{});
    };
    if (spec.window > 0) with_mask(CausalMask{} & SlidingWindow{spec.window});
    else with_mask(CausalMask{});
  }
};

}  // namespace layers
}  // namespace nibble
