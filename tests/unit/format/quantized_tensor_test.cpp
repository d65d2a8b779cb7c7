// SPDX-License-Identifier: MIT
// QuantizedView and QuantizedTensor: sizes checked, rows decoded and unpacked alike for blocks and planes.
#include <cmath>
#include <cstring>
#include <memory_resource>
#include <random>
#include <vector>

#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/format/quantized_tensor.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

/// Random bytes as a matrix of `format`, its blocks' scales possibly anything.
QuantizedTensor random_blocks(const FormatInfo& format, Index rows, Index cols) {
  QuantizedTensor t(format, rows, cols);
  std::mt19937 rng(7);
  for (Index r = 0; r < rows; ++r)
    for (std::byte& b : t.row_data(r)) b = static_cast<std::byte>(rng() & 0x3F);  // keeps halves finite
  return t;
}

QuantizedTensor random_planes(const QuantSpec& spec, Index rows, Index cols) {
  QuantizedTensor t(spec, rows, cols);
  std::mt19937 rng(8);
  std::uniform_real_distribution<float> number(0.25f, 2.0f);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) {
      const auto code = static_cast<std::uint8_t>(rng() & ((1u << spec.bits) - 1));
      t.set_codes(r, c, {&code, 1});
    }
    for (Index g = 0; g < spec.groups_per_row(cols); ++g) {
      t.set_scale(r, g, number(rng));
      t.set_offset(
          r, g,
          spec.offset == OffsetKind::int_zero ? static_cast<float>(rng() % (1u << spec.bits)) : number(rng));
    }
  }
  if (spec.tensor_scale) t.set_tensor_scale(0.5f);
  return t;
}

