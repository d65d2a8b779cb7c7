// SPDX-License-Identifier: MIT
// vpdpbusd: 16 lanes of acc += sum of four u8 x s8 products. g++ 12 loses half of the rate when the
// intrinsic is used in a tile that fills the register file (it spills accumulators in the loop); as one
// instruction of inline assembly it cannot. Where the unit is built without VNNI (NIBBLE_EMULATED_ISAS, for
// tests) the instruction is computed exactly with others. Included inside the instruction set's namespace.
#pragma once

/// The weights are the unsigned operand: codebook values plus 128, so that activations need no compensation.
constexpr bool signed_bytes = false;

static inline I dpbusd(I acc, I u, I s) {
#if !defined(__AVX512VNNI__)
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(u, _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
  return _mm512_add_epi32(acc, _mm512_add_epi32(even, odd));
#else
  __m512i sum = acc;
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(__m512i(u)), "v"(__m512i(s)));
  return sum;
#endif
}
static inline I lookup_bytes(I table, I index) { return _mm512_shuffle_epi8(table, index); }
static inline I repeat16(const void* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
