// SPDX-License-Identifier: MIT
// The CPU backend's context: threads, scratch memory, instruction set and numerics of one stream of work.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "nibble/backend/backend.hpp"
#include "nibble/core/arena.hpp"
#include "nibble/core/executor.hpp"
#include "nibble/core/export.hpp"
#include "nibble/core/thread_pool.hpp"
#include "nibble/core/trace.hpp"

namespace nibble {

namespace cpu {

struct KernelTable;  // src/cpu: function pointers of one instruction set

/// Instruction set levels with kernels of their own, in rising order of preference on one machine.
enum class Isa { scalar, neon_dot, neon_i8mm, avx2, avxvnni, avx512, avx512vnni, avx512fp16, amx };

NIBBLE_API std::string_view to_string(Isa isa) noexcept;
/// "avx2" -> Isa::avx2; nothing for an unknown name.
NIBBLE_API std::optional<Isa> parse_isa(std::string_view name) noexcept;
/// The levels that are both compiled in and runnable on this machine, ascending; never empty.
NIBBLE_API std::vector<Isa> available_isas();

}  // namespace cpu

/// How linear layers compute. `exact` multiplies FP32 activations with the dequantized weights and is the
/// yardstick of evaluation; `fast` quantizes activations to INT8 in small groups for integer dot products, or, where
/// the machine multiplies BF16 tiles and rows are many, rounds activations and weights to BF16, which loses less.
enum class Numerics { fast, exact };

struct ContextOptions {
  Index threads = 0;               ///< including the caller; 0 = all available processors
  std::optional<cpu::Isa> isa{};   ///< highest level to use; empty = best available
  Numerics numerics = Numerics::fast;
  /// The bits of a row are the same alone, in any batch and in any cut of a prompt, in the fast mode too: it then
  /// leaves BF16 tiles alone. They never depend on the number of threads.
  bool batch_invariant = false;
  MemoryResource* memory = default_memory();  ///< scratch
  TraceSink* trace = nullptr;      ///< must outlive the context
  std::stop_token stop{};          ///< checked between layers: work ends with Error{cancelled}
};

/// Not thread-safe: one context per thread that issues work. Cheap enough to make one per request.
template <>
class NIBBLE_API ExecutionContext<cpu::Backend> {
 public:
  using backend = cpu::Backend;

  /// With a pool of its own. Throws Error{unsupported} when `options.isa` is not available here.
  explicit ExecutionContext(const ContextOptions& options = {});
  /// On the host's executor, which must outlive the context; `options.threads` is ignored.
  explicit ExecutionContext(ExecutorRef executor, const ContextOptions& options = {});
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  ExecutorRef executor() const noexcept { return executor_; }
  Index concurrency() const noexcept { return executor_.concurrency(); }
  /// Scratch of the issuing thread; take it under an ArenaScope.
  Arena& arena() noexcept { return *arena_; }
  /// Scratch of one worker inside a parallel body; reset it when the body ends.
  Arena& worker_arena(Index worker) noexcept { return *worker_arenas_[static_cast<std::size_t>(worker)]; }
  cpu::Isa isa() const noexcept { return isa_; }
  const cpu::KernelTable& kernels() const noexcept { return *kernels_; }
  MemoryResource* memory() const noexcept { return memory_; }

  Numerics numerics() const noexcept { return numerics_; }
  void set_numerics(Numerics n) noexcept { numerics_ = n; }
  bool batch_invariant() const noexcept { return batch_invariant_; }
  TraceSink* trace() const noexcept { return trace_; }
  const std::stop_token& stop() const noexcept { return stop_; }
  void set_stop(std::stop_token stop) noexcept { stop_ = std::move(stop); }

 private:
  void init(const ContextOptions& options);

  std::unique_ptr<ThreadPool> pool_;
  ExecutorRef executor_;
  std::unique_ptr<MemoryResource> scratch_;  ///< of the arenas
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Arena>> worker_arenas_;
  cpu::Isa isa_ = cpu::Isa::scalar;
  const cpu::KernelTable* kernels_ = nullptr;
  MemoryResource* memory_ = nullptr;
  Numerics numerics_ = Numerics::fast;
  bool batch_invariant_ = false;
  TraceSink* trace_ = nullptr;
  std::stop_token stop_;
};

}  // namespace nibble
