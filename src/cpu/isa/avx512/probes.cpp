// SPDX-License-Identifier: MIT
// Probes of AVX-512 without VNNI: a multiply-add of bytes is vpmaddubsw with vpaddw.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
constexpr int probe_chains = 12;
#include "cpu/isa/probes.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  const __m512i one = _mm512_set1_epi8(1);
  __m512i acc[probe_chains];
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) acc[i] = _mm512_setzero_si512();
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < probe_chains; ++i) {
      __m512i pairs;  // volatile: else the product of constants is computed once
      asm volatile("vpmaddubsw %1, %1, %0" : "=v"(pairs) : "v"(one));
      acc[i] = _mm512_add_epi16(acc[i], pairs);
    }
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) {
    alignas(64) std::uint16_t words[32];
    _mm512_store_si512(reinterpret_cast<__m512i*>(words), acc[i]);
    for (const std::uint16_t w : words) all += w;
  }
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * probe_chains * 64 * 2;
}

}  // namespace nibble::cpu::avx512
