// SPDX-License-Identifier: MIT
// A block format that says neither how to unpack nor how to decode.
// expect: a block format states either unpack
#include "nibble/format/block_format.hpp"

struct Mine {
  struct Block { std::uint8_t bytes[4]; };
  static constexpr std::string_view name = "mine";
  static constexpr nibble::Index block_size = 32;
};

void wrong(const Mine::Block& block, nibble::Floats<32> values) { nibble::decode_block<Mine>(block, values); }
