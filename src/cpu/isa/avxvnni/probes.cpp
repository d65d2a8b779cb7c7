// SPDX-License-Identifier: MIT
// The rate of vpdpbusd at 256 bits: 32 multiply-adds of bytes an instruction.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avxvnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx2.hpp"
#include "cpu/isa/avxvnni/vnni.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  constexpr int chains = 10;
  const __m256i one = _mm256_set1_epi8(1);
  __m256i acc[chains];
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) acc[i] = _mm256_setzero_si256();
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < chains; ++i) acc[i] = dpbusd(acc[i], one, one);
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) {
    alignas(64) std::uint32_t words[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), acc[i]);
    for (const std::uint32_t w : words) all += w;
  }
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * chains * 32 * 2;
}

}  // namespace nibble::cpu::avxvnni
