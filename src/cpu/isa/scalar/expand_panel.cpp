// SPDX-License-Identifier: MIT
// Bitmap panels for kernels that read dense ones, in portable C++.
#include "cpu/kernel_table.hpp"

namespace nibble::cpu::scalar {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
#include "cpu/isa/panel_access.hpp"

static inline void expand_line(std::uint64_t mask, const std::uint8_t* stored, std::uint8_t pruned, std::uint8_t* to) {
  for (i64 i = 0; i < line_bytes; ++i) to[i] = pruned;
  for (; mask != 0; mask &= mask - 1) to[__builtin_ctzll(mask)] = *stored++;
}

#include "cpu/isa/expand_panel.hpp"
}  // namespace nibble::cpu::scalar
