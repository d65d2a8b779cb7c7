// SPDX-License-Identifier: MIT
// Bitmap panels for kernels that read dense ones, with VBMI2.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512vnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/avx512vnni/expand.hpp"
#include "cpu/isa/expand_panel.hpp"
}  // namespace nibble::cpu::avx512vnni
