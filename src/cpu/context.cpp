// SPDX-License-Identifier: MIT
// ExecutionContext of the CPU: threads, scratch and kernels of one stream of work.
#include "cpu/dispatch.hpp"
#include "cpu/page_arena.hpp"
#include "nibble/core/contract.hpp"

namespace nibble {

ExecutionContext<cpu::Backend>::ExecutionContext(const ContextOptions& options)
    : pool_(std::make_unique<ThreadPool>(options.threads)), executor_(*pool_) {
  init(options);
}

ExecutionContext<cpu::Backend>::ExecutionContext(ExecutorRef executor, const ContextOptions& options)
    : executor_(executor) {
  init(options);
}

ExecutionContext<cpu::Backend>::~ExecutionContext() = default;

void ExecutionContext<cpu::Backend>::init(const ContextOptions& options) {
  NIBBLE_EXPECTS(options.memory != nullptr, "a context needs a memory resource");
  NIBBLE_EXPECTS(executor_.concurrency() >= 1, "an executor has at least one worker");
  isa_ = options.isa ? *options.isa : cpu::available_isas().back();
  kernels_ = &cpu::kernels_of(isa_);
  memory_ = options.memory;
  numerics_ = options.numerics;
  batch_invariant_ = options.batch_invariant;
  trace_ = options.trace;
  stop_ = options.stop;
  scratch_ = std::make_unique<cpu::LargePages>(memory_);
  arena_ = std::make_unique<Arena>(scratch_.get());
  for (Index w = 0; w < executor_.concurrency(); ++w)
    worker_arenas_.push_back(std::make_unique<Arena>(scratch_.get()));
}

}  // namespace nibble