std::vector<QuantSpec> storable_specs() {
  std::vector<QuantSpec> specs;
  for (int bits = 1; bits <= 8; ++bits)
    for (const Index group : {Index{0}, Index{7}, Index{32}}) {
      specs.push_back(integer::symmetric(bits, group, DType::bf16));
      specs.push_back(integer::asymmetric(bits, group));
      specs.push_back(integer::affine_min(bits, group, DType::f32));
    }
  specs.push_back(
      {.bits = 8, .codebook = Codebook::e5m2, .group = {GroupKind::tensor, 0, 1}, .tensor_scale = true});
  specs.push_back({.bits = 4, .codebook = Codebook::nf4, .group = {GroupKind::block, 16, 2}});
  return specs;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("blocks from outside are checked before anything reads them", "[quantized_tensor]") {
  const FormatInfo& q4 = format_info<Q4_0>();
  std::vector<std::byte> bytes(18 * 6);
  CHECK(QuantizedView::from_blocks(q4, 3, 64, bytes).row_bytes() == 36);
  CHECK_THROWS_WITH(QuantizedView::from_blocks(q4, 3, 65, bytes),
                    Catch::Contains("65") && Catch::Contains("q4_0"));
  CHECK_THROWS_WITH(QuantizedView::from_blocks(q4, 4, 64, bytes),
                    Catch::Contains("144 bytes") && Catch::Contains("108"));
  CHECK_THROWS_AS(QuantizedView::from_blocks(q4, 2, 64, bytes), Error);  // too many is wrong, too
  CHECK_THROWS_AS(QuantizedView::from_blocks(q4, -3, 64, bytes), Error);
  CHECK_THROWS_AS(QuantizedView::from_blocks(q4, 3, -64, bytes), Error);
  CHECK_THROWS_AS(QuantizedView::from_blocks(q4, Index{1} << 60, Index{1} << 60, bytes), Error);
  CHECK(QuantizedView::from_blocks(q4, 0, 64, {}).bytes() == 0);
}

TEST_CASE("planes from outside are checked", "[quantized_tensor]") {
  const QuantSpec s = integer::asymmetric(4, 32);
  const std::vector<std::byte> codes(2 * 20), scales(2 * 2 * 2), zeros(2 * 2);
  CHECK_NOTHROW(QuantizedView::from_planes(s, 2, 40, codes, scales, zeros));
  CHECK_THROWS_WITH(QuantizedView::from_planes(s, 2, 41, codes, scales, zeros), Catch::Contains("codes"));
  CHECK_THROWS_WITH(QuantizedView::from_planes(s, 2, 40, codes, zeros, zeros), Catch::Contains("scales"));
  CHECK_THROWS_WITH(QuantizedView::from_planes(s, 2, 40, codes, scales), Catch::Contains("offsets"));
  CHECK_THROWS_AS(QuantizedView::from_planes(s, 2, 40, codes, scales, zeros, 2.0f), Error);
}

TEST_CASE("unpacked rows give the decoded rows, for every format and spec", "[quantized_tensor]") {
  const Index rows = 5;
  const auto check = [&](const QuantizedView& t) {
    INFO(t.type_name() << " with " << t.cols() << " columns");
    const auto cols = static_cast<std::size_t>(t.cols()),
               groups = static_cast<std::size_t>(t.groups_per_row());
    std::vector<float> decoded(cols), again(cols), scales(groups), mins(groups);
    std::vector<std::uint8_t> codes(cols), zeros(groups);
    for (Index r = 0; r < rows; ++r) {
      t.decode_row(r, decoded);
      t.unpack_row(r, {codes, scales, mins, zeros});
      for (std::size_t k = 0; k < cols; ++k) {
        const std::size_t g = k / static_cast<std::size_t>(t.group());
        again[k] = scales[g] * (t.code_value(codes[k]) - static_cast<float>(zeros[g])) - mins[g];
      }
      REQUIRE(same_bits(decoded, again));
      t.unpack_row(r, {codes, scales, mins});  // zeros folded into the minima: exact for 16-bit scales
      for (std::size_t k = 0; k < cols; ++k) {
        const std::size_t g = k / static_cast<std::size_t>(t.group());
        const float v = scales[g] * t.code_value(codes[k]) - mins[g];
        REQUIRE((v == decoded[k] || (std::isnan(v) && std::isnan(decoded[k]))));
      }
    }
  };
  for (const FormatInfo* f : all_formats())
    if (!f->dense) check(random_blocks(*f, rows, 2 * f->block_size));
  for (const QuantSpec& s : storable_specs())
    for (const Index cols : {Index{1}, Index{31}, Index{64}, Index{67}}) check(random_planes(s, rows, cols));
}

TEST_CASE("row slices and copies keep their values", "[quantized_tensor]") {
  const auto check = [](const QuantizedTensor& t) {
    INFO(t.type_name());
    std::vector<float> a(static_cast<std::size_t>(t.cols())), b(a.size());
    const QuantizedView slice = t.slice_rows(2, 3).slice_rows(2, 1);
    const QuantizedTensor copy = QuantizedTensor::copy_of(t.slice_rows(4, 2)), whole = t.clone();
    t.decode_row(4, a);
    slice.decode_row(0, b);
    CHECK(same_bits(a, b));
    copy.decode_row(0, b);
    CHECK(same_bits(a, b));
    whole.decode_row(4, b);
    CHECK(same_bits(a, b));
    CHECK(whole.bytes() == t.bytes());
    CHECK_THROWS_AS(t.slice_rows(4, 3), Error);
    CHECK_THROWS_AS(t.slice_rows(-1, 1), Error);
  };
  check(random_blocks(format_info<Q6_K>(), 6, 512));
  check(random_blocks(format_info<BF16>(), 6, 10));
  for (const QuantSpec& s : storable_specs()) check(random_planes(s, 6, 67));
}

TEST_CASE("decoding fills any strided view and refuses wrong shapes", "[quantized_tensor]") {
  const QuantizedTensor t = random_blocks(format_info<Q4_1>(), 3, 64);
  std::vector<float> plain(3 * 64), transposed(3 * 64), padded(3 * 70, -1.0f);
  t.decode(MatrixView<float>(plain.data(), {3, 64}));
  t.decode(MatrixView<float>(transposed.data(), {3, 64}, {1, 3}));
  t.decode(MatrixView<float>(padded.data(), {3, 64}, {70, 1}));
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 64; ++c) {
      REQUIRE(transposed[c * 3 + r] == plain[r * 64 + c]);
      REQUIRE(padded[r * 70 + c] == plain[r * 64 + c]);
    }
  CHECK(padded[64] == -1.0f);
  CHECK_THROWS_AS(t.decode(MatrixView<float>(plain.data(), {3, 63})), Error);
  CHECK_THROWS_AS(t.decode_row(3, std::span<float>(plain).first(64)), Error);
  CHECK_THROWS_AS(t.decode_row(0, std::span<float>(plain).first(63)), Error);
  CHECK_THROWS_AS(t.unpack_row(0, {}), Error);
  CHECK_THROWS_WITH(random_blocks(format_info<F32>(), 1, 4).unpack_row(0, {}), Catch::Contains("no codes"));
}

TEST_CASE("a tensor lives in the caller's memory and says its size", "[quantized_tensor]") {
  std::vector<std::byte> pool(1 << 16);
  std::pmr::monotonic_buffer_resource memory(pool.data(), pool.size(), std::pmr::null_memory_resource());
  const QuantizedTensor t(format_info<Q8_0>(), 4, 64, &memory);
  const std::byte* p = t.view().row_data(0);
  CHECK((p >= pool.data() && p < pool.data() + pool.size()));
  CHECK(t.bytes() == 4 * 68);
  CHECK(t.bits_per_weight() == 8.5);
  CHECK(t.type_name() == "q8_0");
  CHECK(QuantizedTensor(integer::asymmetric(4, 32), 2, 64).bits_per_weight() == 4 + 24.0 / 32);
  CHECK(QuantizedTensor().bytes() == 0);
  CHECK(QuantizedTensor().clone().rows() == 0);
  QuantizedTensor a(format_info<Q8_0>(), 1, 32), b = std::move(a);
  CHECK(b.rows() == 1);
  CHECK(a.rows() == 0);  // NOLINT: moved-from is empty
}
