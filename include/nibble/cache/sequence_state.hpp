// SPDX-License-Identifier: MIT
// SequenceState: everything a model remembers of one sequence: per layer, a list of key/value pages that
// grows as tokens arrive. Attention reads it through KvView only, so paged pools, latents and recurrent
// states can take its place behind the same view.
#pragma once

#include <span>
#include <vector>

#include "nibble/cache/kv_view.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/core/export.hpp"
#include "nibble/core/memory.hpp"

namespace nibble {

/// What one layer keeps of a sequence.
struct LayerState {
  KvShape kv{};
  Index window = 0;  ///< attention looks back at most this many positions, itself included; 0 = all
};

/// Not thread-safe; movable. Appending beyond `max_tokens` throws, nothing else in it can fail half-way.
class NIBBLE_API SequenceState {
 public:
  /// Throws Error{invalid_argument} for a non-positive capacity or shape.
  SequenceState(std::span<const LayerState> layers, Index max_tokens, MemoryResource* memory = default_memory());
  SequenceState(SequenceState&&) noexcept;
  SequenceState& operator=(SequenceState&&) noexcept;
  ~SequenceState();

  /// Positions [0, tokens()) hold keys and values.
  Index tokens() const noexcept { return tokens_; }
  Index max_tokens() const noexcept { return max_tokens_; }
  Index layers() const noexcept { return static_cast<Index>(layers_.size()); }
  std::size_t bytes() const noexcept;

  /// Makes room for positions [0, tokens() + count) in every layer. Strong guarantee.
  void reserve(Index count);
  /// The pages of `layer`, seen as if `tokens() + count` positions were valid (after reserve(count)).
  KvView view(Index layer, Index count) const;
  /// Declares `count` positions written.
  void advance(Index count);
  /// Forgets positions >= tokens. Throws when that would lengthen the sequence.
  void truncate(Index tokens);
  /// Forgets positions [begin, begin + count) and moves what follows up to close the gap. Rotary keys then
  /// still carry their old angles: Model::discard turns them too.
  void erase(Index begin, Index count);
  /// An independent copy that continues from here.
  SequenceState fork() const;

 private:
  struct Pages {
    LayerState shape;
    std::vector<std::byte*> keys, values;
  };
  std::size_t page_bytes(const Pages& p, bool value) const;
  void free_pages() noexcept;

  std::vector<Pages> layers_;
  Index tokens_ = 0, max_tokens_ = 0;
  MemoryResource* memory_ = nullptr;
};

}  // namespace nibble
