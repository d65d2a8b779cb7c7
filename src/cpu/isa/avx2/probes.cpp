// SPDX-License-Identifier: MIT
// Probes of AVX2: a multiply-add of bytes is vpmaddubsw with vpaddw.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx2 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx2.hpp"
constexpr int probe_chains = 10;
#include "cpu/isa/probes.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  const __m256i one = _mm256_set1_epi8(1);
  __m256i acc[probe_chains];
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) acc[i] = _mm256_setzero_si256();
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < probe_chains; ++i) {
      __m256i pairs;  // volatile: else the product of constants is computed once
      asm volatile("vpmaddubsw %1, %1, %0" : "=v"(pairs) : "v"(one));
      acc[i] = _mm256_add_epi16(acc[i], pairs);
    }
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) {
    alignas(64) std::uint16_t words[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), acc[i]);
    for (const std::uint16_t w : words) all += w;
  }
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * probe_chains * 32 * 2;
}

}  // namespace nibble::cpu::avx2
