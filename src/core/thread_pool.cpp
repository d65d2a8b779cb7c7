// SPDX-License-Identifier: MIT
// ThreadPool: one region at a time. Its tasks are cut into contiguous shares, one per thread that may be
// awake; a thread works through its own share, then helps with the others.
//
//   epoch (32 bits)   [ region number | open ]            written by the caller alone
//   share (64 bits)   [ region number | tasks claimed ]   another region's number means: none claimed yet
//   busy              one per worker: it may be inside the region
//
// A worker enters by raising `busy` and looking at the epoch once more; the caller, when no task is left,
// closes the epoch and then looks at every `busy` (both orders sequentially consistent, so one of the two
// sees the other). Thus only those who entered are waited for: a worker that the system has not scheduled
// delays nobody, which keeps more threads than processors and busy neighbours bearable. No line is written by
// two threads unless one takes tasks from the other. Waiting is a short spin, then a futex.
#include "nibble/core/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "core/futex.hpp"
#include "nibble/core/contract.hpp"

namespace nibble {
namespace {

constexpr Index max_threads = 1024;
constexpr auto spin_time = std::chrono::microseconds(40);

/// Tasks of one region; share counters have 32 bits.
constexpr Index max_region_tasks = std::numeric_limits<std::int32_t>::max();
constexpr std::uint32_t open_bit = 1;
constexpr std::uint32_t last_region = std::numeric_limits<std::uint32_t>::max() >> 1;
/// Numbers begin shortly before they wrap, so that every pool lives through it, and every test.
constexpr std::uint32_t first_region = last_region - 1000;

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
  /// What one worker writes (and a thief, who takes from its share).
  struct alignas(64) Line {
    std::atomic<std::uint64_t> share{0};
    std::atomic<std::uint32_t> busy{0};
  };

  const Index threads, awake;  ///< workers beyond `awake` would only take turns: they are not started
  bool may_spin = true;
  unsigned born_after_forks = 0;
  std::vector<std::thread> workers;
  std::vector<Line> lines;  ///< [awake]
  std::mutex callers;       ///< one region at a time

  // The region, written by the caller before it opens the epoch.
  alignas(64) std::atomic<std::uint32_t> epoch{first_region << 1};
  std::atomic<bool> stop{false};
  Index tasks = 0, shares = 1;
  const ParallelBody* body = nullptr;

