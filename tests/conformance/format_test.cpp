// SPDX-License-Identifier: MIT
// Every block format of THE list: golden bytes of the file format's reference implementation, the affine
// view, round trips, degenerate groups, importances. A new entry is tested with no line here.
#include "nibble/format/formats.hpp"
#include "support/format_checks.hpp"
#include "support/format_golden.hpp"
#include "support/toy_format.hpp"

using namespace nibble;

TEST_CASE("every format keeps its promises", "[format]") {
  for (const FormatInfo* f : all_formats()) {
    const bool eight_bit_mantissa = f == &format_info<BF16>();
    DYNAMIC_SECTION(f->name) { test::check_format(*f, eight_bit_mantissa ? 0x1p-8 : 0x1p-11); }
  }
}

TEST_CASE("a format from a test-only header needs no entry anywhere", "[format]") {
  const FormatInfo& f = format_info<test::Toy3>();
  test::check_format(f, 0x1p-8);
  CHECK(f.name == "toy3");
  CHECK(f.gguf_type == no_gguf_type);
  CHECK(f.bits_per_weight() == 5.0);
  CHECK(f.has_encode());
  CHECK(find_format("toy3") == nullptr);
}

TEST_CASE("blocks decode and encode to the reference's bytes", "[format][golden]") {
  for (const FormatInfo* f : all_formats()) {
    if (f == &format_info<F32>()) continue;  // stored as it is
    DYNAMIC_SECTION(f->name) {
      const auto golden = test::FormatGolden::load(std::string(f->name));
      REQUIRE(golden.found);
      REQUIRE(golden.block_size == f->block_size);
      REQUIRE(golden.block_bytes == f->block_bytes);
      REQUIRE(golden.decode.size() >= 32);
      std::size_t differing = 0;
      for (const auto& [block, values] : golden.decode) {
        const test::Decoded d(*f, block);
        for (std::size_t i = 0; i < values.size(); ++i)
          differing += std::isnan(values[i]) ? !std::isnan(d.values[i])
                                             : std::bit_cast<std::uint32_t>(d.values[i]) !=
                                                   std::bit_cast<std::uint32_t>(values[i]);
      }
      CHECK(differing == 0);
      for (const auto& [block, values] : golden.encode) {
        REQUIRE(f->has_encode());
        INFO("first weight " << values[0]);
        REQUIRE(test::encode(*f, values) == block);
      }
      const bool reference_encodes = f->block_size == 1 || (f->block_size == 32 && f->codebook == nullptr);
      CHECK(golden.encode.empty() != reference_encodes);
    }
  }
}

TEST_CASE("the format list is consistent", "[format]") {
  std::size_t n = 0;
  for_each_format([&]<class F>(FormatTag<F>) {
    const FormatInfo& f = format_info<F>();
    INFO(f.name);
    CHECK(all_formats()[n++] == &f);
    CHECK(find_format(f.name) == &f);
    CHECK(find_format_by_gguf(f.gguf_type) == &f);
    CHECK(f.block_size % f.sub_group == 0);
    CHECK((f.unpack == nullptr) == f.dense);
    CHECK(f.row_bytes(2 * f.block_size) == 2 * f.block_bytes);
    CHECK(f.row_bytes(0) == 0);
    if (f.block_size > 1)
      CHECK_THROWS_WITH(f.row_bytes(f.block_size + 1), Catch::Contains(std::string(f.name)));
  });
  CHECK(n == AllFormats::size);
  CHECK(find_format("Q4_K") == &format_info<Q4_K>());
  CHECK(find_format("q4") == nullptr);
  CHECK(find_format_by_gguf(no_gguf_type) == nullptr);
  CHECK(find_format_by_gguf(4) == nullptr);
}
