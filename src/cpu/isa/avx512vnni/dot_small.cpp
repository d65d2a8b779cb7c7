// SPDX-License-Identifier: MIT
// Decode kernels of packed codes, dense and sparse, for AVX-512 VNNI.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512vnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/avx512vnni/vnni.hpp"
#include "cpu/isa/dot_quads.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/dot_codes.hpp"
#include "cpu/isa/dot_small.hpp"
#include "cpu/isa/avx512vnni/expand.hpp"
#include "cpu/isa/dot_sparse.hpp"
}  // namespace nibble::cpu::avx512vnni
