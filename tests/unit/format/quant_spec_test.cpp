// SPDX-License-Identifier: MIT
// QuantSpec states every published layout: each one here with its known bits per weight. What a spec may not
// say is refused with a sentence.
#include "nibble/format/formats.hpp"
#include "nibble/format/integer_group.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

struct Known { const char* what; QuantSpec spec; double bits; Index rows = 4096, cols = 4096; };

ScaleSpec one_level(DType t) { return {t, 0, false, 1}; }
ScaleSpec two_level(int bits, bool is_signed, Index super_group) {
  return {DType::f16, bits, is_signed, super_group};
}
GroupShape groups(Index cols) { return {GroupKind::group, cols, 1}; }

std::vector<Known> known_layouts() {
  QuantSpec q4_0{.bits = 4, .group = groups(32), .origin = Origin::gguf};
  QuantSpec q4_1{
      .bits = 4, .codebook = Codebook::linear_unsigned, .group = groups(32), .offset = OffsetKind::float_min};
  QuantSpec q2_k{.bits = 2,
                 .codebook = Codebook::linear_unsigned,
                 .group = groups(16),
                 .scale = two_level(4, false, 16),
                 .offset = OffsetKind::two_level_min};
  QuantSpec q3_k{.bits = 3, .group = groups(16), .scale = two_level(6, true, 16)};
  QuantSpec q4_k{.bits = 4,
                 .codebook = Codebook::linear_unsigned,
                 .group = groups(32),
                 .scale = two_level(6, false, 8),
                 .offset = OffsetKind::two_level_min};
  QuantSpec q5_k = q4_k;
  q5_k.bits = 5;
  QuantSpec q6_k{.bits = 6, .group = groups(16), .scale = two_level(8, true, 16)};
  QuantSpec iq4_xs{
      .bits = 4, .codebook = Codebook::iq4_nl, .group = groups(32), .scale = two_level(6, true, 8)};
  QuantSpec iq4_nl{.bits = 4, .codebook = Codebook::iq4_nl, .group = groups(32)};
  QuantSpec awq = integer::asymmetric(4, 128);
  awq.origin = Origin::awq;
  QuantSpec gptq = awq;
  gptq.column_permutation = true;
  gptq.origin = Origin::gptq;
  QuantSpec pack_quantized = integer::symmetric(4, 128, DType::bf16);
  QuantSpec channel_int8 = integer::symmetric(8, 0, DType::f32);
  QuantSpec fp8_block{.bits = 8,
                      .codebook = Codebook::e4m3,
                      .group = {GroupKind::block, 128, 128},
                      .scale = one_level(DType::f32)};
  QuantSpec fp8_tensor{.bits = 8,
                       .codebook = Codebook::e4m3,
                       .group = {GroupKind::tensor, 0, 1},
                       .scale = one_level(DType::f32)};
  QuantSpec mxfp4{
      .bits = 4, .codebook = Codebook::e2m1, .group = groups(32), .scale = one_level(DType::e8m0)};
  QuantSpec nvfp4{.bits = 4,
                  .codebook = Codebook::e2m1,
                  .group = groups(16),
                  .scale = one_level(DType::f8_e4m3),
                  .tensor_scale = true};
  QuantSpec nf4{.bits = 4, .codebook = Codebook::nf4, .group = groups(64), .scale = one_level(DType::f32)};
  QuantSpec nf4_double{
      .bits = 4, .codebook = Codebook::nf4, .group = groups(64), .scale = {DType::f32, 8, false, 256}};
  QuantSpec tq2{.bits = 2, .codebook = Codebook::ternary, .group = groups(256)};
  QuantSpec q1{.bits = 1, .codebook = Codebook::binary, .group = groups(128)};
  QuantSpec marlin24 = pack_quantized;
  marlin24.sparsity = Sparsity::two_of_four;
  QuantSpec spqr{.bits = 4,
                 .codebook = Codebook::linear_unsigned,
                 .group = groups(16),
                 .scale = two_level(3, false, 16),
                 .offset = OffsetKind::two_level_min,
                 .outlier_fraction = 0.01};
  QuantSpec iq4_k{
      .bits = 4, .codebook = Codebook::pair, .group = groups(16), .scale = two_level(6, true, 16)};
  QuantSpec own{.bits = 2,
                .codebook = Codebook::user,
                .group = groups(64),
                .user_codebook = {-1.5f, -0.4f, 0.4f, 1.5f}};
  return {{"q4_0", q4_0, 4.5},
          {"q4_1", q4_1, 5.0},
          {"q2_k", q2_k, 2.625},
          {"q3_k", q3_k, 3.4375},
          {"q4_k", q4_k, 4.5},
          {"q5_k", q5_k, 5.5},
          {"q6_k", q6_k, 6.5625},
          {"iq4_xs", iq4_xs, 4.25},
          {"iq4_nl", iq4_nl, 4.5},
          {"awq", awq, 4.15625},
          {"gptq act-order", gptq, 4.15625},
          {"pack-quantized", pack_quantized, 4.125},
          {"int8 per channel", channel_int8, 8.0078125},
          {"fp8 128x128", fp8_block, 8 + 32.0 / 16384},
          {"fp8 per tensor", fp8_tensor, 8 + 32.0 / (4096.0 * 4096)},
          {"mxfp4", mxfp4, 4.25},
          {"nvfp4", nvfp4, 4.5 + 32.0 / (4096.0 * 4096)},
          {"nf4", nf4, 4.5},
          {"nf4 double", nf4_double, 4 + 8.125 / 64},
          {"tq2_0", tq2, 2.0625},
          {"q1_0", q1, 1.125},
          {"marlin-24", marlin24, 2 + 1 + 0.125},
          {"spqr", spqr, 4 + 2 * (3 + 1.0) / 16 + 0.32 + 32.0 / 4096},
          {"iq4_k", iq4_k, 4 + (6 + 1.0) / 16},
          {"user", own, 2.25}};
}

}  // namespace

