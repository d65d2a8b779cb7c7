// SPDX-License-Identifier: MIT
// Pairs of byte products for AVX-512 BW; see isa/dot_pairs.hpp. Included inside the instruction set's namespace.
#pragma once

// As one block of assembly each: see isa/avx512vnni/vnni.hpp for why.
/// Neighbouring int16 summed to int32.
static inline I sum_words(I a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }
/// u8 x s8 products, summed in neighbouring pairs to int16 with saturation, added to acc's int16.
static inline I add_pairs(I acc, I u, I s) {
  __m512i sum = acc, pairs;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sum), "=&v"(pairs) : "v"(__m512i(u)), "v"(__m512i(s)));
  return sum;
}
/// The same pairs as they are.
static inline I pairs_of(I u, I s) {
  __m512i pairs;
  asm("vpmaddubsw %2, %1, %0" : "=v"(pairs) : "v"(__m512i(u)), "v"(__m512i(s)));
  return pairs;
}
/// acc's int32 plus neighbouring int16 of `words`.
static inline I add_word_sums(I acc, I words, I ones) {
  __m512i sum = acc, w = words;
  asm("vpmaddwd %2, %1, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "+v"(w) : "v"(__m512i(ones)));
  return sum;
}
static inline I word_ones() { return _mm512_set1_epi16(1); }
static inline I abs_bytes(I a) { return _mm512_abs_epi8(a); }
/// Bytes of a, negated where those of s are negative.
static inline I with_signs_of(I a, I s) {
  return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(s), _mm512_setzero_si512(), a);
}
static inline I lookup_bytes(I table, I index) { return _mm512_shuffle_epi8(table, index); }
static inline I repeat16(const void* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
