// SPDX-License-Identifier: MIT
// The thread pool: every task once, worker indices exclusive, exceptions back at the join, nested and
// concurrent callers, more threads than processors, forks; and what counts as an available processor.
#include "nibble/core/thread_pool.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/processors.hpp"
#include "nibble/core/error.hpp"
#include "nibble/core/parallel.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool under_tsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool under_tsan = true;
#else
constexpr bool under_tsan = false;
#endif
#else
constexpr bool under_tsan = false;
#endif

const std::vector<Index> pool_sizes{1, 2, 3, 8, 16};

/// A pool whose threads all take part, whatever the number of processors.
struct FullPool : ThreadPool {
  explicit FullPool(Index threads) : ThreadPool(threads, threads) {}
};

void spend(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {}
}

}  // namespace

TEST_CASE("every task runs once, and a worker is never in two tasks at once", "[pool]") {
  for (const Index threads : pool_sizes) {
    FullPool pool(threads);
    REQUIRE(pool.concurrency() == threads);
    for (const Index tasks : {0, 1, 2, 7, 100, 1000}) {
      std::vector<std::atomic<int>> ran(static_cast<std::size_t>(tasks)),
          inside(static_cast<std::size_t>(threads));
      std::atomic<bool> clash{false};
      pool.run(tasks, [&](Index task, Index worker) {
        if (worker < 0 || worker >= threads || inside[std::size_t(worker)].fetch_add(1) != 0) clash = true;
        ran[std::size_t(task)].fetch_add(1);
        inside[std::size_t(worker)].fetch_sub(1);
      });
      REQUIRE_FALSE(clash);
      REQUIRE(std::all_of(ran.begin(), ran.end(), [](const auto& n) { return n == 1; }));
    }
  }
}

TEST_CASE("results written by workers are seen by the caller, region after region", "[pool]") {
  FullPool pool(4);
  std::vector<long> numbers(64, 0);  // plain memory: the join must order it
  for (int region = 1; region <= 2000; ++region) {
    pool.run(64, [&](Index task, Index) { numbers[std::size_t(task)] += region; });
    REQUIRE(numbers[std::size_t(region % 64)] == long(region) * (region + 1) / 2);
  }
}

TEST_CASE("the first exception comes back and the pool goes on", "[pool]") {
  for (const Index threads : pool_sizes) {
    FullPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> ran{0};
      CHECK_THROWS_WITH(pool.run(50,
                                 [&](Index task, Index) {
                                   ran.fetch_add(1);
                                   if (task % 10 == 3) throw Error(Errc::internal, "task failed");
                                 }),
                        "task failed");
      CHECK(ran >= 1);
      CHECK(ran <= 50);
      std::atomic<int> after{0};
      pool.run(50, [&](Index, Index) { after.fetch_add(1); });
      REQUIRE(after == 50);
    }
  }
}

TEST_CASE("a nested region runs on its worker alone", "[pool]") {
  for (const Index threads : pool_sizes) {
    FullPool pool(threads);
    std::atomic<int> inner{0};
    std::atomic<bool> moved{false};
    pool.run(20, [&](Index, Index worker) {
      pool.run(5, [&](Index, Index nested) {
        inner.fetch_add(1);
        if (nested != worker) moved = true;
      });
    });
    CHECK(inner == 100);
    CHECK_FALSE(moved);
    CHECK_THROWS_AS(
        pool.run(3,
                 [&](Index, Index) { pool.run(2, [](Index, Index) { throw Error(Errc::internal, "x"); }); }),
        Error);
  }
}

TEST_CASE("one pool may be used from inside another", "[pool]") {
  ThreadPool outer(3), inner(2);
  std::atomic<int> ran{0};
  outer.run(6, [&](Index, Index) { inner.run(4, [&](Index, Index) { ran.fetch_add(1); }); });
  CHECK(ran == 24);
}

