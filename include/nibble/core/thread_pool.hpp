// SPDX-License-Identifier: MIT
// nibble's own pool. The caller is worker 0; the others spin briefly for the next region, then park, so
// that more threads than cores, or a busy neighbour, cost little. Each worker has a contiguous share of the
// tasks and helps with the others' when it is done. Exceptions come back at the join; nested calls run
// inline; a forked child falls back to the calling thread.
#pragma once

#include <memory>

#include "nibble/core/executor.hpp"
#include "nibble/core/export.hpp"

namespace nibble {

/// Thread-safe to share, but regions from different threads run one after the other.
class NIBBLE_API ThreadPool {
 public:
  /// `threads` includes the caller; 0 means every processor this process may use. No more than `awake` of them
  /// run at once (0: as many as there are processors): worker indices stay below that too.
  /// Throws Error{invalid_argument} above 1024.
  explicit ThreadPool(Index threads = 0, Index awake = 0);
  /// Waits for a region that another thread is running; after it no thread may call `run`.
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
