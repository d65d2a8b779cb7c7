// SPDX-License-Identifier: MIT
// The one-level block formats of GGUF: 32 weights, one half scale d, and in the _1 types a half minimum m.
// Nibbles: low = weight j, high = weight j + 16. The fifth bits are a little-endian u32, bit j = weight j.
//
//   q4_0  18 bytes  d      qs[16]          d (q - 8)      q5_0  22  d    qh[4] qs[16]   d (q - 16)
//   q4_1  20        d m    qs[16]          d q + m        q5_1  24  d m  qh[4] qs[16]   d q + m
//   q8_0  34        d      i8[32]          d q
//
// encode() gives the same bytes as the reference rule of each format (the file format's own definition)
// wherever that rule is defined. Beyond it, results stay finite: a scale or minimum that a half cannot hold
// saturates at 65504, and a group whose scale has no finite inverse is stored as zero. With an importance
// the scale is searched instead, never with more weighted error.
#pragma once

#include <algorithm>
#include <cmath>

#include "nibble/format/block_format.hpp"
#include "nibble/format/scale_fit.hpp"

namespace nibble {

namespace detail {

/// The first element of largest magnitude.
inline float signed_extreme(std::span<const float> x) noexcept {
  float extreme = x[0];
  for (float v : x) if (std::abs(v) > std::abs(extreme)) extreme = v;
  return extreme;
}

/// trunc(t) limited to 0..top; t is finite.
inline std::uint8_t truncate_code(float t, float top) noexcept {
  return static_cast<std::uint8_t>(std::clamp(t, 0.0f, top));
}

inline bool fits_half(float v) noexcept { return std::abs(v) <= half::max(); }

/// Scale and codes of a symmetric block whose most extreme weight becomes code 0: d = extreme / -zero.
template <class F>
float encode_symmetric(ConstFloats<32> x, Importance importance,
                       std::array<std::uint8_t, 32>& codes) noexcept {
  constexpr auto zero = static_cast<float>(F::zero), top = 2 * zero - 1;
  float d = signed_extreme(x) / -zero;
  if (!importance.empty()) {
    const LinearLevels levels{-F::zero, F::zero - 1};
    d = search_scale(levels, x, importance, d, HalfStorage{}).scale;
    const float inverse = safe_inverse(d);
    for (std::size_t i = 0; i < 32; ++i)
      codes[i] = static_cast<std::uint8_t>(levels.nearest(x[i] * inverse) + zero);
    return d;
  }
  if (!fits_half(d)) d = half::saturated(d);
  const float inverse = d == 0 ? 0.0f : safe_inverse(d);
  for (std::size_t i = 0; i < 32; ++i) codes[i] = truncate_code(product(x[i], inverse) + (zero + 0.5f), top);
  return d;
}

/// Scale, minimum (value = scale * code - min) and codes of an asymmetric block with codes 0..top.
inline GroupScale encode_asymmetric(ConstFloats<32> x, Importance importance, float top,
                                    std::array<std::uint8_t, 32>& codes) noexcept {
  float low = x[0], high = x[0];
  for (float v : x) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  float d = (high - low) / top;
  if (!fits_half(d) || !fits_half(low)) {
    low = half::saturated(low);
    d = half::saturated(static_cast<float>((static_cast<double>(high) - static_cast<double>(low)) /
                                           static_cast<double>(top)));
  }
  if (!importance.empty()) {
    const LinearLevels levels{0, static_cast<int>(top)};
    const GroupScale p = search_scale_min(levels, x, importance, {d, -low}, HalfStorage{});
    const float inverse = safe_inverse(p.scale);
    for (std::size_t i = 0; i < 32; ++i)
      codes[i] = static_cast<std::uint8_t>(levels.nearest((x[i] + p.min) * inverse));
    return p;
  }
  const float inverse = d == 0 ? 0.0f : safe_inverse(d);
  for (std::size_t i = 0; i < 32; ++i) codes[i] = truncate_code(product(x[i] - low, inverse) + 0.5f, top);
  return {d, -low};
}

/// Bit 4 of 32 codes, bit j = code j, little endian.
inline void pack_fifth_bits(const std::uint8_t* codes, std::uint8_t (&qh)[4]) noexcept {
  for (std::size_t b = 0; b < 4; ++b) {
    unsigned bits = 0;
    for (std::size_t j = 0; j < 8; ++j) bits |= (codes[b * 8 + j] >> 4 & 1u) << j;
    qh[b] = u8(bits);
  }
}
inline void unpack_fifth_bits(const std::uint8_t (&qh)[4], std::uint8_t* codes) noexcept {
  for (std::size_t j = 0; j < 32; ++j) codes[j] = u8(codes[j] | (qh[j / 8] >> (j % 8) & 1) << 4);
}

}  // namespace detail

struct Q4_0 {
  static constexpr std::string_view name = "q4_0";
  static constexpr std::uint32_t gguf_type = 2;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 4, zero = 8;
  static constexpr bool has_min = false;
  struct Block { detail::PackedHalf d; std::uint8_t qs[16]; };
  static_assert(sizeof(Block) == 18);

