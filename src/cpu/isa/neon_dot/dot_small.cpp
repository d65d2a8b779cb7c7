// SPDX-License-Identifier: MIT
// Decode kernels of packed codes for NEON with dot products.
#include <arm_neon.h>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::neon_dot {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_neon.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/neon_dot/sdot.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/dot_codes.hpp"
#include "cpu/isa/dot_small.hpp"
}  // namespace nibble::cpu::neon_dot
