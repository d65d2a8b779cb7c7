// SPDX-License-Identifier: MIT
// What this machine can do at best, measured: the ends of a roofline (Williams, Waterman, Patterson 2009).
// A kernel's time is at least max(bytes / read rate, operations / peak rate). Rates of a shared or virtual
// machine drift, so measure them in the run whose figures they are compared with.
#pragma once

#include <cstddef>

#include "nibble/backend/cpu.hpp"
#include "nibble/core/export.hpp"

namespace nibble {

/// Operations per second (a multiply-add is two) of the instruction that integer dot products use at the
/// context's instruction set, on all of its threads, data in registers. Takes about 50 ms, as the others do.
NIBBLE_API double measure_integer_ops(ExecutionContext<cpu::Backend>& context);

/// The same of the FP32 multiply-add.
NIBBLE_API double measure_float_ops(ExecutionContext<cpu::Backend>& context);

/// The same of the BF16 tile product; 0 where the instruction set has none.
NIBBLE_API double measure_bfloat_ops(ExecutionContext<cpu::Backend>& context);

/// Bytes per second at which all threads together read a buffer of `bytes` again and again, each its own
/// part: the rate of a cache where the parts fit into one, of memory for hundreds of MiB. The buffer comes
/// from the context's memory resource. Throws Error{invalid_argument} for fewer than 64 bytes per thread.
NIBBLE_API double measure_read(ExecutionContext<cpu::Backend>& context, std::size_t bytes);

}  // namespace nibble
