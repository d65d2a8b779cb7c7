// SPDX-License-Identifier: MIT
// The generic kernels for NEON.
#include <arm_neon.h>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::neon_dot {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_neon.hpp"
constexpr i64 gemm_rows = 6, gemm_vectors = 4;
#include "cpu/isa/math.hpp"
#include "cpu/isa/elementwise.hpp"
#include "cpu/isa/gemm_f32.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/code_value.hpp"
#include "cpu/isa/panels.hpp"
}  // namespace nibble::cpu::neon_dot
