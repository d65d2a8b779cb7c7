// SPDX-License-Identifier: MIT
// Decode kernels of packed codes for AVX-512 without VNNI.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/avx512/pairs.hpp"
#include "cpu/isa/dot_pairs.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/dot_codes.hpp"
#include "cpu/isa/dot_small.hpp"
}  // namespace nibble::cpu::avx512
