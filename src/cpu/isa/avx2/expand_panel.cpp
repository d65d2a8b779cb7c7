// SPDX-License-Identifier: MIT
// Bitmap panels for kernels that read dense ones, eight bytes at a time with BMI2's pdep.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx2 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx2.hpp"
#include "cpu/isa/panel_access.hpp"

static inline void expand_line(std::uint64_t mask, const std::uint8_t* stored, std::uint8_t pruned, std::uint8_t* to) {
  const std::uint64_t rest = pruned * 0x0101010101010101u;
  for (i64 i = 0; i < 8; ++i, mask >>= 8) {
    const std::uint64_t bytes = _pdep_u64(mask & 255, 0x0101010101010101u) * 255;
    std::uint64_t next;
    __builtin_memcpy(&next, stored, 8);
    next = _pdep_u64(next, bytes) | (rest & ~bytes);
    __builtin_memcpy(to + i * 8, &next, 8);
    stored += __builtin_popcountll(mask & 255);
  }
}

#include "cpu/isa/expand_panel.hpp"
}  // namespace nibble::cpu::avx2
