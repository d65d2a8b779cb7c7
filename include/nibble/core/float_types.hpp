// SPDX-License-Identifier: MIT
// Narrow floating-point storage types with exact conversions, usable in constant expressions and free of
// tables. Every one of them widens to float exactly; narrowing rounds to nearest, ties to even.
//
//   half      s eeeee mmmmmmmmmm     IEEE binary16           max 65504, inf, NaN
//   bfloat16  s eeeeeeee mmmmmmm     upper half of a float   inf, NaN
//   fp8_e4m3  s eeee mmm             OCP "FN"                max 448, no inf, NaN = 0x7F / 0xFF
//   fp8_e5m2  s eeeee mm             OCP, IEEE-like          max 57344, inf, NaN
//   fp4_e2m1  s ee m                 OCP MX element          0 .5 1 1.5 2 3 4 6, no inf, no NaN
//   e8m0      eeeeeeee               OCP MX scale            2^(e-127), NaN = 0xFF, no zero, no sign
#pragma once

#include <bit>
#include <cstdint>

namespace nibble {

namespace detail {

constexpr std::uint32_t float_bits(float f) noexcept { return std::bit_cast<std::uint32_t>(f); }
constexpr float bits_float(std::uint32_t u) noexcept { return std::bit_cast<float>(u); }

inline constexpr std::uint32_t float_magnitude = 0x7FFF'FFFF;
inline constexpr std::uint32_t float_infinity = 0x7F80'0000;

/// Rounds a non-negative float (its bits, not NaN) to a format with E exponent and M mantissa bits, ties
/// to even. The result is exponent and mantissa joined; it may exceed the format's largest finite code,
/// which the caller turns into what that format does on overflow.
template <unsigned E, unsigned M>
constexpr std::uint32_t round_magnitude(std::uint32_t abs) noexcept {
  constexpr std::uint32_t bias = (1u << (E - 1)) - 1, drop = 23 - M;
  const std::uint32_t exponent = abs >> 23;
  if (exponent > 127 - bias) {  // normal in the target: rebias, then round the dropped bits away
    const std::uint32_t r = abs - ((127 - bias) << 23);
    return (r + (1u << (drop - 1)) - 1 + ((r >> drop) & 1)) >> drop;
  }
  const std::uint32_t shift = drop + (128 - bias - exponent);  // subnormal in the target
  if (exponent == 0 || shift > 24) return 0;                   // below half of the smallest step
  const std::uint32_t significand = (abs & 0x7F'FFFF) | 0x80'0000;
  return (significand + (1u << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
}

/// Widens a finite magnitude code of E exponent and M mantissa bits; exact for every code.
template <unsigned E, unsigned M>
constexpr float widen_magnitude(std::uint32_t code) noexcept {
  constexpr std::uint32_t bias = (1u << (E - 1)) - 1;
  if ((code >> M) != 0) return bits_float((code << (23 - M)) + ((127 - bias) << 23));
  constexpr float step = bits_float((128 - bias - M) << 23);  // the subnormal step, 2^(1 - bias - M)
  return static_cast<float>(code) * step;
}

constexpr float with_sign(float magnitude, bool negative) noexcept {
  return bits_float(float_bits(magnitude) | (negative ? 0x8000'0000u : 0u));
}

}  // namespace detail

/// IEEE binary16. Conversion from float overflows to infinity; `saturated` stops at +-65504.
struct half {
  std::uint16_t bits;

  half() = default;
  constexpr explicit half(float f) noexcept : bits(encode(f)) {}
  static constexpr half from_bits(std::uint16_t b) noexcept { half h{}; h.bits = b; return h; }
  static constexpr half saturated(float f) noexcept {
    const half h(f);
    return (h.bits & 0x7FFF) == 0x7C00 ? from_bits(static_cast<std::uint16_t>(h.bits - 1)) : h;
  }
  static constexpr float max() noexcept { return 65504.0f; }

  constexpr operator float() const noexcept {
    const std::uint32_t magnitude = bits & 0x7FFFu, sign = (bits & 0x8000u) << 16;
    if (magnitude < 0x7C00) return detail::with_sign(detail::widen_magnitude<5, 10>(magnitude), sign != 0);
    const std::uint32_t quiet = magnitude > 0x7C00 ? 0x0040'0000u : 0u;
    return detail::bits_float(sign | detail::float_infinity | quiet | ((magnitude & 0x3FF) << 13));
  }

 private:
  static constexpr std::uint16_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f), abs = u & detail::float_magnitude;
    std::uint32_t code = 0x7E00 | ((abs >> 13) & 0x3FF);  // NaN keeps the top of its payload
    if (abs <= detail::float_infinity) {
      code = detail::round_magnitude<5, 10>(abs);
      if (code > 0x7C00) code = 0x7C00;
    }
    return static_cast<std::uint16_t>((u >> 31) << 15 | code);
  }
};

/// The upper 16 bits of a float. Conversion from float overflows to infinity, as IEEE does.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  constexpr explicit bfloat16(float f) noexcept : bits(encode(f)) {}
  static constexpr bfloat16 from_bits(std::uint16_t b) noexcept { bfloat16 h{}; h.bits = b; return h; }
  static constexpr bfloat16 saturated(float f) noexcept {
    const bfloat16 h(f);
    return (h.bits & 0x7FFF) == 0x7F80 ? from_bits(static_cast<std::uint16_t>(h.bits - 1)) : h;
  }
  static constexpr float max() noexcept { return detail::bits_float(0x7F7F'0000); }

  constexpr operator float() const noexcept { return detail::bits_float(std::uint32_t{bits} << 16); }

 private:
  static constexpr std::uint16_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f);
    if ((u & detail::float_magnitude) > detail::float_infinity)
      return static_cast<std::uint16_t>((u >> 16) | 0x40);  // quieted
    return static_cast<std::uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
  }
};

/// OCP FP8 E4M3 ("FN"). Conversion from float overflows to NaN, `saturated` stops at +-448.
struct fp8_e4m3 {
  std::uint8_t bits;

  fp8_e4m3() = default;
  constexpr explicit fp8_e4m3(float f) noexcept : bits(encode(f)) {}
  static constexpr fp8_e4m3 from_bits(std::uint8_t b) noexcept { fp8_e4m3 h{}; h.bits = b; return h; }
  static constexpr fp8_e4m3 saturated(float f) noexcept {
    const fp8_e4m3 h(f);
    return f == f && (h.bits & 0x7F) == 0x7F ? from_bits(static_cast<std::uint8_t>(h.bits - 1)) : h;
  }
  static constexpr float max() noexcept { return 448.0f; }

  constexpr operator float() const noexcept {
    const std::uint32_t magnitude = bits & 0x7Fu;
    const float f =
        magnitude == 0x7F ? detail::bits_float(0x7FC0'0000) : detail::widen_magnitude<4, 3>(magnitude);
    return detail::with_sign(f, bits >= 0x80);
  }

 private:
  static constexpr std::uint8_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f), abs = u & detail::float_magnitude;
    std::uint32_t code = 0x7F;
    if (abs <= detail::float_infinity) {
      code = detail::round_magnitude<4, 3>(abs);
      if (code > 0x7E) code = 0x7F;
    }
    return static_cast<std::uint8_t>((u >> 31) << 7 | code);
  }
};

/// OCP FP8 E5M2. Conversion from float overflows to infinity, `saturated` stops at +-57344.
struct fp8_e5m2 {
  std::uint8_t bits;