TEST_CASE("callers on different threads take turns", "[pool]") {
  FullPool pool(3);
  std::vector<std::atomic<int>> inside(std::size_t{3});
  std::atomic<bool> clash{false};
  std::atomic<int> ran{0};
  const auto caller = [&] {
    for (int i = 0; i < 200; ++i)
      pool.run(6, [&](Index, Index worker) {
        if (inside[std::size_t(worker)].fetch_add(1) != 0) clash = true;
        ran.fetch_add(1);
        inside[std::size_t(worker)].fetch_sub(1);
      });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(caller);
  for (std::thread& t : callers) t.join();
  CHECK(ran == 4 * 200 * 6);
  CHECK_FALSE(clash);
}

TEST_CASE("pools begin and end quickly, used or not, awake or parked", "[pool]") {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 3 == 0) pool.run(4, [](Index, Index) {});
    if (i % 20 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // workers are parked now
      pool.run(4, [](Index, Index) {});
    }
  }
  CHECK_THROWS_AS(ThreadPool(-1), Error);
  CHECK_THROWS_AS(ThreadPool(2, -1), Error);
  CHECK_THROWS_AS(ThreadPool(1025), Error);
  CHECK(ThreadPool(0).concurrency() == available_processors());
}

TEST_CASE("a pool ends after the region that another thread is running", "[pool]") {
  for (const Index threads : {1, 2, 5}) {
    auto pool = std::make_unique<FullPool>(threads);
    std::atomic<int> ran{0};
    std::atomic<bool> begun{false};
    std::thread caller([&, p = pool.get()] {
      p->run(20, [&](Index, Index) {
        begun = true;
        spend(std::chrono::microseconds(200));
        ran.fetch_add(1);
      });
    });
    while (!begun) std::this_thread::yield();
    pool.reset();
    CHECK(ran == 20);
    caller.join();
  }
}

TEST_CASE("pools end while their workers wake up, spin or fall asleep", "[pool]") {
  for (int i = 0; i < 200; ++i) {
    FullPool pool(4);
    pool.run(8, [](Index, Index) {});
    std::this_thread::sleep_for(std::chrono::microseconds(i));  // around the time a worker spins
  }
}

TEST_CASE("whoever is done takes over the tasks of one who is not", "[pool]") {
  for (const Index threads : {2, 3, 8}) {
    FullPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      constexpr Index tasks = 64;
      std::atomic<Index> done{0};
      std::vector<Index> by(tasks);
      pool.run(tasks, [&](Index task, Index worker) {
        by[std::size_t(task)] = worker;
        if (task == 0)  // stays until all others have run: its owner's share is left to the rest
          while (done.load() != tasks - 1) std::this_thread::yield();
        done.fetch_add(1);
      });
      REQUIRE(done == tasks);
      CHECK(std::count(by.begin(), by.end(), by[0]) < tasks);
    }
  }
}

TEST_CASE("each worker begins with its own share", "[pool]") {
  for (const Index threads : {2, 3, 8}) {
    FullPool pool(threads);
    for (int round = 0; round < 10; ++round) {
      std::vector<Index> first(std::size_t(threads), -1);
      std::atomic<Index> inside{0};
      pool.run(threads * 5, [&](Index task, Index worker) {
        if (first[std::size_t(worker)] >= 0) return;
        first[std::size_t(worker)] = task;
        inside.fetch_add(1);
        while (inside.load() < threads) std::this_thread::yield();  // until all have begun
      });
      for (Index w = 0; w < threads; ++w) REQUIRE(first[std::size_t(w)] == w * 5);
    }
  }
}

TEST_CASE("threads beyond the processors stay out of the way", "[pool][oversubscribed]") {
  ThreadPool pool(16, 2);
  CHECK(pool.concurrency() == 16);
  std::atomic<Index> highest{0};
  for (int round = 0; round < 50; ++round)
    pool.run(64, [&](Index, Index worker) {
      for (Index seen = highest.load(); seen < worker && !highest.compare_exchange_weak(seen, worker);) {}
      spend(std::chrono::microseconds(5));
    });
  CHECK(highest < 2);
}

TEST_CASE("a parallel_for of one range inside a body keeps that body's worker", "[pool]") {
  ThreadPool pool(4);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 50; ++round)
    pool.run(64, [&](Index, Index worker) {
      parallel_for(pool, 1, 8, [&](Index, Index, Index inner) { wrong += inner != worker; });
      spend(std::chrono::microseconds(2));
    });
  CHECK(wrong == 0);
}

TEST_CASE("parked workers wake for work", "[pool]") {
  ThreadPool pool(2);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> ran{0};
    pool.run(8, [&](Index, Index) { ran.fetch_add(1); });
    REQUIRE(ran == 8);
  }
}

