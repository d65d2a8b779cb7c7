// SPDX-License-Identifier: MIT
// ThreadPool: one region at a time, its tasks claimed from a shared counter.
//
//   gate (64 bits)   [ region number | open | workers inside ]
//
// A worker enters a region by adding itself to the gate while the region is open and leaves by taking
// itself off. The caller works too, closes the gate when no task is left, and waits only for those who
// entered: a worker that the system has not scheduled yet delays nobody, which is what keeps 16 threads
// on 2 processors usable. Waiting is a short spin (only where every thread can have a processor), then
// a condition variable.
#include "nibble/core/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "nibble/core/contract.hpp"

namespace nibble {
namespace {

constexpr Index max_threads = 1024;
constexpr auto spin_time = std::chrono::microseconds(40);

constexpr std::uint64_t inside_mask = 0xFFFF;
constexpr std::uint64_t open_bit = std::uint64_t{1} << 16;
constexpr std::uint64_t region_one = std::uint64_t{1} << 17;

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done()` or the time is up; whether it is done.
template <class Done>
bool spin_until(Done&& done) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

/// Counts forks on the child's side: a pool made before it has no workers there.
std::atomic<unsigned> fork_count{0};

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1); }); });
}

/// Pools whose bodies the current thread is inside of, innermost first.
struct Frame {
  const void* pool;
  Index worker;
  const Frame* outer;
};
thread_local const Frame* innermost = nullptr;

struct FrameScope {
  Frame frame;
  FrameScope(const void* pool, Index worker) noexcept : frame{pool, worker, innermost} { innermost = &frame; }
  ~FrameScope() { innermost = frame.outer; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;
};

}  // namespace

struct ThreadPool::State {
  Index threads = 1;
  bool may_spin = true;
  Index wake_limit = 0;  ///< more awake workers than processors only take turns
  unsigned born_after_forks = 0;
  std::vector<std::thread> workers;
  std::mutex callers;  ///< one region at a time

  // The region, written by the caller before it opens the gate.
  const ParallelBody* body = nullptr;
  Index tasks = 0;
  alignas(64) std::atomic<Index> next{0};
  alignas(64) std::atomic<std::uint64_t> gate{0};
  alignas(64) std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  ///< written by whoever set `failed`

  std::mutex sleep;
  std::condition_variable wake_workers, wake_caller;
  std::atomic<Index> parked{0};
  std::atomic<bool> caller_parked{false};

  bool forked() const noexcept { return fork_count.load(std::memory_order_relaxed) != born_after_forks; }

  void work(Index worker) noexcept {
    const FrameScope scope(this, worker);
    for (;;) {
      const Index task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      try {
        (*body)(task, worker);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
        next.store(tasks, std::memory_order_relaxed);  // what is not begun is dropped
      }
    }
  }

  /// Waits for a region newer than `seen`, or for the end of the pool.
  std::uint64_t await_region(std::uint64_t seen) {
    const auto news = [&] {
      const std::uint64_t g = gate.load();
      return (g / region_one != seen && (g & open_bit) != 0) || stop.load();
    };
    if (!(may_spin && spin_until(news))) {
      std::unique_lock lock(sleep);
      parked.fetch_add(1);
      wake_workers.wait(lock, news);
      parked.fetch_sub(1);
    }
    return gate.load();
  }

  void worker_loop(Index worker) {
    std::uint64_t seen = 0;
    for (;;) {
      std::uint64_t g = await_region(seen);
      if (stop.load()) return;
      while ((g & open_bit) != 0 && g / region_one != seen) {
        if (!gate.compare_exchange_weak(g, g + 1)) continue;
        seen = g / region_one;
        work(worker);
        leave();
        break;
      }
    }
  }

  void leave() {
    const std::uint64_t before = gate.fetch_sub(1);
    if ((before & inside_mask) == 1 && (before & open_bit) == 0 && caller_parked.load()) {
      const std::lock_guard lock(sleep);
      wake_caller.notify_one();
    }
  }

  void open(Index count, const ParallelBody& b) {
    body = &b;
    tasks = count;
    failed.store(false, std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
    gate.store((gate.load() / region_one + 1) * region_one | open_bit);
    Index sleepers = std::min({parked.load(), count - 1, wake_limit});
    if (sleepers <= 0) return;
    const std::lock_guard lock(sleep);
    for (; sleepers > 0; --sleepers) wake_workers.notify_one();
  }

  void close() {
    const auto empty = [&] { return (gate.load() & inside_mask) == 0; };
    gate.fetch_and(~open_bit);
    if (empty() || (may_spin && spin_until(empty))) return;
    std::unique_lock lock(sleep);
    caller_parked.store(true);
    wake_caller.wait(lock, empty);
    caller_parked.store(false);
  }
};

ThreadPool::ThreadPool(Index threads) : state_(std::make_unique<State>()) {
  const Index processors = available_processors();
  if (threads == 0) threads = std::min(processors, max_threads);
  NIBBLE_EXPECTS(threads >= 1 && threads <= max_threads,
                 "a thread pool has 1 to 1024 threads, not " + std::to_string(threads));
  watch_forks();
  State& s = *state_;
  s.threads = threads;
  s.may_spin = threads <= processors;
  s.wake_limit = std::min(threads, processors + 1) - 1;
  s.born_after_forks = fork_count.load();
  try {
    s.workers.reserve(static_cast<std::size_t>(threads - 1));
    for (Index w = 1; w < threads; ++w) s.workers.emplace_back([&s, w] { s.worker_loop(w); });
  } catch (...) {
    shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (state_->forked()) {
    state_.release();  // its threads and its locks belong to the parent process: neither can be ended here
    return;
  }
  shut_down();
}

void ThreadPool::shut_down() noexcept {
  {
    const std::lock_guard lock(state_->sleep);
    state_->stop.store(true);
  }
  state_->wake_workers.notify_all();
  for (std::thread& t : state_->workers) t.join();
}

Index ThreadPool::concurrency() const noexcept { return state_->threads; }

void ThreadPool::run(Index tasks, ParallelBody body) {
  State& s = *state_;
  if (tasks <= 0) return;
  for (const Frame* f = innermost; f != nullptr; f = f->outer) {
    if (f->pool != &s) continue;  // nested: this worker's scratch is its own, so it goes on alone
    for (Index t = 0; t < tasks; ++t) body(t, f->worker);
    return;
  }
  if (s.forked()) {
    const FrameScope scope(&s, 0);
    for (Index t = 0; t < tasks; ++t) body(t, 0);
    return;
  }
  const std::lock_guard one_at_a_time(s.callers);
  if (tasks == 1 || s.threads == 1) {
    const FrameScope scope(&s, 0);
    for (Index t = 0; t < tasks; ++t) body(t, 0);
    return;
  }
  s.open(tasks, body);
  s.work(0);
  s.close();
  if (s.failed.load()) {
    const std::exception_ptr error = std::exchange(s.error, nullptr);
    std::rethrow_exception(error);
  }
}

}  // namespace nibble