  fp8_e5m2() = default;
  constexpr explicit fp8_e5m2(float f) noexcept : bits(encode(f)) {}
  static constexpr fp8_e5m2 from_bits(std::uint8_t b) noexcept { fp8_e5m2 h{}; h.bits = b; return h; }
  static constexpr fp8_e5m2 saturated(float f) noexcept {
    const fp8_e5m2 h(f);
    return (h.bits & 0x7F) == 0x7C ? from_bits(static_cast<std::uint8_t>(h.bits - 1)) : h;
  }
  static constexpr float max() noexcept { return 57344.0f; }

  /// E5M2 is the upper byte of a half.
  constexpr operator float() const noexcept { return half::from_bits(static_cast<std::uint16_t>(bits << 8)); }

 private:
  static constexpr std::uint8_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f), abs = u & detail::float_magnitude;
    std::uint32_t code = 0x7E;
    if (abs <= detail::float_infinity) {
      code = detail::round_magnitude<5, 2>(abs);
      if (code > 0x7C) code = 0x7C;
    }
    return static_cast<std::uint8_t>((u >> 31) << 7 | code);
  }
};

/// OCP FP4 E2M1 in the low nibble. It has neither infinity nor NaN: overflow stops at +-6 (always
/// saturating), and NaN becomes negative zero.
struct fp4_e2m1 {
  std::uint8_t bits;

