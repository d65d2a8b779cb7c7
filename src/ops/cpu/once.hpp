// SPDX-License-Identifier: MIT
// OnceBlocks: preparation shared by the tasks of a parallel region without a barrier before it. Whoever needs
// a block that nobody has begun makes it; a block that another worker is making is waited for, after all
// blocks that can be begun. No task ever waits for one that has not started, so any executor will do.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "nibble/core/arena.hpp"

namespace nibble::cpu_ops {

class OnceBlocks {
 public:
  OnceBlocks() = default;
  /// State for `count` blocks, from the arena of the issuing thread.
  OnceBlocks(Arena& arena, Index count) : states_(arena.take<std::uint32_t>(count)) {
    for (std::uint32_t& s : states_) s = fresh;
  }

  Index size() const noexcept { return static_cast<Index>(states_.size()); }

  /// Calls make(block) for each of blocks [first, end) that nobody made, and returns when all are made and
  /// visible. The first to try is number `start` of them: workers that need the same blocks begin apart, so
  /// that neighbouring ones, whose results may share cache lines, are mostly one worker's. When make throws,
  /// so does this, and the block is anybody's again.
  template <class Make>
  void ensure(Index first, Index end, Index start, const Make& make) {
    const Index count = end - first;
    bool busy = false;
    for (Index i = 0; i < count; ++i) busy |= !try_block(first + (i + start) % count, make);
    for (Index i = 0; busy && i < count; ++i)
      for (int spins = 0; !try_block(first + i, make); ++spins)
        if (spins > 64) std::this_thread::yield();  // its maker may have lost its processor
  }

 private:
  static constexpr std::uint32_t fresh = 0, making = 1, made = 2;

  /// Whether the block is made now.
  template <class Make>
  bool try_block(Index block, const Make& make) {
    const std::atomic_ref<std::uint32_t> state(states_[static_cast<std::size_t>(block)]);
    std::uint32_t seen = state.load(std::memory_order_acquire);
    if (seen != fresh) return seen == made;
    if (!state.compare_exchange_strong(seen, making, std::memory_order_acquire)) return seen == made;
    try {
      make(block);
    } catch (...) {
      state.store(fresh, std::memory_order_release);
      throw;
    }
    state.store(made, std::memory_order_release);
    return true;
  }

  std::span<std::uint32_t> states_;
};

}  // namespace nibble::cpu_ops
