// SPDX-License-Identifier: MIT
// Arena: a bump allocator over blocks of a memory resource. Scratch of one step is taken from it and
// given back at once by `reset` or by leaving an ArenaScope; after the first step it no longer allocates.
#pragma once

#include <span>
#include <vector>

#include "nibble/core/checked.hpp"
#include "nibble/core/memory.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Not thread-safe: one arena per worker or per context.
class Arena {
 public:
  explicit Arena(MemoryResource* memory = default_memory(), std::size_t block_bytes = std::size_t{1} << 20)
      : memory_(memory), block_bytes_(block_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { for (const Block& b : blocks_) memory_->deallocate(b.data, b.bytes, memory_alignment); }

  /// `count` uninitialized elements, cache-line aligned, valid until the enclosing reset.
  template <class T>
  std::span<T> take(Index count) {
    static_assert(std::is_trivially_copyable_v<T>);
    NIBBLE_EXPECTS(count >= 0, "negative scratch size");
    const auto n = static_cast<std::size_t>(count);
    return {static_cast<T*>(allocate(checked::mul(n, sizeof(T), "scratch size"))), n};
  }
  /// A row-major matrix or higher-rank scratch tensor.
  template <class T, std::size_t Rank>
  TensorView<T, Rank> take(const Extents<Rank>& extents) {
    Index n = 1;
    for (Index e : extents) n = checked::mul(n, e, "scratch size");
    return {take<T>(n).data(), extents};
  }

  struct Mark { std::size_t block, used; };
  Mark mark() const noexcept { return {current_, used_}; }
  void reset(Mark m) noexcept { current_ = m.block; used_ = m.used; }
  void reset() noexcept { reset({0, 0}); }
  /// Bytes held from the memory resource.
  std::size_t capacity_bytes() const noexcept {
    std::size_t n = 0;
    for (const Block& b : blocks_) n += b.bytes;
    return n;
  }

 private:
  struct Block { std::byte* data; std::size_t bytes; };

  void* allocate(std::size_t bytes) {
    bytes = checked::round_up(bytes == 0 ? std::size_t{1} : bytes, memory_alignment, "scratch size");
    while (current_ < blocks_.size() && blocks_[current_].bytes - used_ < bytes) { ++current_; used_ = 0; }
    if (current_ == blocks_.size()) {
      const std::size_t block = block_bytes_ << (blocks_.size() < 3 ? blocks_.size() : 3);  // few blocks, not too large
      const std::size_t size = bytes > block ? bytes : block;
      blocks_.reserve(blocks_.size() + 1);
      blocks_.push_back({static_cast<std::byte*>(memory_->allocate(size, memory_alignment)), size});
      used_ = 0;
    }
    void* p = blocks_[current_].data + used_;
    used_ += bytes;
    return p;
  }

  MemoryResource* memory_;
  std::size_t block_bytes_;
  std::vector<Block> blocks_;
  std::size_t current_ = 0, used_ = 0;
};

/// Gives back everything taken from `arena` during its lifetime.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) noexcept : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.reset(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace nibble
