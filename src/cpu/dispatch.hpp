// SPDX-License-Identifier: MIT
// Run-time choice of kernels: what each instruction set level offers on this machine.
#pragma once

#include "cpu/kernel_table.hpp"
#include "nibble/backend/cpu.hpp"

namespace nibble::cpu {

/// The best kernels up to `level`; throws Error{unsupported} where this build or this machine lacks it.
const KernelTable& kernels_of(Isa level);

}  // namespace nibble::cpu
