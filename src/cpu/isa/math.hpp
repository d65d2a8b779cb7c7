// SPDX-License-Identifier: MIT
// Elementary functions over the vector vocabulary: argument reduction and a polynomial whose coefficients
// are least-maximum fits (relative error of the polynomial below 4e-9 each). Measured against double: exp
// 0.7 ulp down to e^-87 and 0 below, tanh 1 ulp, sine and cosine 0.9e-7 absolute; erfc 3e-8 plus e^(-x^2)'s x^2 ulp.
// Each lane's result depends on that lane alone, hence not on its place in a vector.
#pragma once

/// e^x = 2^n e^r, n = round(x log2 e), |r| <= ln2 / 2. Below e^-87 the result is 0: subnormal numbers take a processor
/// 100 cycles to make. NaN stays NaN.
static inline F vexp(F x) {
  const F low = set1(-87.0f), whole = x;
  x = vmin(set1(89.0f), vmax(low, x));
  const I n = round_to_int(x * set1(1.44269504089f));
  const F nf = to_float(n);
  const F r = fnma(nf, set1(-2.12194440e-4f), fnma(nf, set1(0.693359375f), x));
  F p = set1(0.0013814610429108143f);
  p = fma(p, r, set1(0.008368710055947304f));
  p = fma(p, r, set1(0.04166838899254799f));
  p = fma(p, r, set1(0.1666652113199234f));
  p = fma(p, r, set1(0.4999999403953552f));
  p = fma(p * r, r, r) + set1(1.0f);
  return select_lt(whole, low, set1(0.0f), scale_pow2(p, n));
}

static inline F vabs(F x) { return as_float(and_i(as_int(x), set1_i(0x7FFFFFFF))); }
/// Magnitude of x with the sign of s; x is not negative.
static inline F with_sign_of(F x, F s) {
  return as_float(or_i(as_int(x), and_i(as_int(s), set1_i(static_cast<std::int32_t>(0x80000000u)))));
}

/// Odd polynomial below 0.625, 1 - 2 / (1 + e^2|x|) above.
static inline F vtanh(F x) {
  const F a = vabs(x), z = x * x;
  const F e = vexp(a + a);
  const F large = set1(1.0f) - set1(2.0f) / (e + set1(1.0f));
  F p = set1(-0.005717036314308643f);
  p = fma(p, z, set1(0.020650578662753105f));
  p = fma(p, z, set1(-0.05374349653720856f));
  p = fma(p, z, set1(0.13331490755081177f));
  p = fma(p, z, set1(-0.3333328366279602f));
  const F small = fma(p * z, a, a);
  return with_sign_of(select_lt(a, set1(0.625f), small, large), x);
}

/// erfc(x) for x >= 0: e^(-x^2) times a polynomial in 1 / (1 + x/2).
static inline F verfc_positive(F x) {
  const F t = set1(1.0f) / fma(set1(0.5f), x, set1(1.0f));
  F p = set1(-0.055051665753126144f);
  p = fma(p, t, set1(0.26390498876571655f));
  p = fma(p, t, set1(-0.4414817988872528f));
  p = fma(p, t, set1(0.22119608521461487f));
  p = fma(p, t, set1(0.017073793336749077f));
  p = fma(p, t, set1(0.18125174939632416f));
  p = fma(p, t, set1(0.2497929334640503f));
  p = fma(p, t, set1(0.28109854459762573f));
  p = fma(p, t, set1(0.28222137689590454f));
  p = fma(p, t, set1(-6.0108354773547035e-06f));
  return p * vexp(set1(0.0f) - x * x);
}

/// 1 / (1 + e^-x)
static inline F vsigmoid(F x) { return inverse(set1(1.0f) + vexp(set1(0.0f) - x)); }

static inline F vgelu_tanh(F v) {  // (1 + tanh u) / 2 = sigmoid(2u)
  const F u2 = set1(1.5957691216057308f) * fma(set1(0.044715f) * v * v, v, v);
  return v * vsigmoid(u2);
}
static inline F vgelu_erf(F v) {
  const F zero = set1(0.0f), tail = set1(0.5f) * verfc_positive(vabs(v) * set1(0.70710678118f));
  return v * select_lt(v, zero, tail, set1(1.0f) - tail);
}

/// Sine and cosine of r + quadrant * pi/2, |r| <= pi/4.
static inline void vsincos(F r, I quadrant, F* sine, F* cosine) {
  const F z = r * r;
  F s = set1(-0.00019517297914717346f);
  s = fma(s, z, set1(0.008332177996635437f));
  s = fma(s, z, set1(-0.16666655242443085f));
  s = fma(s * z, r, r);
  F c = set1(2.443845005473122e-05f);
  c = fma(c, z, set1(-0.001388736767694354f));
  c = fma(c, z, set1(0.04166664555668831f));
  c = fma(c, z * z, fma(set1(-0.5f), z, set1(1.0f)));
  const F odd = to_float(and_i(quadrant, set1_i(1)));
  const F half = set1(0.5f);
  const F sine_value = select_lt(half, odd, c, s), cosine_value = select_lt(half, odd, s, c);
  const I sine_sign = shift_left<30>(and_i(quadrant, set1_i(2)));
  const I cosine_sign = shift_left<30>(and_i(add_i(quadrant, set1_i(1)), set1_i(2)));
  *sine = as_float(add_i(as_int(sine_value), sine_sign));  // adding 2^31 flips the sign bit
  *cosine = as_float(add_i(as_int(cosine_value), cosine_sign));
}
