// SPDX-License-Identifier: MIT
// The vector vocabulary of the generic kernels for 16 lanes: AVX-512 F/BW/DQ/VL. Each instruction set has
// one such header with the same names; it is included inside that set's namespace, names its xsimd
// architecture, and adds in intrinsics what xsimd has no words for (partial loads, binary16, look-up, angles
// in double) or says differently from version to version: its 8.1 rounds twice in an AVX-512 fma, its max
// changed sides for NaN, and the order of its sums over lanes is not fixed.
#pragma once

#if !defined(__clang__)
// g++ 12 implements unmasked intrinsics with an "undefined" operand and then warns of it.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

using Arch = xsimd::avx512bw;
#include "cpu/isa/vec_xsimd.hpp"

static inline __mmask16 part_mask(i64 n) { return static_cast<__mmask16>((1u << n) - 1u); }
/// The first n (1 to W) lanes from memory, zeros behind; memory behind is not touched.
static inline F load_part(const float* p, i64 n) { return _mm512_maskz_loadu_ps(part_mask(n), p); }
static inline void store_part(float* p, F v, i64 n) { _mm512_mask_storeu_ps(p, part_mask(n), v); }
static inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
static inline F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
/// The second operand where either is NaN, on every instruction set.
static inline F vmax(F a, F b) { return _mm512_max_ps(a, b); }
static inline F vmin(F a, F b) { return _mm512_min_ps(a, b); }
/// 1 / x of x from 1 to infinity, to about a unit in the last place.
static inline F inverse(F x) {  // a division of 16 lanes takes as long as an exponential
  x = vmin(set1(1e38f), x);
  const F y = _mm512_rcp14_ps(x);
  return fma(y, fnma(x, y, set1(1.0f)), y);
}
/// Sums and maxima over lanes, by a fixed tree.
static inline float reduce_add(F v) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
static inline float reduce_max(F v) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
static inline std::int32_t reduce_max_i(I v) { return _mm512_reduce_max_epi32(v); }
static inline std::int32_t reduce_add_i(I v) { return _mm512_reduce_add_epi32(v); }

static inline F load_int8(const std::int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
/// Values in -128..127 as bytes.
static inline void store_i8(std::int8_t* p, I v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
/// table[index & 15] per lane.
static inline F lookup16(const float* table, I index) {
  return _mm512_permutexvar_ps(index, _mm512_loadu_ps(table));
}
static inline F load_half(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline void store_half(std::uint16_t* p, F v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline F load_half_part(const std::uint16_t* p, i64 n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(part_mask(n), p));
}
static inline void store_half_part(std::uint16_t* p, F v, i64 n) {
  _mm256_mask_storeu_epi16(p, part_mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline F load_bfloat(const std::uint16_t* p) {
  return as_float(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
/// v * 2^n, with gradual underflow and overflow to infinity.
static inline F scale_pow2(F v, I n) { return _mm512_scalef_ps(v, _mm512_cvtepi32_ps(n)); }
static inline __m256 reduce_angle8(__m512d position, __m256 frequencies, __m256i* quadrant) {
  const __m512d magic_number = _mm512_set1_pd(6755399441055744.0);
  const __m512d angle = _mm512_mul_pd(position, _mm512_cvtps_pd(frequencies));
  const __m512d magic = _mm512_add_pd(_mm512_mul_pd(angle, _mm512_set1_pd(two_over_pi)), magic_number);
  const __m512d n = _mm512_sub_pd(magic, magic_number);
  const __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(pi_half_low),
                                     _mm512_fnmadd_pd(n, _mm512_set1_pd(pi_half_high), angle));
  *quadrant = _mm256_and_si256(_mm512_cvtepi64_epi32(_mm512_castpd_si512(magic)), _mm256_set1_epi32(3));
  return _mm512_cvtpd_ps(r);
}
/// position * frequency (exact in double for positions below 2^29) minus the nearest multiple of pi/2;
/// returns that multiple modulo 4.
static inline I reduce_angle(double position, const float* frequencies, F* r) {
  __m256i q0, q1;
  const __m512d p = _mm512_set1_pd(position);
  const __m256 a = reduce_angle8(p, _mm256_loadu_ps(frequencies), &q0),
               b = reduce_angle8(p, _mm256_loadu_ps(frequencies + 8), &q1);
  *r = _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(q0), q1, 1);
}

// Four codes as the bytes of each lane; see isa/vec_scalar.hpp.
template <int N>
static inline I shift_bytes(I v) {
  return N >= 0 ? _mm512_srli_epi16(v, N & 15) : _mm512_slli_epi16(v, -N & 15);
}
static inline I or_masked(I a, I b, I mask) { return _mm512_ternarylogic_epi32(a, b, mask, 0xF8); }
static inline I xor_i(I a, I b) { return _mm512_xor_si512(a, b); }
