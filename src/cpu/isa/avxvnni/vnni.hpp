// SPDX-License-Identifier: MIT
// vpdpbusd at 256 bits, in its VEX form; see isa/avx512vnni/vnni.hpp. Included inside the instruction set's
// namespace.
#pragma once

constexpr bool signed_bytes = false;

static inline I dpbusd(I acc, I u, I s) {
#if !defined(__AVXVNNI__)
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
#else
  __m256i sum = acc;
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(__m256i(u)), "x"(__m256i(s)));
  return sum;
#endif
}
static inline I lookup_bytes(I table, I index) { return _mm256_shuffle_epi8(table, index); }
static inline I repeat16(const void* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
