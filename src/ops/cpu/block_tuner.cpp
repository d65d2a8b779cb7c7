// SPDX-License-Identifier: MIT
#include "ops/cpu/block_tuner.hpp"

#include <algorithm>

namespace nibble::cpu_ops {

BlockTuner& BlockTuner::of_process() {
  static BlockTuner tuner;
  return tuner;
}

Index BlockTuner::choose(const Shape& shape, Index count) {
  const std::lock_guard lock(mutex_);
  auto at = shapes_.find(shape);
  if (at == shapes_.end()) {
    if (shapes_.size() == most_shapes) return 0;
    at = shapes_.emplace(shape, std::vector<Choice>(static_cast<std::size_t>(count))).first;
  }
  const std::vector<Choice>& choices = at->second;
  const auto fewest = std::ranges::min_element(choices, {}, &Choice::tried);
  const auto best = fewest->tried < trials ? fewest : std::ranges::min_element(choices, {}, &Choice::seconds);
  return best - choices.begin();
}

void BlockTuner::report(const Shape& shape, Index choice, double seconds) {
  const std::lock_guard lock(mutex_);
  const auto at = shapes_.find(shape);
  if (at == shapes_.end()) return;
  Choice& c = at->second[static_cast<std::size_t>(choice)];
  if (c.tried == trials) return;
  c.seconds = c.tried == 0 ? seconds : std::min(c.seconds, seconds);
  ++c.tried;
}

}  // namespace nibble::cpu_ops