  alignas(64) std::atomic<Index> parked{0};
  std::atomic<std::uint32_t> caller_waits{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  ///< written by whoever set `failed`

  State(Index t, Index a) : threads(t), awake(a), lines(static_cast<std::size_t>(a)) {}
  bool forked() const noexcept { return fork_count.load(std::memory_order_relaxed) != born_after_forks; }
  Line& line(Index i) noexcept { return lines[static_cast<std::size_t>(i)]; }

  /// The next task of a share, or -1.
  Index claim(Index share) noexcept {
    const Index begin = tasks * share / shares, count = tasks * (share + 1) / shares - begin;
    const std::uint64_t region = epoch.load(std::memory_order_relaxed) >> 1;
    std::atomic<std::uint64_t>& word = line(share).share;
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    for (;;) {
      const auto next = static_cast<Index>(seen >> 32 == region ? seen & 0xFFFFFFFF : 0);
      if (next >= count) return -1;
      const std::uint64_t taken = region << 32 | static_cast<std::uint64_t>(next + 1);
      if (word.compare_exchange_weak(seen, taken, std::memory_order_relaxed)) return begin + next;
    }
  }

  void work(Index worker) noexcept {
    const FrameScope scope(this, worker);
    for (Index i = 0; i < shares; ++i) {
      const Index share = (worker + i) % shares;
      for (Index task = claim(share); task >= 0; task = claim(share)) {
        if (failed.load(std::memory_order_relaxed)) return;  // what is not begun is dropped
        try {
          (*body)(task, worker);
        } catch (...) {
          if (!failed.exchange(true)) error = std::current_exception();
          return;
        }
      }
    }
  }

  /// Waits for a region other than `seen` to be open; returns its epoch.
  std::uint32_t await_region(std::uint32_t seen) noexcept {
    std::uint32_t now = seen;
    const auto news = [&] {
      now = epoch.load();
      return (now & open_bit) != 0 && now != seen;
    };
    if (may_spin && spin_until(news)) return now;
    parked.fetch_add(1);
    while (!news()) detail::futex_wait(epoch, now);
    parked.fetch_sub(1);
    return now;
  }

  void worker_loop(Index worker) noexcept {
    Line& own = line(worker);
    std::uint32_t seen = first_region << 1;
    for (;;) {
      seen = await_region(seen);
      if (stop.load()) return;
      own.busy.exchange(1);
      if (epoch.load() == seen) work(worker);
      own.busy.exchange(0);
      if (caller_waits.load() != 0 && caller_waits.exchange(0) != 0) detail::futex_wake(caller_waits, 1);
    }
  }

  void open(Index count, const ParallelBody& b) noexcept {
    body = &b;
    tasks = count;
    shares = std::min(count, awake);
    failed.store(false, std::memory_order_relaxed);
    std::uint32_t region = (epoch.load(std::memory_order_relaxed) >> 1) + 1;
    if (region > last_region) {  // old claims must not look like claims of the new round
      region = 1;
      for (Line& l : lines) l.share.store(0, std::memory_order_relaxed);
    }
    publish(region << 1 | open_bit, count - 1);
  }

  void publish(std::uint32_t now, Index helpers) noexcept {
    epoch.store(now);
    const Index sleepers = std::min(parked.load(), helpers);
    if (sleepers > 0) detail::futex_wake(epoch, static_cast<int>(sleepers));
  }

  void close() noexcept {
    epoch.store(epoch.load(std::memory_order_relaxed) & ~open_bit);
    for (Index w = 1; w < awake; ++w) {
      std::atomic<std::uint32_t>& busy = line(w).busy;
      const auto idle = [&] { return busy.load() == 0; };
      if (idle() || (may_spin && spin_until(idle))) continue;
      while (!idle()) {
        caller_waits.store(1);
        if (!idle()) detail::futex_wait(caller_waits, 1);
      }
      caller_waits.store(0);
    }
  }
};

ThreadPool::ThreadPool(Index threads, Index awake) {
  const Index processors = available_processors();
  if (threads == 0) threads = std::min(processors, max_threads);
  NIBBLE_EXPECTS(threads >= 1 && threads <= max_threads,
                 "a thread pool has 1 to 1024 threads, not " + std::to_string(threads));
  NIBBLE_EXPECTS(awake >= 0, "the number of threads awake at once cannot be negative");
  watch_forks();
  state_ = std::make_unique<State>(threads, std::min(threads, awake == 0 ? processors : awake));
  State& s = *state_;
  s.may_spin = s.awake <= processors;
  s.born_after_forks = fork_count.load();
  try {
    s.workers.reserve(static_cast<std::size_t>(s.awake - 1));
    for (Index w = 1; w < s.awake; ++w) s.workers.emplace_back([&s, w] { s.worker_loop(w); });
  } catch (...) {
    shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (state_->forked()) {
    static_cast<void>(state_.release());  // its threads and locks are the parent process's: neither can be ended here
    return;
  }
  shut_down();
}

void ThreadPool::shut_down() noexcept {
  State& s = *state_;
  const std::lock_guard last(s.callers);  // a region of another thread ends first
  s.stop.store(true);
  s.publish((s.epoch.load() + 2) | open_bit, max_threads);
  for (std::thread& t : s.workers) t.join();
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
  if (tasks == 1 || s.awake == 1) {
    const FrameScope scope(&s, 0);
    for (Index t = 0; t < tasks; ++t) body(t, 0);
    return;
  }
  for (Index first = 0; first < tasks; first += max_region_tasks) {
    const auto part = [&](Index task, Index worker) { body(first + task, worker); };
    const ParallelBody whole_or_part = first == 0 ? body : ParallelBody(part);
    s.open(std::min(max_region_tasks, tasks - first), whole_or_part);
    s.work(0);
    s.close();
    if (s.failed.load()) std::rethrow_exception(std::exchange(s.error, nullptr));
  }
}

}  // namespace nibble
