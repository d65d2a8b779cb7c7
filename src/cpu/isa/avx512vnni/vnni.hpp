// SPDX-License-Identifier: MIT
// vpdpbusd: 16 lanes of acc += sum of four u8 x s8 products. g++ 12 loses half of the rate when the
// intrinsic is used in a tile that fills the register file (it spills accumulators in the loop); as one
// instruction of inline assembly it cannot. Included inside the instruction set's namespace.
#pragma once

static inline __m512i dpbusd(__m512i acc, __m512i u, __m512i s) {
#if defined(__clang__)
  return _mm512_dpbusd_epi32(acc, u, s);
#else
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s));
  return acc;
#endif
}

/// The same with four activations from memory, broadcast to every lane.
static inline __m512i dpbusd_broadcast(__m512i acc, __m512i u, const std::int8_t* s) {
#if defined(__clang__)
  std::int32_t bits;
  __builtin_memcpy(&bits, s, 4);
  return _mm512_dpbusd_epi32(acc, u, _mm512_set1_epi32(bits));
#else
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*reinterpret_cast<const char(*)[4]>(s)));
  return acc;
#endif
}
