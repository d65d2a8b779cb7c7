// SPDX-License-Identifier: MIT
// A backend is a tag type: it names a memory space and selects kernels by overload, at compile time.
// Both tags always exist, so that code can be written and tested for either; what is linked decides
// which of their kernels are there.
#pragma once

#include <concepts>

#include "nibble/core/view.hpp"

namespace nibble {

namespace cpu {
struct Backend {
  using Space = Host;
  static constexpr const char* name = "cpu";
};
}  // namespace cpu

namespace cuda {
struct Backend {
  using Space = Device;
  static constexpr const char* name = "cuda";
};
}  // namespace cuda

template <class B>
concept Backend = requires {
  typename B::Space;
  { B::name } -> std::convertible_to<const char*>;
} && MemorySpace<typename B::Space>;

/// Where work runs: executor or stream, scratch memory, kernels, trace. Passed first to everything that
/// computes; there is no global state behind it. Specialized in backend/cpu.hpp and backend/cuda.hpp.
template <Backend B>
class ExecutionContext;

/// A weight matrix in the layout its kernels read; specialized beside each context.
template <Backend B>
class PackedMatrix;

}  // namespace nibble
