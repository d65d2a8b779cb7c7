// SPDX-License-Identifier: MIT
// The rate of TDPBF16PS: 16 x 16 outputs, 32 multiply-adds each.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::amx {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/amx/tiles.hpp"

i64 probe_tile(i64 rounds, double* sum) {
  constexpr i64 chains = 4, line = 64, products = 16 * 16 * 32;
  alignas(64) std::uint16_t ones[512];
  alignas(64) float sums[256];
  for (std::uint16_t& v : ones) v = 0x3F80;
  Tiles tiles;
  NIBBLE_TILE_LOAD(4, ones, line);
  NIBBLE_TILE_LOAD(5, ones, line);
  NIBBLE_TILE_ZERO(0);
  NIBBLE_TILE_ZERO(1);
  NIBBLE_TILE_ZERO(2);
  NIBBLE_TILE_ZERO(3);
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_TILE_DOT_BF16(0, 4, 5);
    NIBBLE_TILE_DOT_BF16(1, 4, 5);
    NIBBLE_TILE_DOT_BF16(2, 4, 5);
    NIBBLE_TILE_DOT_BF16(3, 4, 5);
  }
  *sum = 0;
  NIBBLE_TILE_STORE(0, sums, line);
  *sum += static_cast<double>(sums[0]);
  NIBBLE_TILE_STORE(1, sums, line);
  *sum += static_cast<double>(sums[17]);
  NIBBLE_TILE_STORE(2, sums, line);
  *sum += static_cast<double>(sums[34]);
  NIBBLE_TILE_STORE(3, sums, line);
  *sum += static_cast<double>(sums[255]);
  return rounds * chains * products * 2;
}

}  // namespace nibble::cpu::amx
