// SPDX-License-Identifier: MIT
// GGUF formats with a fixed non-linear codebook of 16 values, denser near zero as weights are: about 1 dB
// better than a linear grid at the same size.
//
//            bytes  n    layout                                   value
//   iq4_nl    18    32   d qs[16] (nibbles as in q4_0)            d C[q]
//   iq4_xs   136   256   d scales_h(u16) scales_l[4] qs[128]      d (ls - 32) C[q], ls six bits per 32
#pragma once

#include <array>
#include <cmath>

#include "nibble/format/block_format.hpp"
#include "nibble/format/scale_fit.hpp"

namespace nibble {

namespace detail {
inline constexpr std::array<std::int8_t, 16> iq4_codebook{-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr CodebookLevels iq4_levels = [] {
  std::array<float, 16> f{};
  for (std::size_t i = 0; i < 16; ++i) f[i] = static_cast<float>(iq4_codebook[i]);
  return CodebookLevels(f);
}();
}  // namespace detail

struct IQ4_NL {
  static constexpr std::string_view name = "iq4_nl";
  static constexpr std::uint32_t gguf_type = 20;
  static constexpr Index block_size = 32, sub_group = 32;
  static constexpr int code_bits = 4;
  static constexpr std::array<std::int8_t, 16> codebook = detail::iq4_codebook;
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
  /// Always searches the scale; the plain choice puts the most extreme weight on C[0] = -127.
  static void encode(ConstFloats<32> x, Block& b, Importance importance = {}) noexcept {
    const CodebookLevels& levels = detail::iq4_levels;
    float extreme = x[0];
    for (float v : x) if (std::abs(v) > std::abs(extreme)) extreme = v;
    const float d[1] = {search_scale(levels, x, importance, extreme / -127, HalfStorage{}).scale};
    const float inverse = safe_inverse(d[0]);
    std::array<std::uint8_t, 32> codes;
    for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(levels.code(x[i] * inverse));
    pack(codes, d, d, b);
  }
};

struct IQ4_XS {
  static constexpr std::string_view name = "iq4_xs";
  static constexpr std::uint32_t gguf_type = 23;
  static constexpr Index block_size = 256, sub_group = 32;
  static constexpr int code_bits = 4;
  static constexpr std::array<std::int8_t, 16> codebook = detail::iq4_codebook;
  static constexpr bool has_min = false;
  struct Block {
    detail::PackedHalf d;
    std::uint8_t scales_h[2];  ///< u16, two bits per sub-group
    std::uint8_t scales_l[4];  ///< nibbles, sub-group 0 low
    std::uint8_t qs[128];      ///< per sub-group 16 bytes as in iq4_nl
  };
  static_assert(sizeof(Block) == 136);

  static Levels<8> levels(const Block& b) noexcept {
    Levels<8> l{b.d, 0, {}, {}};
    const int high = b.scales_h[0] | b.scales_h[1] << 8;
    for (std::size_t g = 0; g < 8; ++g) {
      const int low = b.scales_l[g / 2] >> (g % 2 * 4) & 15;
      l.scales[g] = static_cast<std::int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    }
    return l;
  }
  static void unpack(const Block& b, Codes<256> codes, Floats<8> scales, Floats<8> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t g = 0; g < 8; ++g) {
      for (std::size_t j = 0; j < 16; ++j) {
        codes[g * 32 + j] = b.qs[g * 16 + j] & 15;
        codes[g * 32 + 16 + j] = b.qs[g * 16 + j] >> 4;
      }
    }
  }
};

}  // namespace nibble
