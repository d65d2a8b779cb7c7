// SPDX-License-Identifier: MIT
// Shares of what the machine can do: rates per instruction set and number of threads, measured once a run,
// and the counters made of them. The columns of a row:
//   GB/s, Gop/s   what the row did, by the bytes it must move and two operations per multiply-add
//   read %        of the measured read rate of the memory that the row's data lies in
//   peak %        of the measured peak rate of the instruction that the row's arithmetic needs
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "nibble/backend/machine_rates.hpp"

namespace nibble::bench {

using Cpu = ExecutionContext<cpu::Backend>;

enum class Level { cache, memory };  ///< where a row's data lies

/// What one iteration does.
struct Work {
  double bytes = 0, ops = 0;
  Level level = Level::cache;
  Arithmetic arithmetic = Arithmetic::float32;
};

inline constexpr std::size_t cache_bytes = std::size_t{16} << 10;    ///< per thread: in a core's first cache
inline constexpr std::size_t memory_bytes = std::size_t{128} << 20;  ///< of rows whose data lies in memory

struct Rates {
  double integer_ops, bfloat_ops, float_ops, cache_read, memory_read;

  double peak(Arithmetic a) const {
    return a == Arithmetic::int8 ? integer_ops : a == Arithmetic::bfloat16 ? bfloat_ops : float_ops;
  }
};

/// Measured on first use. Call it before the timed loop.
inline const Rates& rates_of(Cpu& context) {
  static std::map<std::pair<cpu::Isa, Index>, Rates> all;
  const auto key = std::pair{context.isa(), context.concurrency()};
  auto found = all.find(key);
  if (found == all.end())
    found = all.emplace(key, Rates{measure_integer_ops(context), measure_bfloat_ops(context),
                                   measure_float_ops(context),
                                   measure_read(context, cache_bytes * std::size_t(context.concurrency())),
                                   measure_read(context, memory_bytes)})
                .first;
  return found->second;
}

/// Runs `call` in the benchmark's loop and sets the counters from the time that passed.
template <class Call>
void run_loop(benchmark::State& state, Cpu& context, const Work& work, Call&& call) {
  const Rates& rates = rates_of(context);
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    call();
    benchmark::ClobberMemory();
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double calls_per_s = static_cast<double>(state.iterations()) / std::max(passed.count(), 1e-9);
  const double read = work.level == Level::cache ? rates.cache_read : rates.memory_read;
  const double peak = rates.peak(work.arithmetic);
  if (work.bytes > 0) {
    state.counters["GB/s"] = calls_per_s * work.bytes / 1e9;
    state.counters["read %"] = 100 * calls_per_s * work.bytes / read;
  }
  if (work.ops > 0) {
    state.counters["Gop/s"] = calls_per_s * work.ops / 1e9;
    state.counters["peak %"] = 100 * calls_per_s * work.ops / peak;
  }
}

}  // namespace nibble::bench
