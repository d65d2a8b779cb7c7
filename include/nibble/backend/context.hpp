// SPDX-License-Identifier: MIT
// The backend chosen when nibble was configured (NIBBLE_BACKEND=cpu|cuda), as the type `Context`. Code
// written against it compiles for either; code that wants one of them names ExecutionContext<...> itself.
#pragma once

#include "nibble/backend/cpu.hpp"
#include "nibble/config.hpp"
#if NIBBLE_BACKEND_CUDA
#include "nibble/backend/cuda.hpp"
#endif

namespace nibble {

#if NIBBLE_BACKEND_CUDA
using selected_backend = cuda::Backend;
#else
using selected_backend = cpu::Backend;
#endif

using Context = ExecutionContext<selected_backend>;

}  // namespace nibble
