// SPDX-License-Identifier: MIT
// The generic kernels for AVX2 and FMA.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx2 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx2.hpp"
constexpr i64 gemm_rows = 6, gemm_vectors = 2;
#include "cpu/isa/math.hpp"
#include "cpu/isa/elementwise.hpp"
#include "cpu/isa/gemm_f32.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/code_value.hpp"
#include "cpu/isa/panels.hpp"
}  // namespace nibble::cpu::avx2
