// SPDX-License-Identifier: MIT
// Scaled dot-product attention of new queries over a sequence's cached keys and values, blocked with an
// online softmax (Milakov & Gimelshein 2018; Dao et al. 2022), grouped query heads together:
//   out[t, h] = sum_k softmax_k(rules(scale * q[t, h] . K[k, h / group])) V[k, h / group]
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "nibble/cache/kv_codec.hpp"
#include "nibble/core/float_types.hpp"
#include "nibble/ops/attention/mask.hpp"
#include "nibble/ops/norm.hpp"
#include "nibble/ops/op.hpp"
#include "nibble/ops/rope.hpp"

namespace nibble {

/// q[tokens, heads, head_dim] at absolute `positions[tokens]` (non-decreasing), kv of one sequence
/// -> out[tokens, heads, value_dim]. heads is a multiple of kv_heads. A query that sees no key gives zeros.
/// Use through `attend` below, which keeps mask and hook alive.
struct Attention {
  float scale = 1.0f;
  ScoreRules rules;

  template <class B>
  using Signature = void(TensorView<const float, 3, typename B::Space> q, VectorView<const Index> positions,
                         const KvView& kv, TensorView<float, 3, typename B::Space> out);

  static void reference(const Attention& op, TensorView<const float, 3> q, VectorView<const Index> positions,
                        const KvView& kv, TensorView<float, 3> out) {
    const Index group = q.extent(1) / kv.shape.kv_heads;
    std::vector<float> scores(static_cast<std::size_t>(kv.tokens));
    for (Index t = 0; t < q.extent(0); ++t) {
      for (Index h = 0; h < q.extent(1); ++h) {
        const Index head = h / group;
        const Index position = positions[t];
        for (Index k = 0; k < kv.tokens; ++k) {
          double dot = 0;
          if (op.rules.visible(position, k))
            for (Index d = 0; d < kv.shape.head_dim; ++d) dot += double(q(t, h, d)) * element(kv, false, k, head, d);
          scores[static_cast<std::size_t>(k)] = float(dot * op.scale);
        }
        op.rules.apply({scores.data(), kv.tokens, {&position, 1}, 0, kv.tokens, h}, TileClass::edge);
        weigh(kv, head, scores, out[t][h]);
      }
    }
  }

 private:
  static double element(const KvView& kv, bool value, Index token, Index head, Index d) {
    const auto page = static_cast<std::size_t>(token / kv_page_tokens);
    return double(load_kv(kv.shape, value, value ? kv.value_pages[page] : kv.key_pages[page], head, token, d));
  }
  static void weigh(const KvView& kv, Index head, const std::vector<float>& scores, VectorView<float> out) {
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (float s : scores) max = std::max(max, double(s));
    std::vector<double> acc(static_cast<std::size_t>(kv.shape.value_dim), 0.0);
    for (Index k = 0; k < kv.tokens; ++k) {
      const double s = scores[static_cast<std::size_t>(k)];
      if (s == -std::numeric_limits<double>::infinity()) continue;
      const double p = std::exp(s - max);
      sum += p;
      for (std::size_t d = 0; d < acc.size(); ++d) acc[d] += p * element(kv, true, k, head, Index(d));
    }
    for (std::size_t d = 0; d < acc.size(); ++d) out[Index(d)] = sum > 0 ? float(acc[d] / sum) : 0.0f;
  }
};

/// Attention with any mask and hook:
///   attend(ctx, scale, CausalMask{} & SlidingWindow{512}, SoftCap{50}, q, positions, kv, out);
template <Backend B, AttentionMask M, ScoreHook H>
void attend(ExecutionContext<B>& context, float scale, const M& mask, const H& hook,
            TensorView<const float, 3, typename B::Space> q, VectorView<const Index> positions, const KvView& kv,
            TensorView<float, 3, typename B::Space> out) {
  run(context, Attention{scale, ScoreRules(mask, hook)}, q, positions, kv, out);
}

/// Writes new keys k[tokens, kv_heads, head_dim] and values v[tokens, kv_heads, value_dim] at
/// `positions[tokens]` into kv's pages, converted to its dtype.
struct AppendKv {
  template <class B>
  using Signature = void(TensorView<const float, 3, typename B::Space> k,
                         TensorView<const float, 3, typename B::Space> v, VectorView<const Index> positions,
                         const KvView& kv);

