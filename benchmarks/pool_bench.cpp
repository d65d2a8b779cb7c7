// SPDX-License-Identifier: MIT
// What a parallel region of the thread pool costs beyond its work.
//   region/empty    tasks that do nothing: entry and exit, whoever runs them
//   region/work     one task of 5 us per thread: `overhead_us` is the time beyond those 5 us, so it holds the
//                   hand-over to a spinning worker and back
//   region/parked   the same after a millisecond of silence: workers have to be woken
//   region/decode   32 tasks of 10 us, as a layer's matrix product in decode; `efficiency` is work / (threads *
//                   time), where threads beyond the processors do not count
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "nibble/core/thread_pool.hpp"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;

void spend(std::chrono::nanoseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {}
}

void empty(benchmark::State& state, Index threads) {
  ThreadPool pool(threads);
  for (auto _ : state) pool.run(threads, [](Index, Index) {});
}

/// One task per thread; the best of all regions too, since a neighbour on the machine disturbs the mean.
void work(benchmark::State& state, Index threads, bool park) {
  constexpr std::chrono::nanoseconds each(5000);
  ThreadPool pool(threads);
  double best = 1e9;
  for (auto _ : state) {
    if (park) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto start = Clock::now();
    pool.run(threads, [&](Index, Index) { spend(each); });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["overhead_us"] = 1e6 * best - 1e-3 * static_cast<double>(each.count());
}

void decode(benchmark::State& state, Index threads) {
  constexpr Index tasks = 32;
  constexpr std::chrono::nanoseconds each(10000);
  ThreadPool pool(threads);
  for (auto _ : state) pool.run(tasks, [&](Index, Index) { spend(each); });
  const double useful = static_cast<double>(std::min(threads, available_processors()));
  state.counters["efficiency"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * tasks * 1e-9 * static_cast<double>(each.count()) / useful,
      benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const Index threads : {1, 2, 4, 16}) {
    const std::string t = "/t" + std::to_string(threads);
    const auto add = [&](const std::string& name, auto&& body) {
      return benchmark::RegisterBenchmark(("region/" + name + t).c_str(), body);
    };
    add("empty", [=](benchmark::State& s) { empty(s, threads); })->UseRealTime();
    add("work", [=](benchmark::State& s) { work(s, threads, false); })->UseManualTime();
    add("parked", [=](benchmark::State& s) { work(s, threads, true); })->UseManualTime()->Iterations(300);
    add("decode", [=](benchmark::State& s) { decode(s, threads); })->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
