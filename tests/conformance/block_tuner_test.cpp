// SPDX-License-Identifier: MIT
// The choice of blocks: all get their turns, the fastest stays, disturbances are forgiven, shapes stand for themselves.
#include "ops/cpu/block_tuner.hpp"

#include <array>
#include <thread>

#include "support/catch.hpp"

using namespace nibble;
using nibble::cpu_ops::BlockTuner;

namespace {
BlockTuner::Shape shape_of(Index cols) { return {cpu::Isa::scalar, 512, cols, 48, 1, 2}; }
}  // namespace

TEST_CASE("a tuner tries every choice and keeps the fastest", "[tuning]") {
  BlockTuner tuner;
  const std::array<double, 3> seconds{3, 1, 2};
  std::array<int, 3> turns{};
  for (int i = 0; i < 3 * BlockTuner::trials; ++i) {
    const Index c = tuner.choose(shape_of(64), 3);
    const auto at = static_cast<std::size_t>(c);
    tuner.report(shape_of(64), c, seconds[at] + (turns[at]++ == 0 ? 10 : 0));  // the first of each was disturbed
  }
  for (const int t : turns) CHECK(t == BlockTuner::trials);
  CHECK(tuner.choose(shape_of(64), 3) == 1);
  tuner.report(shape_of(64), 0, 1e-9);  // too late to count
  CHECK(tuner.choose(shape_of(64), 3) == 1);
  CHECK(tuner.choose(shape_of(65), 3) == 0);  // another shape begins with what is expected
}

TEST_CASE("a tuner's table is bounded and serves many threads", "[tuning]") {
  BlockTuner tuner;
  for (std::size_t i = 0; i < BlockTuner::most_shapes; ++i) CHECK(tuner.choose(shape_of(Index(i)), 2) == 0);
  const BlockTuner::Shape late = shape_of(-1);
  tuner.report(late, 0, 1.0);
  tuner.report(late, 1, 0.5);
  CHECK(tuner.choose(late, 2) == 0);

  std::array<std::thread, 4> threads;
  for (std::thread& t : threads)
    t = std::thread([&] {
      for (int i = 0; i < 200; ++i) {
        const Index c = tuner.choose(shape_of(7), 2);
        tuner.report(shape_of(7), c, c == 0 ? 2.0 : 1.0);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(tuner.choose(shape_of(7), 2) == 1);
}