  fp4_e2m1() = default;
  constexpr explicit fp4_e2m1(float f) noexcept : bits(encode(f)) {}
  static constexpr fp4_e2m1 from_bits(std::uint8_t b) noexcept { fp4_e2m1 h{}; h.bits = b & 0xF; return h; }
  static constexpr fp4_e2m1 saturated(float f) noexcept { return fp4_e2m1(f); }
  static constexpr float max() noexcept { return 6.0f; }

  constexpr operator float() const noexcept {
    return detail::with_sign(detail::widen_magnitude<2, 1>(bits & 7u), (bits & 8) != 0);
  }

 private:
  static constexpr std::uint8_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f), abs = u & detail::float_magnitude;
    if (abs > detail::float_infinity) return 8;
    const std::uint32_t code = detail::round_magnitude<2, 1>(abs);
    return static_cast<std::uint8_t>((u >> 31) << 3 | (code > 7 ? 7 : code));
  }
};

/// OCP E8M0 scale: a power of two from 2^-127 to 2^127. Conversion from float rounds to the nearest power
/// in value, ties upwards; zero, negative numbers and overflow have no code and become NaN. `saturated`
/// takes the nearest end of the range instead (zero and negatives: 2^-127), and keeps NaN.
struct e8m0 {
  std::uint8_t bits;

  e8m0() = default;
  constexpr explicit e8m0(float f) noexcept : bits(encode(f)) {}
  static constexpr e8m0 from_bits(std::uint8_t b) noexcept { e8m0 h{}; h.bits = b; return h; }
  static constexpr e8m0 saturated(float f) noexcept {
    if (!(f == f)) return from_bits(0xFF);
    if (!(f > 0)) return from_bits(0);
    const e8m0 h(f);
    return h.bits == 0xFF ? from_bits(0xFE) : h;
  }
  static constexpr float max() noexcept { return detail::bits_float(0x7F00'0000); }

  constexpr operator float() const noexcept {
    if (bits == 0xFF) return detail::bits_float(0x7FC0'0000);
    return bits == 0 ? detail::bits_float(0x0040'0000) : detail::bits_float(std::uint32_t{bits} << 23);
  }

 private:
  static constexpr std::uint8_t encode(float f) noexcept {
    const std::uint32_t u = detail::float_bits(f);
    if (u == 0 || u >= detail::float_infinity) return 0xFF;  // zero, negative, infinite, NaN
    if (u < 0x0080'0000) return u >= 0x0060'0000 ? 1 : 0;    // subnormal floats: 2^-127 or 2^-126
    return static_cast<std::uint8_t>((u + 0x0040'0000) >> 23);  // 0xFF, that is NaN, when it overflows
  }
};

}  // namespace nibble
