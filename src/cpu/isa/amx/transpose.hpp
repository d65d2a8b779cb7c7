// SPDX-License-Identifier: MIT
// Included inside the instruction set's namespace, after its vector vocabulary.
#pragma once

/// to[i][r] = from[r * stride + i], 16 x 16. Columns from `columns` on become zeros; rows from `rows` on repeat the
/// last. Any 32 bits pass unchanged.
static inline void transpose16(const float* from, i64 stride, i64 rows, i64 columns, float (*to)[16]) {
  const auto present = static_cast<__mmask16>((1u << (columns < 16 ? columns : 16)) - 1u);
  __m512 a[16], b[16];
  NIBBLE_UNROLL
  for (i64 r = 0; r < 16; ++r) a[r] = _mm512_maskz_loadu_ps(present, from + (r < rows ? r : rows - 1) * stride);
  NIBBLE_UNROLL
  for (int r = 0; r < 16; r += 2) {
    b[r] = _mm512_unpacklo_ps(a[r], a[r + 1]);
    b[r + 1] = _mm512_unpackhi_ps(a[r], a[r + 1]);
  }
  const auto low = [](__m512 x, __m512 y) { return (__m512)_mm512_unpacklo_pd((__m512d)x, (__m512d)y); };
  const auto high = [](__m512 x, __m512 y) { return (__m512)_mm512_unpackhi_pd((__m512d)x, (__m512d)y); };
  NIBBLE_UNROLL
  for (int r = 0; r < 16; r += 4) {  // quarter q of a[r + j]: rows r to r + 3 of column 4 q + j
    a[r] = low(b[r], b[r + 2]);
    a[r + 1] = high(b[r], b[r + 2]);
    a[r + 2] = low(b[r + 1], b[r + 3]);
    a[r + 3] = high(b[r + 1], b[r + 3]);
  }
  NIBBLE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512 p = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44), q = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
    const __m512 s = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xEE), t = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xEE);
    _mm512_store_ps(to[j], _mm512_shuffle_f32x4(p, q, 0x88));
    _mm512_store_ps(to[4 + j], _mm512_shuffle_f32x4(p, q, 0xDD));
    _mm512_store_ps(to[8 + j], _mm512_shuffle_f32x4(s, t, 0x88));
    _mm512_store_ps(to[12 + j], _mm512_shuffle_f32x4(s, t, 0xDD));
  }
}
