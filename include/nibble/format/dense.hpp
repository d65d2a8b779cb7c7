// SPDX-License-Identifier: MIT
// Plain numbers as formats with blocks of one: f32, f16, bf16, little endian. They make every tensor of a
// file a QuantizedView, whatever it holds.
#pragma once

#include <bit>

#include "nibble/format/block_format.hpp"

namespace nibble {

struct F32 {
  static constexpr std::string_view name = "f32";
  static constexpr std::uint32_t gguf_type = 0;
  static constexpr Index block_size = 1;
  struct Block { std::uint8_t bytes[4]; };

  static void decode(const Block& b, Floats<1> y) noexcept {
    y[0] = std::bit_cast<float>(static_cast<std::uint32_t>(b.bytes[0]) | std::uint32_t{b.bytes[1]} << 8 |
                                std::uint32_t{b.bytes[2]} << 16 | std::uint32_t{b.bytes[3]} << 24);
  }
  static void encode(ConstFloats<1> x, Block& b, Importance = {}) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(x[0]);
    for (unsigned i = 0; i < 4; ++i) b.bytes[i] = detail::u8(u >> (8 * i) & 0xFF);
  }
};

/// Values beyond +-65504 saturate: what is stored is always finite.
struct F16 {
  static constexpr std::string_view name = "f16";
  static constexpr std::uint32_t gguf_type = 1;
  static constexpr Index block_size = 1;
  struct Block { detail::PackedHalf value; };

  static void decode(const Block& b, Floats<1> y) noexcept { y[0] = b.value; }
  static void encode(ConstFloats<1> x, Block& b, Importance = {}) noexcept {
    b.value = half::saturated(x[0]);
  }
};

struct BF16 {
  static constexpr std::string_view name = "bf16";
  static constexpr std::uint32_t gguf_type = 30;
  static constexpr Index block_size = 1;
  struct Block { std::uint8_t bytes[2]; };

  static void decode(const Block& b, Floats<1> y) noexcept {
    y[0] = bfloat16::from_bits(static_cast<std::uint16_t>(b.bytes[0] | b.bytes[1] << 8));
  }
  static void encode(ConstFloats<1> x, Block& b, Importance = {}) noexcept {
    const bfloat16 v = bfloat16::saturated(x[0]);
    b.bytes[0] = detail::u8(v.bits & 0xFFu);
    b.bytes[1] = detail::u8(v.bits >> 8);
  }
};

}  // namespace nibble
