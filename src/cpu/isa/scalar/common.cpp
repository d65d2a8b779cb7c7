// SPDX-License-Identifier: MIT
// The generic kernels in portable C++: what every machine can run.
#include "cpu/kernel_table.hpp"

namespace nibble::cpu::scalar {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
constexpr i64 gemm_rows = 4, gemm_vectors = 4;
#include "cpu/isa/math.hpp"
#include "cpu/isa/elementwise.hpp"
#include "cpu/isa/gemm_f32.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/code_value.hpp"
#include "cpu/isa/panels.hpp"
}  // namespace nibble::cpu::scalar