  static void unpack(const Block& b, Codes<32> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = b.d;
    mins[0] = 0;
    detail::unpack_nibbles(b.qs, codes.data());
  }
  static void pack(ConstCodes<32> codes, ConstFloats<1> scales, ConstFloats<1>, Block& b) noexcept {
    b.d = half::saturated(scales[0]);
    detail::pack_nibbles(codes.data(), b.qs);
  }
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    std::array<std::uint8_t, 32> codes;
    const float d[1] = {detail::encode_symmetric<Q4_0>(x, importance, codes)};
    pack(codes, d, d, b);
  }
};

struct Q4_1 {
  static constexpr std::string_view name = "q4_1";
  static constexpr std::uint32_t gguf_type = 3;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 4, zero = 0;
  static constexpr bool has_min = true;
  struct Block { detail::PackedHalf d, m; std::uint8_t qs[16]; };
  static_assert(sizeof(Block) == 20);

  static void unpack(const Block& b, Codes<32> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = b.d;
    mins[0] = -b.m;
    detail::unpack_nibbles(b.qs, codes.data());
  }
  static void pack(ConstCodes<32> codes, ConstFloats<1> scales, ConstFloats<1> mins, Block& b) noexcept {
    b.d = half::saturated(scales[0]);
    b.m = half::saturated(-mins[0]);
    detail::pack_nibbles(codes.data(), b.qs);
  }
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    std::array<std::uint8_t, 32> codes;
    const GroupScale p = detail::encode_asymmetric(x, importance, 15, codes);
    pack(codes, ConstFloats<1>(&p.scale, 1), ConstFloats<1>(&p.min, 1), b);
  }
};

struct Q5_0 {
  static constexpr std::string_view name = "q5_0";
  static constexpr std::uint32_t gguf_type = 6;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 5, zero = 16;
  static constexpr bool has_min = false;
  struct Block { detail::PackedHalf d; std::uint8_t qh[4], qs[16]; };
  static_assert(sizeof(Block) == 22);

  static void unpack(const Block& b, Codes<32> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = b.d;
    mins[0] = 0;
    detail::unpack_nibbles(b.qs, codes.data());
    detail::unpack_fifth_bits(b.qh, codes.data());
  }
  static void pack(ConstCodes<32> codes, ConstFloats<1> scales, ConstFloats<1>, Block& b) noexcept {
    b.d = half::saturated(scales[0]);
    detail::pack_nibbles(codes.data(), b.qs);
    detail::pack_fifth_bits(codes.data(), b.qh);
  }
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    std::array<std::uint8_t, 32> codes;
    const float d[1] = {detail::encode_symmetric<Q5_0>(x, importance, codes)};
    pack(codes, d, d, b);
  }
};

struct Q5_1 {
  static constexpr std::string_view name = "q5_1";
  static constexpr std::uint32_t gguf_type = 7;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 5, zero = 0;
  static constexpr bool has_min = true;
  struct Block { detail::PackedHalf d, m; std::uint8_t qh[4], qs[16]; };
  static_assert(sizeof(Block) == 24);

  static void unpack(const Block& b, Codes<32> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = b.d;
    mins[0] = -b.m;
    detail::unpack_nibbles(b.qs, codes.data());
    detail::unpack_fifth_bits(b.qh, codes.data());
  }
  static void pack(ConstCodes<32> codes, ConstFloats<1> scales, ConstFloats<1> mins, Block& b) noexcept {
    b.d = half::saturated(scales[0]);
    b.m = half::saturated(-mins[0]);
    detail::pack_nibbles(codes.data(), b.qs);
    detail::pack_fifth_bits(codes.data(), b.qh);
  }
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    std::array<std::uint8_t, 32> codes;
    const GroupScale p = detail::encode_asymmetric(x, importance, 31, codes);
    pack(codes, ConstFloats<1>(&p.scale, 1), ConstFloats<1>(&p.min, 1), b);
  }
};

/// Codes are the stored signed bytes plus 128.
struct Q8_0 {
  static constexpr std::string_view name = "q8_0";
  static constexpr std::uint32_t gguf_type = 8;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 8, zero = 128;
  static constexpr bool has_min = false;
  struct Block { detail::PackedHalf d; std::int8_t qs[32]; };
  static_assert(sizeof(Block) == 34);

  static void unpack(const Block& b, Codes<32> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = b.d;
    mins[0] = 0;
    for (std::size_t j = 0; j < 32; ++j) codes[j] = detail::u8(b.qs[j] + 128);
  }
  static void pack(ConstCodes<32> codes, ConstFloats<1> scales, ConstFloats<1>, Block& b) noexcept {
    b.d = half::saturated(scales[0]);
    for (std::size_t j = 0; j < 32; ++j) b.qs[j] = static_cast<std::int8_t>(codes[j] - 128);
  }
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    constexpr LinearLevels levels{-127, 127};
    float d = std::abs(detail::signed_extreme(x)) / 127;
    const bool searched = !importance.empty();
    if (searched) d = search_scale(levels, x, importance, d, HalfStorage{}).scale;
    else if (!detail::fits_half(d)) d = half::saturated(d);
    b.d = half::saturated(d);
    const float inverse = d == 0 ? 0.0f : safe_inverse(d);
    for (std::size_t j = 0; j < 32; ++j) {  // the plain rule rounds ties away from zero
      const float t = x[j] * inverse;
      b.qs[j] =
          static_cast<std::int8_t>(searched ? levels.nearest(t) : std::clamp(std::round(t), -127.0f, 127.0f));
    }
  }
};

}  // namespace nibble
