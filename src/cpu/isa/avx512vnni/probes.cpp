// SPDX-License-Identifier: MIT
// The rate of vpdpbusd: 64 multiply-adds of bytes an instruction.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512vnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/avx512vnni/vnni.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  constexpr int chains = 12;
  const __m512i one = _mm512_set1_epi8(1);
  __m512i acc[chains];
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) acc[i] = _mm512_setzero_si512();
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < chains; ++i) acc[i] = dpbusd(acc[i], one, one);
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) {
    alignas(64) std::uint32_t words[16];
    _mm512_store_si512(words, acc[i]);
    for (const std::uint32_t w : words) all += w;
  }
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * chains * 64 * 2;
}

}  // namespace nibble::cpu::avx512vnni
