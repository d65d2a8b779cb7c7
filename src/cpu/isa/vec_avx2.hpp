// SPDX-License-Identifier: MIT
// The vector vocabulary of the generic kernels for 8 lanes: AVX2, FMA, F16C. What xsimd has no words for
// is here in intrinsics (see isa/vec_avx512.hpp for what each function means, and why it is not xsimd's).
// Included inside the namespace of an instruction set.
#pragma once

using Arch = xsimd::fma3<xsimd::avx2>;
#include "cpu/isa/vec_xsimd.hpp"

static inline I part_mask(i64 n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline F load_part(const float* p, i64 n) { return _mm256_maskload_ps(p, part_mask(n)); }
static inline void store_part(float* p, F v, i64 n) { _mm256_maskstore_ps(p, part_mask(n), v); }
static inline F fma(F a, F b, F c) { return xsimd::fma(a, b, c); }
static inline F fnma(F a, F b, F c) { return xsimd::fnma(a, b, c); }
static inline F vmax(F a, F b) { return _mm256_max_ps(a, b); }
static inline F vmin(F a, F b) { return _mm256_min_ps(a, b); }
/// 1 / x of x from 1 to infinity, to about a unit in the last place.
static inline F inverse(F x) { return set1(1.0f) / x; }
static inline float reduce_add(F v) {
  const __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}
static inline float reduce_max(F v) {
  const __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 b = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_shuffle_ps(b, b, 1)));
}
static inline std::int32_t reduce_max_i(I v) {
  const __m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i b = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(b, _mm_shuffle_epi32(b, 0xB1)));
}
static inline std::int32_t reduce_add_i(I v) {
  const __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i b = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xB1)));
}

static inline F load_int8(const std::int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
static inline void store_i8(std::int8_t* p, I v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
static inline F lookup16(const float* table, I index) {
  const F low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
  const F high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}
static inline F load_half(const std::uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline void store_half(std::uint16_t* p, F v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline F load_half_part(const std::uint16_t* p, i64 n) {
  alignas(16) std::uint16_t t[8] = {};
  __builtin_memcpy(t, p, static_cast<std::size_t>(n) * 2);
  return load_half(t);
}
static inline void store_half_part(std::uint16_t* p, F v, i64 n) {
  alignas(16) std::uint16_t t[8];
  store_half(t, v);
  __builtin_memcpy(p, t, static_cast<std::size_t>(n) * 2);
}
static inline F load_bfloat(const std::uint16_t* p) {
  return as_float(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
static inline F scale_pow2(F v, I n) {
  const I half = n >> 1, bias = set1_i(127);
  const F a = as_float(shift_left<23>(half + bias));
  const F b = as_float(shift_left<23>(n - half + bias));
  return v * a * b;
}
static inline __m128 reduce_angle4(__m256d position, __m128 frequencies, __m128i* quadrant) {
  const __m256d magic_number = _mm256_set1_pd(6755399441055744.0);
  const __m256d angle = _mm256_mul_pd(position, _mm256_cvtps_pd(frequencies));
  const __m256d magic = _mm256_add_pd(_mm256_mul_pd(angle, _mm256_set1_pd(two_over_pi)), magic_number);
  const __m256d n = _mm256_sub_pd(magic, magic_number);
  const __m256d r = _mm256_fnmadd_pd(n, _mm256_set1_pd(pi_half_low),
                                     _mm256_fnmadd_pd(n, _mm256_set1_pd(pi_half_high), angle));
  const __m256i low =
      _mm256_permutevar8x32_epi32(_mm256_castpd_si256(magic), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  *quadrant = _mm_and_si128(_mm256_castsi256_si128(low), _mm_set1_epi32(3));
  return _mm256_cvtpd_ps(r);
}
static inline I reduce_angle(double position, const float* frequencies, F* r) {
  __m128i q0, q1;
  const __m256d p = _mm256_set1_pd(position);
  const __m128 a = reduce_angle4(p, _mm_loadu_ps(frequencies), &q0),
               b = reduce_angle4(p, _mm_loadu_ps(frequencies + 4), &q1);
  *r = _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(q0), q1, 1);
}

template <int N>
static inline I shift_bytes(I v) {
  return N >= 0 ? _mm256_srli_epi16(v, N & 15) : _mm256_slli_epi16(v, -N & 15);
}
static inline I or_masked(I a, I b, I mask) { return _mm256_or_si256(a, _mm256_and_si256(b, mask)); }
static inline I xor_i(I a, I b) { return _mm256_xor_si256(a, b); }
