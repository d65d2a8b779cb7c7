// SPDX-License-Identifier: MIT
// The vector vocabulary of the generic kernels for 4 lanes: AArch64 NEON (see isa/vec_avx512.hpp for what each
// function means). It does without xsimd, whose 8.1 divides and takes roots by estimates, reinterprets through
// tables of function pointers and leaves weak functions in every object: the compiler's vector types have
// operators of their own. Included inside the namespace of an instruction set, after <arm_neon.h>.
#pragma once

using F = float32x4_t;
using I = int32x4_t;
constexpr i64 W = 4;

static inline F load(const float* p) { return vld1q_f32(p); }
static inline void store(float* p, F v) { vst1q_f32(p, v); }
static inline F set1(float v) { return vdupq_n_f32(v); }
static inline F load_part(const float* p, i64 n) {
  if (n == 4) return load(p);
  if (n == 1) return vld1q_lane_f32(p, set1(0.0f), 0);
  const F two = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
  return n == 2 ? two : vld1q_lane_f32(p + 2, two, 2);
}
static inline void store_part(float* p, F v, i64 n) {
  if (n == 4) return store(p, v);
  if (n == 1) return vst1q_lane_f32(p, v, 0);
  vst1_f32(p, vget_low_f32(v));
  if (n == 3) vst1q_lane_f32(p + 2, v, 2);
}
static inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
static inline F fnma(F a, F b, F c) { return vfmsq_f32(c, a, b); }
/// NEON's own maximum is NaN where either is.
static inline F vmax(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline F vmin(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
/// 1 / x of x from 1 to infinity, to about a unit in the last place.
static inline F inverse(F x) { return set1(1.0f) / x; }
static inline F vsqrt(F a) { return vsqrtq_f32(a); }
static inline F select_lt(F a, F b, F yes, F no) { return vbslq_f32(vcltq_f32(a, b), yes, no); }

static inline float reduce_add(F v) {
  const float32x2_t a = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(a, 0) + vget_lane_f32(a, 1);
}
static inline float reduce_max(F v) {
  const F a = vmax(v, vextq_f32(v, v, 2));
  return vgetq_lane_f32(vmax(a, vextq_f32(a, a, 1)), 0);
}
static inline std::int32_t reduce_max_i(I v) { return vmaxvq_s32(v); }
static inline std::int32_t reduce_add_i(I v) { return vaddvq_s32(v); }

static inline I as_int(F v) { return vreinterpretq_s32_f32(v); }
static inline F as_float(I v) { return vreinterpretq_f32_s32(v); }
/// Register types of the bytes of v.
static inline uint8x16_t bytes_of(I v) { return vreinterpretq_u8_s32(v); }
static inline int8x16_t signed_bytes_of(I v) { return vreinterpretq_s8_s32(v); }
static inline I words_of(uint8x16_t v) { return vreinterpretq_s32_u8(v); }

static inline I load_i(const void* p) { return words_of(vld1q_u8(static_cast<const std::uint8_t*>(p))); }
static inline void store_i(void* p, I v) { vst1q_u8(static_cast<std::uint8_t*>(p), bytes_of(v)); }
static inline I set1_i(std::int32_t v) { return vdupq_n_s32(v); }
static inline I add_i(I a, I b) { return vaddq_s32(a, b); }
static inline I sub_i(I a, I b) { return vsubq_s32(a, b); }
static inline I and_i(I a, I b) { return vandq_s32(a, b); }
static inline I or_i(I a, I b) { return vorrq_s32(a, b); }
static inline I xor_i(I a, I b) { return veorq_s32(a, b); }
static inline I max_i(I a, I b) { return vmaxq_s32(a, b); }
template <int N>
static inline I shift_left(I a) {
  return vshlq_n_s32(a, N);
}
template <int N>
static inline I shift_right(I a) {
  return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), N));
}
static inline F to_float(I v) { return vcvtq_f32_s32(v); }
static inline I round_to_int(F v) { return vcvtnq_s32_f32(v); }

static inline F load_int8(const std::int8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return to_float(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bits))))));
}
static inline void store_i8(std::int8_t* p, I v) {
  const int16x4_t words = vmovn_s32(v);
  const std::int32_t bits = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
  __builtin_memcpy(p, &bits, 4);
}
/// Looks the four bytes of each float up.
static inline F lookup16(const float* table, I index) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(table);
  const uint8x16x4_t all{{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
  const I places = vmlaq_s32(set1_i(0x03020100), and_i(index, set1_i(15)), set1_i(0x04040404));
  return as_float(words_of(vqtbl4q_u8(all, bytes_of(places))));
}
static inline F load_half(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void store_half(std::uint16_t* p, F v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
static inline F load_half_part(const std::uint16_t* p, i64 n) {
  alignas(8) std::uint16_t t[4] = {};
  __builtin_memcpy(t, p, static_cast<std::size_t>(n) * 2);
  return load_half(t);
}
static inline void store_half_part(std::uint16_t* p, F v, i64 n) {
  alignas(8) std::uint16_t t[4];
  store_half(t, v);
  __builtin_memcpy(p, t, static_cast<std::size_t>(n) * 2);
}
static inline F load_bfloat(const std::uint16_t* p) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16));
}
static inline F scale_pow2(F v, I n) {
  const I half = vshrq_n_s32(n, 1), bias = set1_i(127);
  return v * as_float(shift_left<23>(half + bias)) * as_float(shift_left<23>(n - half + bias));
}
static inline float32x2_t reduce_angle2(float64x2_t position, float32x2_t frequencies, int32x2_t* quadrant) {
  const float64x2_t magic_number = vdupq_n_f64(6755399441055744.0);
  const float64x2_t angle = vmulq_f64(position, vcvt_f64_f32(frequencies));
  const float64x2_t magic = vaddq_f64(vmulq_f64(angle, vdupq_n_f64(two_over_pi)), magic_number);
  const float64x2_t n = vsubq_f64(magic, magic_number);
  const float64x2_t r =
      vfmsq_f64(vfmsq_f64(angle, n, vdupq_n_f64(pi_half_high)), n, vdupq_n_f64(pi_half_low));
  *quadrant = vand_s32(vmovn_s64(vreinterpretq_s64_f64(magic)), vdup_n_s32(3));
  return vcvt_f32_f64(r);
}
static inline I reduce_angle(double position, const float* frequencies, F* r) {
  int32x2_t q0, q1;
  const float64x2_t p = vdupq_n_f64(position);
  const float32x2_t a = reduce_angle2(p, vld1_f32(frequencies), &q0),
                    b = reduce_angle2(p, vld1_f32(frequencies + 2), &q1);
  *r = vcombine_f32(a, b);
  return vcombine_s32(q0, q1);
}

template <int N>
static inline I shift_bytes(I v) {
  if constexpr (N > 0) return words_of(vshrq_n_u8(bytes_of(v), N));
  else if constexpr (N < 0) return words_of(vshlq_n_u8(bytes_of(v), -N));
  else return v;
}
static inline I or_masked(I a, I b, I mask) { return or_i(a, and_i(b, mask)); }
static inline I lookup_bytes(I table, I index) { return words_of(vqtbl1q_u8(bytes_of(table), bytes_of(index))); }
static inline I repeat16(const void* p) { return load_i(p); }
