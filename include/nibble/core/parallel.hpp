// SPDX-License-Identifier: MIT
// parallel_for: splits [0, n) into contiguous ranges. The split depends on `n` and `grain` alone, never
// on the number of threads, so whatever is computed per range is the same for any executor.
#pragma once

#include <algorithm>

#include "nibble/core/executor.hpp"

namespace nibble {

/// Calls body(begin, end, worker) for consecutive ranges of at most `grain` (>= 1) elements.
template <class Body>
void parallel_for(ExecutorRef executor, Index n, Index grain, Body&& body) {
  if (n <= 0) return;
  const Index tasks = (n + grain - 1) / grain;
  executor.run(tasks, [&](Index task, Index worker) {
    body(task * grain, std::min(n, (task + 1) * grain), worker);
  });
}

}  // namespace nibble
