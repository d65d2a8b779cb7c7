// SPDX-License-Identifier: MIT
// The K-quants of GGUF: super-blocks of 256 weights, sub-groups of 16 or 32, and two-level scales: integer
// sub-scales (and minima) times one half d (and dmin) per super-block. Little endian; every plane of codes
// is stored in runs of 32 or 64 weights, so that one mask yields a run.
//
//          bytes  sub  layout                                          value
//   q2_k     84    16  scales[16] (lo = sc, hi = m) qs[64] d dmin      d sc q - dmin m        q 0..3
//   q3_k    110    16  hmask[32] qs[64] scales[12] d                   d (sc - 32) (q - 4)    q 0..7
//   q4_k    144    32  d dmin scales[12] qs[128]                       d sc q - dmin m        q 0..15
//   q5_k    176    32  d dmin scales[12] qh[32] qs[128]                d sc q - dmin m        q 0..31
//   q6_k    210    16  ql[128] qh[64] scales[16] d                     d sc (q - 32)          q 0..63
#pragma once

#include "nibble/format/block_format.hpp"

namespace nibble {

namespace detail {

/// Plane i of a super-block of 256 codes of 2 bits: each run of 128 weights holds 4 shifts of 32 bytes.
constexpr int two_bits(const std::uint8_t* packed, std::size_t i) noexcept {
  return packed[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}
/// Four-bit planes: each run of 64 weights is 32 bytes, low nibbles first.
constexpr int four_bits(const std::uint8_t* packed, std::size_t i) noexcept {
  return packed[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

/// The 8 six-bit (scale, minimum) pairs of q4_k and q5_k in 12 bytes. Bytes 0-3 and 4-7 hold scales and
/// minima 0-3 in their low six bits and the top two bits of numbers 4-7 above them; bytes 8-11 hold the low
/// nibbles of scale and minimum 4-7.
struct SixBitPair { int scale, min; };
constexpr SixBitPair six_bit_pair(const std::uint8_t (&s)[12], std::size_t g) noexcept {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | (s[g - 4] >> 6 << 4), (s[g + 4] >> 4) | (s[g] >> 6 << 4)};
}
inline Levels<8> six_bit_levels(float d, float d_min, const std::uint8_t (&s)[12]) noexcept {
  Levels<8> l{d, d_min, {}, {}};
  for (std::size_t g = 0; g < 8; ++g) {
    const auto [scale, min] = six_bit_pair(s, g);
    l.scales[g] = static_cast<std::int8_t>(scale);
    l.mins[g] = static_cast<std::int8_t>(min);
  }
  return l;
}

}  // namespace detail

struct Q2_K {
  static constexpr std::string_view name = "q2_k";
  static constexpr std::uint32_t gguf_type = 10;
  static constexpr Index block_size = 256, sub_group = 16;
  static constexpr int code_bits = 2, zero = 0;
  static constexpr bool has_min = true;
  struct Block {
    std::uint8_t scales[16];
    std::uint8_t qs[64];
    detail::PackedHalf d, dmin;
  };
  static_assert(sizeof(Block) == 84);

  static Levels<16> levels(const Block& b) noexcept {
    Levels<16> l{b.d, b.dmin, {}, {}};
    for (std::size_t g = 0; g < 16; ++g) {
      l.scales[g] = static_cast<std::int8_t>(b.scales[g] & 15);
      l.mins[g] = static_cast<std::int8_t>(b.scales[g] >> 4);
    }
    return l;
  }
  static void unpack(const Block& b, Codes<256> codes, Floats<16> scales, Floats<16> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t i = 0; i < 256; ++i) codes[i] = detail::u8(detail::two_bits(b.qs, i));
  }
};

struct Q3_K {
  static constexpr std::string_view name = "q3_k";
  static constexpr std::uint32_t gguf_type = 11;
  static constexpr Index block_size = 256, sub_group = 16;
  static constexpr int code_bits = 3, zero = 4;
  static constexpr bool has_min = false;
  struct Block {
    std::uint8_t hmask[32];   ///< bit b: the high bit of run b of 32 weights
    std::uint8_t qs[64];
    std::uint8_t scales[12];  ///< low nibbles of 16 six-bit numbers in bytes 0-7, their top bits in 8-11
    detail::PackedHalf d;
  };
  static_assert(sizeof(Block) == 110);

