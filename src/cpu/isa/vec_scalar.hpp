// SPDX-License-Identifier: MIT
// The vector vocabulary of the generic kernels for one lane: portable C++. Included inside the namespace
// of an instruction set, never on its own (isa/vec_xsimd.hpp and isa/vec_avx512.hpp say what each function
// means).
#pragma once

using F = float;
using I = std::int32_t;
constexpr i64 W = 1;

static inline F load(const float* p) { return *p; }
static inline F load_part(const float* p, i64) { return *p; }
static inline void store(float* p, F v) { *p = v; }
static inline void store_part(float* p, F v, i64) { *p = v; }
static inline F set1(float v) { return v; }
static inline F fma(F a, F b, F c) { return a * b + c; }
static inline F fnma(F a, F b, F c) { return c - a * b; }
static inline F vmax(F a, F b) { return a > b ? a : b; }
static inline F vmin(F a, F b) { return a < b ? a : b; }
/// 1 / x of x from 1 to infinity, to about a unit in the last place.
static inline F inverse(F x) { return set1(1.0f) / x; }
static inline F vsqrt(F a) { return __builtin_sqrtf(a); }
static inline F select_lt(F a, F b, F yes, F no) { return a < b ? yes : no; }
static inline float reduce_add(F v) { return v; }
static inline float reduce_max(F v) { return v; }
static inline I reduce_max_i(I v) { return v; }
static inline I reduce_add_i(I v) { return v; }

static inline I as_int(F v) {
  I r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
static inline F as_float(I v) {
  F r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
static inline I set1_i(std::int32_t v) { return v; }
static inline I add_i(I a, I b) {
  return static_cast<I>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
static inline I sub_i(I a, I b) {
  return static_cast<I>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}
static inline I and_i(I a, I b) { return a & b; }
static inline I or_i(I a, I b) { return a | b; }
static inline I max_i(I a, I b) { return a > b ? a : b; }
template <int N>
static inline I shift_left(I a) {
  return static_cast<I>(static_cast<std::uint32_t>(a) << N);
}
template <int N>
static inline I shift_right(I a) {
  return static_cast<I>(static_cast<std::uint32_t>(a) >> N);
}
static inline F to_float(I v) { return static_cast<F>(v); }
/// Nearest, ties to even; for |v| < 2^22. Written without a cast, so that a NaN is harmless.
static inline I round_to_int(F v) { return sub_i(as_int(v + 12582912.0f), as_int(12582912.0f)); }
static inline I load_i(const void* p) {
  I r;
  __builtin_memcpy(&r, p, 4);
  return r;
}
static inline void store_i(void* p, I v) { __builtin_memcpy(p, &v, 4); }
static inline F load_int8(const std::int8_t* p) { return static_cast<F>(*p); }
static inline void store_i8(std::int8_t* p, I v) { *p = static_cast<std::int8_t>(v); }
static inline F lookup16(const float* table, I index) { return table[index & 15]; }

static inline F load_half(const std::uint16_t* p) {
  const std::uint32_t h = *p, sign = (h & 0x8000u) << 16, body = h & 0x7FFFu;
  std::uint32_t u;
  if (body >= 0x7C00u) {
    u = sign | 0x7F800000u | (body & 0x3FFu) << 13;
  } else if (body >= 0x400u) {
    u = sign | (body + 0x1C000u) << 13;
  } else {
    const float small = static_cast<float>(body) * 0x1p-24f;
    __builtin_memcpy(&u, &small, 4);
    u |= sign;
  }
  F r;
  __builtin_memcpy(&r, &u, 4);
  return r;
}
static inline void store_half(std::uint16_t* p, F v) {
  std::uint32_t u;
  __builtin_memcpy(&u, &v, 4);
  const std::uint32_t sign = u >> 16 & 0x8000u;
  u &= 0x7FFFFFFFu;
  std::uint32_t h;
  if (u > 0x7F800000u) {
    h = 0x7E00u | (u >> 13 & 0x3FFu);
  } else if (u >= 0x477FF000u) {
    h = 0x7C00u;
  } else if (u >= 0x38800000u) {
    h = (u - 0x38000000u + 0xFFFu + (u >> 13 & 1u)) >> 13;
  } else {  // the addition rounds at the unit of half's subnormals
    float a;
    __builtin_memcpy(&a, &u, 4);
    a += 0.5f;
    __builtin_memcpy(&h, &a, 4);
    h -= 0x3F000000u;
  }
  *p = static_cast<std::uint16_t>(sign | h);
}
static inline F load_half_part(const std::uint16_t* p, i64) { return load_half(p); }
static inline void store_half_part(std::uint16_t* p, F v, i64) { store_half(p, v); }
static inline F load_bfloat(const std::uint16_t* p) {
  return as_float(static_cast<I>(static_cast<std::uint32_t>(*p) << 16));
}
/// v * 2^n for the n of exp_of.
static inline F scale_pow2(F v, I n) {
  const I half = static_cast<I>(n >> 1);
  const F a = as_float(shift_left<23>(add_i(half, 127))),
          b = as_float(shift_left<23>(add_i(sub_i(n, half), 127)));
  return v * a * b;
}
/// r = position * frequency reduced to [-pi/4, pi/4], quadrant in the result; angle in double.
static inline I reduce_angle(double position, const float* frequencies, F* r) {
  const double angle = position * static_cast<double>(*frequencies);
  const double turns = angle * two_over_pi;
  const double magic = turns + 6755399441055744.0;
  const double n = magic - 6755399441055744.0;
  *r = static_cast<float>((angle - n * pi_half_high) - n * pi_half_low);
  std::int64_t bits;
  __builtin_memcpy(&bits, &magic, 8);
  return static_cast<I>(bits & 3);
}

// Four codes as the bytes of an int32.
/// Right by N bits, left by -N: within a byte once masked; what crosses over is garbage.
template <int N>
static inline I shift_bytes(I v) {
  const auto u = static_cast<std::uint32_t>(v);
  return static_cast<I>(N >= 0 ? u >> (N & 31) : u << (-N & 31));
}
/// a | (b & mask)
static inline I or_masked(I a, I b, I mask) { return a | (b & mask); }
static inline I xor_i(I a, I b) { return a ^ b; }
