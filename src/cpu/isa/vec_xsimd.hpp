// SPDX-License-Identifier: MIT
// The vector vocabulary of the generic kernels over xsimd, as far as every xsimd since 8.1 expresses it the
// same way. Included by isa/vec_<isa>.hpp inside the namespace of an instruction set, after `Arch`; that
// header adds what xsimd lacks. <xsimd/xsimd.hpp> is included before, outside of any namespace.
// F is a vector of W floats, I of W int32; both convert to and from the compiler's register types.
#pragma once

using F = xsimd::batch<float, Arch>;
using I = xsimd::batch<std::int32_t, Arch>;
constexpr i64 W = static_cast<i64>(F::size);

static inline F load(const float* p) { return F::load_unaligned(p); }
static inline void store(float* p, F v) { v.store_unaligned(p); }
static inline F set1(float v) { return F(v); }
static inline F vsqrt(F a) { return xsimd::sqrt(a); }
/// a < b ? yes : no per lane; `no` where either is NaN.
static inline F select_lt(F a, F b, F yes, F no) { return xsimd::select(a < b, yes, no); }

#if XSIMD_VERSION_MAJOR >= 11  // up to 10 the argument names the batch, from 11 on its element
static inline I as_int(F v) { return xsimd::bitwise_cast<std::int32_t>(v); }
static inline F as_float(I v) { return xsimd::bitwise_cast<float>(v); }
#else
static inline I as_int(F v) { return xsimd::bitwise_cast<I>(v); }
static inline F as_float(I v) { return xsimd::bitwise_cast<F>(v); }
#endif
static inline I load_i(const void* p) { return I::load_unaligned(static_cast<const std::int32_t*>(p)); }
static inline void store_i(void* p, I v) { v.store_unaligned(static_cast<std::int32_t*>(p)); }
static inline I set1_i(std::int32_t v) { return I(v); }
static inline I add_i(I a, I b) { return a + b; }
static inline I sub_i(I a, I b) { return a - b; }
static inline I and_i(I a, I b) { return a & b; }
static inline I or_i(I a, I b) { return a | b; }
static inline I max_i(I a, I b) { return xsimd::max(a, b); }
template <int N>
static inline I shift_left(I a) {
  return a << N;
}
/// Zeros come in from the left.
template <int N>
static inline I shift_right(I a) {
  using Unsigned = xsimd::batch<std::uint32_t, Arch>;
  const Unsigned shifted = Unsigned(I::register_type(a)) >> N;
  return I(I::register_type(shifted));
}
static inline F to_float(I v) { return xsimd::batch_cast<float>(v); }
/// Nearest, ties to even; for |v| < 2^22.
static inline I round_to_int(F v) { return xsimd::nearbyint_as_int(v); }
