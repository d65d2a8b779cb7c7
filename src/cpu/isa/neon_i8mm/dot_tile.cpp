// SPDX-License-Identifier: MIT
// Prefill kernels of packed codes for NEON with products of blocks. One to four rows stay with neon_dot: its sdot
// reads the same lines, and there the weights' way from memory is what takes the time.
#include <arm_neon.h>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::neon_i8mm {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_neon.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/neon_i8mm/blocks.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/dot_codes.hpp"
constexpr int tile_vectors = 4;
#include "cpu/isa/dot_tile.hpp"
}  // namespace nibble::cpu::neon_i8mm
