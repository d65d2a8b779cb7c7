// SPDX-License-Identifier: MIT
// How an op finds its kernel. An op is a descriptor struct with
//   template <Backend B> using Signature = void(views in B's memory space...);
//   static void reference(const Op&, host views...);      // scalar, double inside: doc and oracle
// and `run(context, op, views...)` calls the kernel that the context's backend has for it. Which kernels
// exist is one line each in ops/cpu_kernels.def and ops/cuda_kernels.def; a missing one does not compile.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "nibble/backend/backend.hpp"
#include "nibble/core/export.hpp"
#include "nibble/ops/fwd.hpp"

namespace nibble {

/// Whether backend B has a kernel for Op: set by the .def lists, false otherwise.
template <class Op, class B>
inline constexpr bool has_kernel = false;

#define NIBBLE_KERNEL(...) \
  template <>              \
  inline constexpr bool has_kernel<__VA_ARGS__, cpu::Backend> = true;
#include "nibble/ops/cpu_kernels.def"
#undef NIBBLE_KERNEL
#define NIBBLE_KERNEL(...) \
  template <>              \
  inline constexpr bool has_kernel<__VA_ARGS__, cuda::Backend> = true;
#include "nibble/ops/cuda_kernels.def"
#undef NIBBLE_KERNEL

/// The kernel of Op on B. Declared here for every op, defined (explicitly specialized) in the one source
/// file that implements it; a user's op on a user's backend specializes it the same way.
template <class Op, Backend B, class Signature = typename Op::template Signature<B>>
struct Kernel;

template <class Op, Backend B, class... Args>
struct Kernel<Op, B, void(Args...)> {
  NIBBLE_API static void run(ExecutionContext<B>& context, const Op& op, Args... args);
  template <class... Given>
  static constexpr bool accepts = sizeof...(Given) == sizeof...(Args) &&
                                  std::is_invocable_v<void (*)(Args...), Given...>;
};

/// Ask for the scalar reference where a backend has no kernel: a slow path is never taken silently.
struct AllowReference {};
inline constexpr AllowReference allow_reference{};

/// Runs `op`. Throws Error{invalid_argument} when extents do not fit together.
template <Backend B, class Op, class... Args>
  requires(!std::same_as<Op, AllowReference>)
void run(ExecutionContext<B>& context, const Op& op, Args&&... args) {
  static_assert(has_kernel<Op, B>,
                "nibble: this backend has no kernel for this op. Pass nibble::allow_reference after the "
                "context to run the slow scalar reference, or add a kernel and its line in the .def list.");
  if constexpr (has_kernel<Op, B>) {
    constexpr bool fits = Kernel<Op, B>::template accepts<Args...>;
    static_assert(fits,
                  "nibble: these arguments do not match the op's Signature. Check the rank of each view "
                  "(matrix or vector) and its memory space: host views go to a CPU context, device views "
                  "to a CUDA context.");
    if constexpr (fits) Kernel<Op, B>::run(context, op, std::forward<Args>(args)...);
  }
}

/// Runs the kernel when there is one, else the scalar reference (host memory only).
template <Backend B, class Op, class... Args>
void run(ExecutionContext<B>& context, AllowReference, const Op& op, Args&&... args) {
  if constexpr (has_kernel<Op, B>) {
    run(context, op, std::forward<Args>(args)...);
  } else {
    static_assert(std::is_same_v<typename B::Space, Host>,
                  "nibble: the scalar reference reads host memory; this backend's memory is elsewhere.");
    Op::reference(op, std::forward<Args>(args)...);
  }
}

}  // namespace nibble