TEST_CASE("every published layout has a spec with the size it is known for", "[quant_spec]") {
  for (const Known& k : known_layouts()) {
    INFO(k.what << ": " << to_string(k.spec));
    CHECK_NOTHROW(k.spec.validate());
    CHECK(k.spec.bits_per_weight(k.rows, k.cols) == Approx(k.bits).epsilon(1e-12));
    const FormatInfo* f = find_format(k.what);
    if (f != nullptr) CHECK(f->bits_per_weight() == k.bits);
  }
}

TEST_CASE("specs print distinctly and compare by value", "[quant_spec]") {
  const auto all = known_layouts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].spec == QuantSpec(all[i].spec));
    for (std::size_t j = 0; j < i; ++j) {
      INFO(all[i].what << " and " << all[j].what);
      CHECK_FALSE(to_string(all[i].spec) == to_string(all[j].spec));
    }
  }
  CHECK(to_string(integer::asymmetric(4, 128)) == "int4 unsigned g128 scale f16 int_zero");
  CHECK(to_string(integer::symmetric_narrow(3, 0, DType::bf16)) == "int3 signed narrow row scale bf16");
}

TEST_CASE("a contradictory spec is refused with its reason", "[quant_spec]") {
  const auto refused = [](QuantSpec s, const char* reason) {
    INFO(reason);
    CHECK_THROWS_WITH(s.validate(), Catch::Contains(reason));
  };
  refused({.bits = 0}, "1 to 8 bits");
  refused({.bits = 9}, "1 to 8 bits");
  refused({.bits = 3, .codebook = Codebook::nf4}, "4-bit codes");
  refused({.bits = 5, .codebook = Codebook::user}, "at most 16 entries");
  refused({.bits = 2, .codebook = Codebook::user, .user_codebook = {0, 1, 1, 2}}, "ascending");
  refused({.bits = 1, .narrow_range = true}, "narrow range");
  refused({.codebook = Codebook::linear_unsigned, .narrow_range = true}, "narrow range");
  refused({.group = {GroupKind::group, 0, 1}}, "at least one column");
  refused({.group = {GroupKind::block, 128, 0}}, "at least one row");
  refused({.scale = {DType::i8, 0, false, 1}}, "scales are f32, f16, bf16");
  refused({.scale = {DType::f16, 0, false, 8}}, "two-level scales");
  refused({.scale = {DType::f16, 9, false, 8}}, "up to 8 bits");
  refused({.offset = OffsetKind::int_zero}, "unsigned linear codes");
  refused({.offset = OffsetKind::two_level_min}, "two-level");
  refused({.offset = OffsetKind::float_min, .offset_dtype = DType::i32}, "floating type");
  refused({.outlier_fraction = 2}, "0..1");
}

TEST_CASE("what planes cannot store yet is unsupported, not garbled", "[quant_spec]") {
  for (const Known& k : known_layouts()) {
    INFO(k.what);
    const QuantSpec& s = k.spec;
    const bool storable = !s.scale.two_level() && !s.column_permutation && s.outlier_fraction == 0 &&
                          s.sparsity == Sparsity::none && s.codebook != Codebook::pair;
    if (storable) CHECK_NOTHROW(require_storable(s));
    else CHECK_THROWS_WITH(require_storable(s), Catch::Contains("do not store"));
  }
}
