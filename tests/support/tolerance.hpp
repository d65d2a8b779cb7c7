// SPDX-License-Identifier: MIT
// Every floating tolerance of the kernel tests, with its derivation. u = 2^-24 is the unit roundoff of FP32.
//
// A chain of n rounded operations on terms t_i differs from the exact sum by at most gamma_n sum|t_i|,
// gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1),
// whatever the order of the chain. Comparisons are written !(error <= bound), so that a NaN fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nibble::test {

inline constexpr double unit_roundoff = 0x1p-24;

inline double rounding(double n) { return n * unit_roundoff / (1.0 - n * unit_roundoff); }

/// FP32 dot product of length k with any summation order: k products, k additions, one final addition of a
/// bias or residual; sum_abs = sum |x_i w_i| (+ |bias|).
inline double dot_bound(double k, double sum_abs) { return rounding(k + 2) * sum_abs + 1e-37; }

/// Integer dot products per scale set, scaled in FP32: per set a conversion, two multiplications and an
/// addition for the scale and the same for the minimum; sum_abs counts |s C x| and |m x| apart.
inline double scaled_dot_bound(double sets, double sum_abs) {
  return rounding(8 * sets + 8) * sum_abs + 1e-35;
}

/// Row norms over n elements: the sum of squares enters the result through an inverse square root, which
/// halves its relative error; then a division, a root and two products.
inline double norm_bound(double n, double magnitude) {
  return (rounding(n) / 2 + rounding(8)) * magnitude + 1e-37;
}

/// Activations: relative error of the elementary function in units of u (see src/cpu/isa/math.hpp), plus
/// the products around it.
inline double function_bound(double ulps, double value) {
  return rounding(2 * ulps) * std::abs(value) + 1e-37;
}

/// Softmax of n scores bounded by |s| <= range: exp amplifies the rounding of its argument (u * range) and
/// adds 2 ulp; the sum of n positive terms adds gamma_n.
inline double softmax_bound(double n, double range, double value) {
  return rounding(2 * range + n + 16) * std::abs(value) + 1e-37;
}

/// Attention: the scores' own errors (gamma over the features times their absolute sum) pass through exp as
/// relative errors of the weights, then come the softmax's and the weighted sum's.
inline double attention_bound(double dim, double score_abs, double keys, double value_abs) {
  return (2 * rounding(dim + 2) * score_abs + rounding(2 * score_abs + 2 * keys + 64)) * value_abs + 1e-37;
}

/// Attention whose operands are BF16 numbers already: only the weights are rounded, each by half a unit of 8 bits.
inline double rounded_attention_bound(double dim, double score_abs, double keys, double value_abs) {
  return attention_bound(dim, score_abs, keys, value_abs) + 0x1p-9 * value_abs;
}

/// NaN-safe: true when `got` is not within `bound` of `expected`.
inline bool misses(double got, double expected, double bound) { return !(std::abs(got - expected) <= bound); }

}  // namespace nibble::test