// A spinning barrier made 16 threads on 2 cores take minutes where 2 threads took seconds.
TEST_CASE("more threads than processors cost at most three times as much", "[pool][oversubscribed]") {
  const auto decode_like = [](Index threads) {
    ThreadPool pool(threads);
    const auto start = std::chrono::steady_clock::now();
    for (int region = 0; region < 100; ++region)
      pool.run(32, [](Index, Index) { spend(std::chrono::microseconds(10)); });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // Neighbours on the machine disturb single runs: best of several, in turn, ended by the first good one.
  double two = 1e9, sixteen = 1e9;
  for (int attempt = 0; attempt < 60 && (attempt < 2 || sixteen > 3.0 * two); ++attempt) {
    two = std::min(two, decode_like(2));
    sixteen = std::min(sixteen, decode_like(16));
  }
  INFO("2 threads " << two << " s, 16 threads " << sixteen << " s");
  if (under_tsan) WARN("skipped: ThreadSanitizer slows waking more than work, so the ratio of times says nothing");
  else CHECK(sixteen <= 3.0 * two);
}

TEST_CASE("a forked child runs regions on its only thread and can end the pool", "[pool][fork]") {
  if (under_tsan) {
    WARN("skipped: ThreadSanitizer does not follow threads through a fork");
    return;
  }
  auto pool = std::make_unique<ThreadPool>(4);
  std::atomic<int> before{0};
  pool->run(8, [&](Index, Index) { before.fetch_add(1); });
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int ran = 0;
    bool alone = true;
    pool->run(8, [&](Index, Index worker) {
      ++ran;
      alone = alone && worker == 0;
    });
    pool.reset();
    ThreadPool own(2);  // a pool made in the child has its workers
    std::atomic<int> more{0};
    own.run(8, [&](Index, Index) { more.fetch_add(1); });
    _exit(ran == 8 && alone && more == 8 ? 0 : 1);
  }
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 1000 && !ended; ++i) {
    ended = waitpid(child, &status, WNOHANG) == child;
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!ended) kill(child, SIGKILL);
  REQUIRE(ended);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::atomic<int> after{0};
  pool->run(8, [&](Index, Index) { after.fetch_add(1); });
  CHECK(after == 8);
}

TEST_CASE("parallel_for cuts by the grain alone", "[pool]") {
  for (const Index threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> seen(std::size_t{103});
    std::atomic<int> ranges{0};
    parallel_for(pool, 103, 10, [&](Index begin, Index end, Index) {
      ranges.fetch_add(1);
      for (Index i = begin; i < end; ++i) seen[std::size_t(i)].fetch_add(1);
    });
    CHECK(ranges == 11);
    CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n == 1; }));
    parallel_for(pool, 0, 10, [&](Index, Index, Index) { ranges.fetch_add(1); });
    CHECK(ranges == 11);
  }
}

TEST_CASE("processor quotas of control groups are understood", "[pool][cgroup]") {
  using namespace nibble::detail;
  CHECK(parse_cpu_max("200000 100000\n") == 2.0);
  CHECK(parse_cpu_max("50000 100000") == 0.5);
  CHECK(parse_cpu_max("150000\n") == 1.5);
  for (const char* none : {"max 100000\n", "", "x", "0 100000", "-1 100000", "100 0", "100 x", "1e5 100000"})
    CHECK_FALSE(parse_cpu_max(none).has_value());
  CHECK(parse_cpu_quota("400000\n", "100000\n") == 4.0);
  CHECK_FALSE(parse_cpu_quota("-1\n", "100000\n").has_value());

  CHECK(find_cgroup("0::/user.slice/app\n", "") == "/user.slice/app");
  CHECK(find_cgroup("12:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n", "cpu") == "/docker/abc");
  CHECK_FALSE(find_cgroup("12:cpuset:/docker/abc\n", "cpu").has_value());
  CHECK_FALSE(find_cgroup("12:cpu:/docker/abc\n", "").has_value());
  CHECK_FALSE(find_cgroup("0::/../../etc\n", "").has_value());
  CHECK_FALSE(find_cgroup("garbage", "").has_value());

  CHECK(available_processors() >= 1);
  CHECK(available_processors() <= Index(std::max(1u, std::thread::hardware_concurrency())));
}
