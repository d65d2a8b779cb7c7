// SPDX-License-Identifier: MIT
// OnceBlocks: every block made exactly once and seen by all who asked, with real threads and with executors
// that run tasks in any order; a maker that throws leaves its block to others.
#include "ops/cpu/once.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "nibble/core/error.hpp"
#include "support/catch.hpp"
#include "support/counting_executor.hpp"

using namespace nibble;
using namespace nibble::test;
using cpu_ops::OnceBlocks;

namespace {

constexpr Index blocks = 13, tasks = 40;

/// Each task needs a range of blocks; all of them must hold what their maker wrote, plain memory.
template <class E>
void check_on(E& executor) {
  Arena arena;
  for (int round = 0; round < 50; ++round) {
    const ArenaScope scope(arena);
    OnceBlocks once(arena, blocks);
    REQUIRE(once.size() == blocks);
    std::vector<int> made(blocks, 0);
    std::atomic<int> wrong{0};
    executor.run(tasks, [&](Index task, Index worker) {
      const Index first = task % blocks, end = std::min(blocks, first + 1 + task % 5);
      once.ensure(first, end, worker, [&](Index block) { ++made[std::size_t(block)]; });
      for (Index b = first; b < end; ++b) wrong += made[std::size_t(b)] != 1;
    });
    REQUIRE(wrong == 0);
  }
}

}  // namespace

TEST_CASE("every block is made once, before anyone goes on") {
  for (const Index threads : {1, 2, 4}) {
    ThreadPool pool(threads, threads);
    check_on(pool);
  }
}

TEST_CASE("tasks in any order, one after the other, are no deadlock") {
  OddExecutor backwards, shuffled{.shuffled = true};
  check_on(backwards);
  check_on(shuffled);
}

TEST_CASE("a block whose maker failed is made by the next who needs it") {
  Arena arena;
  OnceBlocks once(arena, 1);
  CHECK_THROWS_AS(once.ensure(0, 1, 0, [](Index) { throw Error(Errc::internal, "no memory"); }), Error);
  int made = 0;
  once.ensure(0, 1, 0, [&](Index) { ++made; });
  once.ensure(0, 1, 0, [&](Index) { ++made; });
  CHECK(made == 1);
}

TEST_CASE("who waits for a maker that fails makes the block itself") {
  for (int round = 0; round < 20; ++round) {
    Arena arena;
    OnceBlocks once(arena, 1);
    std::atomic<bool> begun{false};
    std::thread failing([&] {
      try {
        once.ensure(0, 1, 0, [&](Index) {
          begun = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          throw Error(Errc::internal, "no memory");
        });
      } catch (const Error&) {
      }
    });
    while (!begun) std::this_thread::yield();
    int made = 0;
    once.ensure(0, 1, 1, [&](Index) { ++made; });
    failing.join();
    CHECK(made == 1);
  }
}
