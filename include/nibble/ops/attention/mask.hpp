// SPDX-License-Identifier: MIT
// Masks and score hooks of attention, as small structs. Attention walks tiles of scores; a mask first
// says what a whole tile is (skip: nothing visible, full: everything, edge: some of it) and is asked per
// element on edge tiles only. A user's mask or bias is one struct that meets `AttentionMask` or
// `ScoreHook`, compiled in the user's own unit and called once per tile.
#pragma once

#include <algorithm>
#include <concepts>
#include <cmath>
#include <limits>
#include <span>

#include "nibble/core/view.hpp"

namespace nibble {

/// Scores of consecutive queries against consecutive keys for one head. `scores[q * stride + k]` belongs
/// to a query at absolute position `query_positions[q]` and the key at position `key_begin + k`.
struct ScoreTile {
  float* scores = nullptr;
  Index stride = 0;
  std::span<const Index> query_positions;  ///< non-decreasing
  Index key_begin = 0;
  Index keys = 0;
  Index head = 0;  ///< query head
};

enum class TileClass { skip, full, edge };

/// `classify` must never call a tile with a visible key `skip`, nor one with a hidden key `full`.
template <class M>
concept AttentionMask = requires(const M& m, const ScoreTile& t, Index query, Index key) {
  { m.classify(t) } -> std::same_as<TileClass>;
  { m.visible(query, key) } -> std::same_as<bool>;
};

/// Positions of keys [first, end); empty where end <= first, and either may lie outside of what there is.
struct KeySpan {
  Index first, end;
};

/// A mask whose visible keys are one span per query may say so: edge tiles are then cut instead of asked. `span` must
/// agree with `visible`; a mask derived from another inherits it.
template <class M>
concept SpanMask = AttentionMask<M> && requires(const M& m, Index query) {
  { m.span(query) } -> std::same_as<KeySpan>;
};

/// Changes scores after scaling and before masking (soft caps, position biases).
template <class H>
concept ScoreHook = requires(const H& h, const ScoreTile& t) {
  { h.apply(t) } -> std::same_as<void>;
};

/// Every key is visible (encoders).
struct NoMask {
  TileClass classify(const ScoreTile&) const noexcept { return TileClass::full; }
  bool visible(Index, Index) const noexcept { return true; }
};

/// A query sees itself and what is before it.
struct CausalMask {
  TileClass classify(const ScoreTile& t) const noexcept {
    if (t.key_begin > t.query_positions.back()) return TileClass::skip;
    return t.key_begin + t.keys - 1 <= t.query_positions.front() ? TileClass::full : TileClass::edge;
  }
  bool visible(Index query, Index key) const noexcept { return key <= query; }
  KeySpan span(Index query) const noexcept { return {0, query + 1}; }
};

/// A query sees keys less than `window` positions away, itself included (Mistral, Gemma):
/// window 4 at position 9 sees 6, 7, 8, 9 of the past.
struct SlidingWindow {
  Index window;
  TileClass classify(const ScoreTile& t) const noexcept {
    const Index last = t.key_begin + t.keys - 1;
    if (last <= t.query_positions.front() - window) return TileClass::skip;
    return t.key_begin > t.query_positions.back() - window ? TileClass::full : TileClass::edge;
  }
  bool visible(Index query, Index key) const noexcept { return key > query - window; }
  KeySpan span(Index query) const noexcept { return {query - window + 1, std::numeric_limits<Index>::max()}; }
};

/// Both masks at once: `CausalMask{} & SlidingWindow{512}`.
template <AttentionMask A, AttentionMask B>
struct BothMasks {
  A a;
  B b;
  TileClass classify(const ScoreTile& t) const noexcept {
    const TileClass x = a.classify(t), y = b.classify(t);
    if (x == TileClass::skip || y == TileClass::skip) return TileClass::skip;
    return x == TileClass::full && y == TileClass::full ? TileClass::full : TileClass::edge;
  }
  bool visible(Index query, Index key) const noexcept { return a.visible(query, key) && b.visible(query, key); }
  KeySpan span(Index query) const noexcept
    requires SpanMask<A> && SpanMask<B>
  {
    const KeySpan x = a.span(query), y = b.span(query);
    return {std::max(x.first, y.first), std::min(x.end, y.end)};
  }
};

template <AttentionMask A, AttentionMask B>
constexpr BothMasks<A, B> operator&(const A& a, const B& b) { return {a, b}; }

/// Scores pass unchanged.
struct NoHook {
  void apply(const ScoreTile&) const noexcept {}
};

/// score = cap * tanh(score / cap) (Gemma 2).
struct SoftCap {
  float cap;
  void apply(const ScoreTile& t) const noexcept {
    for (std::size_t q = 0; q < t.query_positions.size(); ++q)
      for (Index k = 0; k < t.keys; ++k) {
        float& s = t.scores[static_cast<Index>(q) * t.stride + k];
        s = cap * std::tanh(s / cap);
      }
  }
};

/// A mask and a hook behind two function pointers: what the compiled attention kernel calls once a tile.
/// Non-owning: both objects must outlive the call.
class ScoreRules {
 public:
  template <AttentionMask M, ScoreHook H>
  ScoreRules(const M& mask, const H& hook) noexcept
      : mask_(&mask), hook_(&hook),
        classify_([](const void* m, const ScoreTile& t) { return static_cast<const M*>(m)->classify(t); }),
        visible_([](const void* m, Index q, Index k) { return static_cast<const M*>(m)->visible(q, k); }),
        apply_([](const void* m, const void* h, const ScoreTile& t, TileClass kind) {
          static_cast<const H*>(h)->apply(t);
          if (kind != TileClass::edge) return;
          hide(*static_cast<const M*>(m), t);
        }) {}

  TileClass classify(const ScoreTile& t) const { return classify_(mask_, t); }
  bool visible(Index query, Index key) const { return visible_(mask_, query, key); }
  /// Hook, then -infinity where an edge tile hides a key.
  void apply(const ScoreTile& t, TileClass kind) const { apply_(mask_, hook_, t, kind); }

 private:
  template <AttentionMask M>
  static void hide(const M& mask, const ScoreTile& t) {
    constexpr float hidden = -std::numeric_limits<float>::infinity();
    float* scores = t.scores;
    for (const Index query : t.query_positions) {
      if constexpr (SpanMask<M>) {
        const KeySpan span = mask.span(query);
        const Index tile_end = t.key_begin + t.keys;  // cut to the tile first: spans may reach to the end of numbers
        const Index first = std::clamp(span.first, t.key_begin, tile_end), end = std::clamp(span.end, first, tile_end);
        std::fill(scores, scores + (first - t.key_begin), hidden);
        std::fill(scores + (end - t.key_begin), scores + t.keys, hidden);
      } else {
        for (Index k = 0; k < t.keys; ++k)
          if (!mask.visible(query, t.key_begin + k)) scores[k] = hidden;
      }
      scores += t.stride;
    }
  }

  const void* mask_;
  const void* hook_;
  TileClass (*classify_)(const void*, const ScoreTile&);
  bool (*visible_)(const void*, Index, Index);
  void (*apply_)(const void*, const void*, const ScoreTile&, TileClass);
};

}  // namespace nibble
