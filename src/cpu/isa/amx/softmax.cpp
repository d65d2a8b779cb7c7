// SPDX-License-Identifier: MIT
// Softmax of attention's scores straight into BF16 tiles. A weight is rounded to 8 bits, so its exponential needs no
// more than a polynomial of degree 4 (3e-6); the sum takes weights before they are rounded.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::amx {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/amx/bfloat.hpp"

/// 2^x; 0 below 2^-126, where numbers are subnormal and slow. NaN stays.
static inline F power_of_two(F x) {
  const __mmask16 normal = _mm512_cmp_ps_mask(x, set1(-126.0f), _CMP_NLT_UQ);
  const F whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = x - whole;
  F p = fma(set1(0.00958285f), f, set1(0.055906422f));  // (2^f - 1) / f on [-1/2, 1/2]
  p = fma(p, f, set1(0.24024099f));
  p = fma(p, f, set1(0.6931242f));
  return _mm512_maskz_scalef_ps(normal, fma(p, f, set1(1.0f)), whole);
}

/// Lanes beyond the row's end are -infinity, of which nothing is left.
static inline F load_scores(const float* p, i64 left) {
  if (left >= W) return load(p);
  if (left <= 0) return set1(minus_infinity);
  return _mm512_mask_loadu_ps(set1(minus_infinity), part_mask(left), p);
}

static inline float row_maximum(const float* x, i64 n) {
  F a = set1(minus_infinity), b = a;
  for (i64 i = 0; i < n; i += 2 * W) {
    a = vmax(load_scores(x + i, n - i), a);  // a NaN is passed over; the sum will have it
    b = vmax(load_scores(x + i + W, n - i - W), b);
  }
  return reduce_max(vmax(a, b));
}

void softmax_rounded(const SoftmaxTile& t, const float* scales, const RoundedRows& out) {
  const F log2e = set1(1.44269504f);
  for (i64 r = 0; r < t.rows; ++r) {
    const float* x = t.scores + r * t.stride;
    const float max = row_maximum(x, t.keys);
    const F shift = set1(max == minus_infinity ? 0.0f : max);
    std::uint16_t* to = row_of(out, r);
    F low_sum = set1(0.0f), high_sum = low_sum;
    for (i64 i = 0; i < out.chunks * chunk_cols; i += chunk_cols, to += tile_elements) {
      const i64 left = t.keys - i;
      F low = power_of_two((load_scores(x + i, left) - shift) * log2e);
      F high = power_of_two((load_scores(x + i + W, left - W) - shift) * log2e);
      low_sum = low_sum + low;
      high_sum = high_sum + high;
      if (scales != nullptr) {
        low = low * (left >= W ? load(scales + i) : load_part(scales + i, left));
        if (left > W) high = high * (left >= 2 * W ? load(scales + i + W) : load_part(scales + i + W, left - W));
      }
      _mm512_storeu_si512(to, bfloat_row(low, high));
    }
    t.max[r] = max;
    t.sum[r] = reduce_add(low_sum + high_sum);
  }
}

}  // namespace nibble::cpu::amx
