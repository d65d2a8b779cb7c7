// SPDX-License-Identifier: MIT
// Bit-packed codes, scale numbers and plane layouts of integer groups.
#include <random>
#include <vector>

#include "nibble/format/integer_group.hpp"
#include "support/catch.hpp"

using namespace nibble;

TEST_CASE("packed codes are a little-endian bit stream", "[integer_group]") {
  std::mt19937 rng(1);
  for (int bits = 1; bits <= 8; ++bits) {
    const Index n = 61;
    const auto bytes = static_cast<std::size_t>((n * bits + 7) / 8);
    std::vector<std::uint8_t> packed(bytes, 0xFF), codes(static_cast<std::size_t>(n));
    for (auto& c : codes) c = static_cast<std::uint8_t>(rng() & ((1u << bits) - 1));
    for (Index i = n; i-- > 0;)
      write_code(packed.data(), bits, i, codes[static_cast<std::size_t>(i)]);  // any order
    for (Index i = 0; i < n; ++i) {
      INFO(bits << " bits, code " << i);
      REQUIRE(read_code(packed.data(), bits, i) == codes[static_cast<std::size_t>(i)]);
      for (int b = 0; b < bits; ++b) {
        const auto at = static_cast<std::size_t>(i * bits + b);
        REQUIRE((packed[at / 8] >> (at % 8) & 1) == (codes[static_cast<std::size_t>(i)] >> b & 1));
      }
    }
    for (auto at = static_cast<std::size_t>(n * bits); at < bytes * 8; ++at)
      CHECK((packed[at / 8] >> (at % 8) & 1) == 1);
  }
}

TEST_CASE("a code past the last byte is never touched", "[integer_group]") {
  // 3 bits x 8 codes fill 3 bytes exactly: the last code must not read or write a fourth (ASan watches).
  std::vector<std::uint8_t> packed(3);
  write_code(packed.data(), 3, 7, 5);
  CHECK(read_code(packed.data(), 3, 7) == 5);
  CHECK(packed[2] == 0xA0);
}

TEST_CASE("scale numbers store little-endian and saturate", "[integer_group]") {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::e8m0}) {
    INFO(to_string(t));
    for (const float v : {0.25f, 1.0f, 2.0f, 0.001f, 3.0e38f}) {
      std::uint8_t bytes[4] = {};
      store_number(t, v, bytes);
      const float back = load_number(t, bytes);
      CHECK(back == round_to(t, v));
      CHECK(std::isfinite(back));
    }
  }
  std::uint8_t bytes[4];
  store_number(DType::f16, -1.0f, bytes);
  CHECK((bytes[0] == 0 && bytes[1] == 0xBC));
  store_number(DType::f32, 1.0f, bytes);
  CHECK((bytes[3] == 0x3F && bytes[2] == 0x80));
}

TEST_CASE("plane layouts count every group and refuse overflow", "[integer_group]") {
  const PlaneLayout p = plane_layout(integer::asymmetric(3, 40, DType::bf16), 5, 100);
  CHECK(p.code_row_bytes == 38);
  CHECK(p.code_bytes == 190);
  CHECK(p.scale_bytes == 5 * 3 * 2);
  CHECK(p.offset_bytes == 15);
  CHECK(p.scale_start % 64 == 0);
  CHECK(plane_layout(integer::symmetric(4, 128), 0, 0).total == 0);
  QuantSpec tile{.group = {GroupKind::block, 128, 128}};
  CHECK(plane_layout(tile, 130, 257).scale_bytes == 2 * 3 * 2);
  tile.group.kind = GroupKind::tensor;
  CHECK(plane_layout(tile, 130, 257).scale_bytes == 2);
  CHECK_THROWS_AS(plane_layout(integer::symmetric(8, 1), Index{1} << 40, Index{1} << 40), Error);
  CHECK_THROWS_AS(plane_layout(integer::symmetric(8, 1), -1, 4), Error);
}
