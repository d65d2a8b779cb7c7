// SPDX-License-Identifier: MIT
// FP32 to BF16, nearest even, subnormal numbers to zero, as VCVTNE2PS2BF16 does. Included inside the instruction
// set's namespace, after its vector vocabulary.
#pragma once

constexpr i64 tile_rows = 16;
constexpr i64 tile_elements = 512;  ///< 16 x 32 of BF16

static inline std::uint16_t* row_of(const RoundedRows& out, i64 row) {
  return out.tiles + row / tile_rows * out.chunks * tile_elements + row % tile_rows * chunk_cols;
}

#if !defined(__AVX512BF16__)
/// The upper halves of lanes hold the rounded numbers; the lower halves are anything.
static inline __m512i bfloat_bits(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  rounded = _mm512_mask_or_epi32(rounded, _mm512_fpclass_ps_mask(v, 0x81), bits, _mm512_set1_epi32(0x400000));
  return _mm512_mask_and_epi32(rounded, _mm512_fpclass_ps_mask(v, 0x20), bits,
                               _mm512_set1_epi32(static_cast<int>(0x80000000u)));
}
#endif

/// Lane i holds a[i] below and b[i] above: two columns of 16 rows as one line of a right-hand tile.
static inline __m512i bfloat_pairs(__m512 a, __m512 b) {
#if defined(__AVX512BF16__)
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
#else
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srli_epi32(bfloat_bits(a), 16), bfloat_bits(b));
#endif
}

/// a[0..15], then b[0..15]: 32 columns of a row.
static inline __m512i bfloat_row(__m512 a, __m512 b) {
#if defined(__AVX512BF16__)
  return (__m512i)_mm512_cvtne2ps_pbh(b, a);
#else
  const __m256i low = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bfloat_bits(a), 16));
  const __m256i high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bfloat_bits(b), 16));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#endif
}
