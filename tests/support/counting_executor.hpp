// SPDX-License-Identifier: MIT
// Executors of a host for tests: one that counts parallel regions, and one that runs tasks in an order of its
// own, one after the other, which no op may mind.
#pragma once

#include <algorithm>
#include <vector>

#include "nibble/core/random.hpp"
#include "nibble/core/thread_pool.hpp"

namespace nibble::test {

/// A pool that counts its regions; a single task is no region.
struct CountingExecutor {
  explicit CountingExecutor(Index threads) : pool(threads, threads) {}
  Index concurrency() const noexcept { return pool.concurrency(); }
  void run(Index tasks, ParallelBody body) {
    if (tasks > 1) ++regions;
    pool.run(tasks, body);
  }
  ThreadPool pool;
  Index regions = 0;
};

/// Claims to have workers, but runs all tasks on the calling thread: last task first, or shuffled.
struct OddExecutor {
  Index workers = 4;
  bool shuffled = false;
  Random random{5};
  Index concurrency() const noexcept { return workers; }
  void run(Index tasks, ParallelBody body) {
    std::vector<Index> order;
    for (Index t = tasks; t-- > 0;) order.push_back(t);
    for (std::size_t i = order.size(); shuffled && i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
    for (const Index t : order) body(t, static_cast<Index>(random.next() % static_cast<std::uint64_t>(workers)));
  }
};

}  // namespace nibble::test