  static void reference(const AppendKv&, TensorView<const float, 3> k, TensorView<const float, 3> v,
                        VectorView<const Index> positions, const KvView& kv) {
    for (Index t = 0; t < k.extent(0); ++t) {
      for (Index h = 0; h < kv.shape.kv_heads; ++h) {
        const auto page = static_cast<std::size_t>(positions[t] / kv_page_tokens);
        store_kv(kv.shape, false, kv.key_pages[page], h, positions[t], k[t][h].data());
        store_kv(kv.shape, true, kv.value_pages[page], h, positions[t], v[t][h].data());
      }
    }
  }
};

/// Rows [first, first + count) of a batch belong to one sequence, whose cache in this layer is `kv`
/// (already counting the new positions).
struct SequenceRows {
  Index first = 0, count = 0;
  KvView kv{};
};

/// Everything between the projections of a self-attention layer and its output projection, for any number of
/// sequences in one parallel region: norms of query and key heads, rotation, append to the caches, attention.
/// q[tokens, heads, head_dim] and k[tokens, kv_heads, head_dim] are changed in place; v[tokens, kv_heads,
/// value_dim]; `positions[tokens]`, non-decreasing in each sequence -> out[tokens, heads, value_dim]. Equal, bit
/// by bit, to the single ops after each other. Use through `attend_cached`, which keeps mask and hook alive.
struct CachedAttention {
  float scale = 1.0f;
  ScoreRules rules;
  Rope rope{};
  FoldedNorm query_norm{}, key_norm{};  ///< over head_dim

  template <class B>
  using Signature = void(TensorView<float, 3, typename B::Space> q, TensorView<float, 3, typename B::Space> k,
                         TensorView<const float, 3, typename B::Space> v, VectorView<const Index> positions,
                         std::span<const SequenceRows> sequences, TensorView<float, 3, typename B::Space> out);
};

/// CachedAttention with any mask and hook.
template <Backend B, AttentionMask M, ScoreHook H>
void attend_cached(ExecutionContext<B>& context, float scale, const M& mask, const H& hook, const Rope& rope,
                   const FoldedNorm& query_norm, const FoldedNorm& key_norm,
                   TensorView<float, 3, typename B::Space> q, TensorView<float, 3, typename B::Space> k,
                   TensorView<const float, 3, typename B::Space> v, VectorView<const Index> positions,
                   std::span<const SequenceRows> sequences, TensorView<float, 3, typename B::Space> out) {
  run(context, CachedAttention{scale, ScoreRules(mask, hook), rope, query_norm, key_norm}, q, k, v, positions,
      sequences, out);
}

/// Turns the cached keys of positions [first, first + count) by `delta` positions: what moving them in the
/// sequence means under rotary embedding. Rotations add up, so two shifts equal their sum (up to rounding to
/// the cache's dtype).
struct RotateKeys {
  Rope rope{};
  Index first = 0, count = 0, delta = 0;

  template <class B>
  using Signature = void(const KvView& kv);

  static void reference(const RotateKeys& op, const KvView& kv) {
    std::vector<float> row(static_cast<std::size_t>(kv.shape.head_dim));
    const TensorView<float, 3> x(row.data(), {1, 1, kv.shape.head_dim});
    const Index delta[] = {op.delta};
    for (Index t = op.first; t < op.first + op.count; ++t) {
      for (Index h = 0; h < kv.shape.kv_heads; ++h) {
        std::byte* page = kv.key_pages[static_cast<std::size_t>(t / kv_page_tokens)];
        for (Index d = 0; d < kv.shape.head_dim; ++d) x(0, 0, d) = load_kv(kv.shape, false, page, h, t, d);
        Rope::reference(op.rope, VectorView<const Index>(delta), x);
        store_kv(kv.shape, false, page, h, t, row.data());
      }
    }
  }
};

}  // namespace nibble