  static Levels<16> levels(const Block& b) noexcept {
    Levels<16> l{b.d, 0, {}, {}};
    for (std::size_t g = 0; g < 16; ++g) {
      const int low = b.scales[g % 8] >> (g / 8 * 4) & 15, high = b.scales[8 + g % 4] >> (g / 4 * 2) & 3;
      l.scales[g] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
    return l;
  }
  static void unpack(const Block& b, Codes<256> codes, Floats<16> scales, Floats<16> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t i = 0; i < 256; ++i)
      codes[i] = detail::u8(detail::two_bits(b.qs, i) | (b.hmask[i % 32] >> (i / 32) & 1) << 2);
  }
};

struct Q4_K {
  static constexpr std::string_view name = "q4_k";
  static constexpr std::uint32_t gguf_type = 12;
  static constexpr Index block_size = 256, sub_group = 32;
  static constexpr int code_bits = 4, zero = 0;
  static constexpr bool has_min = true;
  struct Block {
    detail::PackedHalf d, dmin;
    std::uint8_t scales[12];
    std::uint8_t qs[128];
  };
  static_assert(sizeof(Block) == 144);

  static Levels<8> levels(const Block& b) noexcept { return detail::six_bit_levels(b.d, b.dmin, b.scales); }
  static void unpack(const Block& b, Codes<256> codes, Floats<8> scales, Floats<8> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t i = 0; i < 256; ++i) codes[i] = detail::u8(detail::four_bits(b.qs, i));
  }
};

struct Q5_K {
  static constexpr std::string_view name = "q5_k";
  static constexpr std::uint32_t gguf_type = 13;
  static constexpr Index block_size = 256, sub_group = 32;
  static constexpr int code_bits = 5, zero = 0;
  static constexpr bool has_min = true;
  struct Block {
    detail::PackedHalf d, dmin;
    std::uint8_t scales[12];
    std::uint8_t qh[32];  ///< bit b: the high bit of run b of 32 weights
    std::uint8_t qs[128];
  };
  static_assert(sizeof(Block) == 176);

  static Levels<8> levels(const Block& b) noexcept { return detail::six_bit_levels(b.d, b.dmin, b.scales); }
  static void unpack(const Block& b, Codes<256> codes, Floats<8> scales, Floats<8> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t i = 0; i < 256; ++i)
      codes[i] = detail::u8(detail::four_bits(b.qs, i) | (b.qh[i % 32] >> (i / 32) & 1) << 4);
  }
};

struct Q6_K {
  static constexpr std::string_view name = "q6_k";
  static constexpr std::uint32_t gguf_type = 14;
  static constexpr Index block_size = 256, sub_group = 16;
  static constexpr int code_bits = 6, zero = 32;
  static constexpr bool has_min = false;
  struct Block {
    std::uint8_t ql[128];  ///< each run of 128 weights is 64 bytes: low nibbles, then high nibbles
    std::uint8_t qh[64];   ///< 2-bit planes as in q2_k
    std::int8_t scales[16];
    detail::PackedHalf d;
  };
  static_assert(sizeof(Block) == 210);

  static Levels<16> levels(const Block& b) noexcept {
    Levels<16> l{b.d, 0, {}, {}};
    for (std::size_t g = 0; g < 16; ++g) l.scales[g] = b.scales[g];
    return l;
  }
  static void unpack(const Block& b, Codes<256> codes, Floats<16> scales, Floats<16> mins) noexcept {
    levels(b).expand(scales, mins);
    for (std::size_t i = 0; i < 256; ++i) {
      const int low = b.ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
      codes[i] = detail::u8(low | detail::two_bits(b.qh, i) << 4);
    }
  }
};

}  // namespace nibble
