// SPDX-License-Identifier: MIT
// Rates are those of the best of several regions: an interruption can only slow a region down.
#include "nibble/backend/machine_rates.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cpu/dispatch.hpp"
#include "nibble/core/contract.hpp"

namespace nibble {

namespace {

using Cpu = ExecutionContext<cpu::Backend>;
using Clock = std::chrono::steady_clock;

constexpr double region_seconds = 4e-3;  // far above what starting a region costs
constexpr int regions = 12;

/// Calls work(task, passes) once on every thread; the seconds of the whole region.
template <class Work>
double time_region(Cpu& context, Index passes, Work&& work) {
  const auto start = Clock::now();
  context.executor().run(context.concurrency(), [&](Index task, Index) { work(task, passes); });
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

/// Passes per second of all threads together: passes are doubled until a region is long enough, then the
/// best of several regions counts.
template <class Work>
double best_rate(Cpu& context, Work&& work) {
  Index passes = 1;
  double seconds = time_region(context, passes, work), best = static_cast<double>(passes) / seconds;
  while (seconds < region_seconds && passes < (Index{1} << 40)) {
    passes *= 2;
    seconds = time_region(context, passes, work);
  }
  const int count = seconds > 10 * region_seconds ? regions / 3 : regions;
  for (int i = 0; i < count; ++i)
    best = std::max(best, static_cast<double>(passes) / time_region(context, passes, work));
  return best * static_cast<double>(context.concurrency());
}

double probe_rate(Cpu& context, cpu::ProbeFn probe) {
  constexpr Index rounds = 1000;
  double sum = 0;
  const double ops = static_cast<double>(probe(rounds, &sum));
  return ops * best_rate(context, [&](Index, Index passes) {
           double own = 0;
           for (Index p = 0; p < passes; ++p) probe(rounds, &own);
         });
}

/// Memory in huge pages where the system gives them on request.
class Buffer {
 public:
  Buffer(MemoryResource* memory, std::size_t bytes)
      : memory_(memory), bytes_(bytes), data_(memory->allocate(bytes, alignment_of(bytes))) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= huge_page) madvise(data_, bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
  }
  ~Buffer() { memory_->deallocate(data_, bytes_, alignment_of(bytes_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::uint32_t* words() const noexcept { return static_cast<std::uint32_t*>(data_); }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static std::size_t alignment_of(std::size_t bytes) {
    return bytes >= huge_page ? huge_page : memory_alignment;
  }
  MemoryResource* memory_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace

double measure_integer_ops(Cpu& context) { return probe_rate(context, context.kernels().probe_dot); }

double measure_float_ops(Cpu& context) { return probe_rate(context, context.kernels().probe_fma); }

double measure_bfloat_ops(Cpu& context) {
  const cpu::ProbeFn probe = context.kernels().probe_tile;
  return probe != nullptr ? probe_rate(context, probe) : 0;
}

double measure_read(Cpu& context, std::size_t bytes) {
  const auto threads = static_cast<std::size_t>(context.concurrency());
  const std::size_t part = bytes / threads / memory_alignment * memory_alignment;
  NIBBLE_EXPECTS(part > 0, "measure_read: " + std::to_string(bytes) + " bytes are less than 64 for each of " +
                               std::to_string(threads) + " threads");
  const Buffer buffer(context.memory(), part * threads);
  const std::size_t words = part / sizeof(std::uint32_t);
  context.executor().run(context.concurrency(), [&](Index task, Index) {
    std::fill_n(buffer.words() + static_cast<std::size_t>(task) * words, words, 1u);
  });
  const cpu::ProbeReadFn read = context.kernels().probe_read;
  return static_cast<double>(part) * best_rate(context, [&](Index task, Index passes) {
           const std::uint32_t* own = buffer.words() + static_cast<std::size_t>(task) * words;
           for (Index p = 0; p < passes; ++p) read(own, static_cast<cpu::i64>(words));
         });
}

}  // namespace nibble
