// SPDX-License-Identifier: MIT
// nibble's own pool. The caller is worker 0; the others spin briefly for the next region, then park, so
// that more threads than cores, or a busy neighbour, cost little. Tasks are claimed from a shared
// counter. Exceptions come back at the join; nested calls run inline; a forked child falls back to the
// calling thread.
#pragma once

#include <memory>

#include "nibble/core/executor.hpp"
#include "nibble/core/export.hpp"

namespace nibble {

/// Thread-safe to share, but regions from different threads run one after the other.
class NIBBLE_API ThreadPool {
 public:
  /// `threads` includes the caller; 0 means every processor this process may use.
  /// Throws Error{invalid_argument} above 1024.
  explicit ThreadPool(Index threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  Index concurrency() const noexcept;
  void run(Index tasks, ParallelBody body);

 private:
  struct State;
  void shut_down() noexcept;
  std::unique_ptr<State> state_;
};

/// Processors this process may run on (affinity mask and cgroup quota respected), at least 1.
NIBBLE_API Index available_processors() noexcept;

}  // namespace nibble
