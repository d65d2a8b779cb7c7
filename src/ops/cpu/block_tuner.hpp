// SPDX-License-Identifier: MIT
// Chooses among a few ways to cut a large product by timing each where it is used: the first calls of a shape take
// turns, later ones take the fastest. No result depends on the choice. One table serves the process, since caches and
// shapes are the same for all its contexts.
#pragma once

#include <compare>
#include <map>
#include <mutex>
#include <vector>

#include "nibble/backend/cpu.hpp"

namespace nibble::cpu_ops {

class BlockTuner {
 public:
  /// What a choice is good for.
  struct Shape {
    cpu::Isa isa;
    Index rows, cols, panels, weights, threads;
    auto operator<=>(const Shape&) const = default;
  };
  static constexpr int trials = 3;                  ///< of each choice; its best time counts, others were disturbed
  static constexpr std::size_t most_shapes = 1024;  ///< later ones get the first choice

  static BlockTuner& of_process();

  /// Which of `count` choices to use now; 0 is the expected best. Any thread.
  Index choose(const Shape& shape, Index count);
  /// How long a choice took, for one row.
  void report(const Shape& shape, Index choice, double seconds);

 private:
  struct Choice {
    int tried = 0;
    double seconds = 0;
  };
  std::mutex mutex_;
  std::map<Shape, std::vector<Choice>> shapes_;
};

}  // namespace nibble::cpu_ops
