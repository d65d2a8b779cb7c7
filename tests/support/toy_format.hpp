// SPDX-License-Identifier: MIT
// A format that only this header knows: 8 weights of 3 bits in a little-endian bit stream behind a bfloat16
// scale. It stands for what a user would write; nothing in the library names it.
#pragma once

#include <algorithm>
#include <cmath>

#include "nibble/format/block_format.hpp"

namespace nibble::test {

struct Toy3 {
  static constexpr std::string_view name = "toy3";
  static constexpr Index block_size = 8, sub_group = 8;
  static constexpr int code_bits = 3, zero = 4;
  static constexpr bool has_min = false;
  struct Block { std::uint8_t scale[2], codes[3]; };

  static void unpack(const Block& b, Codes<8> codes, Floats<1> scales, Floats<1> mins) noexcept {
    scales[0] = bfloat16::from_bits(static_cast<std::uint16_t>(b.scale[0] | b.scale[1] << 8));
    mins[0] = 0;
    const unsigned stream =
        b.codes[0] | static_cast<unsigned>(b.codes[1]) << 8 | static_cast<unsigned>(b.codes[2]) << 16;
    for (std::size_t i = 0; i < 8; ++i) codes[i] = static_cast<std::uint8_t>(stream >> (3 * i) & 7);
  }
  static void encode(ConstFloats<8> x, Block& b, Importance = {}) noexcept {
    float extreme = x[0];
    for (float v : x) if (std::abs(v) > std::abs(extreme)) extreme = v;
    const auto scale = bfloat16(std::clamp(extreme / -4, -8e37f, 8e37f));  // times 4 stays a float
    b.scale[0] = static_cast<std::uint8_t>(scale.bits & 0xFF);
    b.scale[1] = static_cast<std::uint8_t>(scale.bits >> 8);
    const float inverse = std::isfinite(1 / scale) ? 1 / scale : 0.0f;
    unsigned stream = 0;
    for (std::size_t i = 0; i < 8; ++i)
      stream |= static_cast<unsigned>(std::clamp(std::nearbyint(x[i] * inverse), -4.0f, 3.0f) + 4) << (3 * i);
    for (std::size_t i = 0; i < 3; ++i) b.codes[i] = static_cast<std::uint8_t>(stream >> (8 * i));
  }
};

}  // namespace nibble::test
