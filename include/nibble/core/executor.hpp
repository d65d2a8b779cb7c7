// SPDX-License-Identifier: MIT
// Who runs parallel work. nibble brings a pool (core/thread_pool.hpp), but a host with its own threads
// passes them instead: any type with the two members of `Executor` will do.
#pragma once

#include <concepts>

#include "nibble/core/function_ref.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Body of a parallel region: task index in [0, tasks) and the worker running it, in [0, concurrency()).
/// No two calls with the same worker run at the same time, so a worker index selects private scratch.
using ParallelBody = FunctionRef<void(Index task, Index worker)>;

/// An executor runs `tasks` bodies, returns when all have finished, and rethrows the first exception.
/// `run` may be called from inside a body (nested); it may then run everything on the calling worker.
template <class E>
concept Executor = requires(E& e, Index tasks, ParallelBody body) {
  { e.concurrency() } noexcept -> std::convertible_to<Index>;
  { e.run(tasks, body) } -> std::same_as<void>;
};

/// The executor that is always there: the calling thread.
struct InlineExecutor {
  Index concurrency() const noexcept { return 1; }
  void run(Index tasks, ParallelBody body) const {
    for (Index t = 0; t < tasks; ++t) body(t, 0);
  }
};

/// A non-owning handle to any Executor; what contexts hold. The executor must outlive it.
class ExecutorRef {
 public:
  ExecutorRef() noexcept : ExecutorRef(shared_inline) {}
  template <Executor E>
    requires(!std::same_as<std::remove_cvref_t<E>, ExecutorRef>)
  ExecutorRef(E& e) noexcept
      : object_(const_cast<void*>(static_cast<const void*>(&e))),
        concurrency_([](void* o) noexcept -> Index { return static_cast<E*>(o)->concurrency(); }),
        run_([](void* o, Index tasks, ParallelBody body) { static_cast<E*>(o)->run(tasks, body); }) {}

  Index concurrency() const noexcept { return concurrency_(object_); }
  void run(Index tasks, ParallelBody body) const { run_(object_, tasks, body); }

 private:
  static inline InlineExecutor shared_inline{};
  void* object_;
  Index (*concurrency_)(void*) noexcept;
  void (*run_)(void*, Index, ParallelBody);
};

}  // namespace nibble
