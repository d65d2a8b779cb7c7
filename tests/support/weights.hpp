// SPDX-License-Identifier: MIT
// Random quantized matrices of every kind for the kernel tests: block formats with or without an encoder,
// and integer groups with random codes, scales and offsets.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/format/quantized_tensor.hpp"

namespace nibble::test {

/// Random bits, taken again where they do not decode to moderate finite numbers: covers codes and scales
/// that an encoder would never choose.
inline void fill_block(const FormatInfo& f, std::byte* block, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(f.block_size));
  for (;;) {
    for (Index i = 0; i < f.block_bytes; ++i) block[i] = static_cast<std::byte>(random() & 0xFF);
    f.decode(block, values.data(), 1);
    bool good = true;
    for (float v : values) good = good && std::abs(v) < 1e4f && (v == 0.0f || std::abs(v) > 1e-20f);
    if (good) return;
  }
}

inline QuantizedTensor random_blocks(const FormatInfo& f, Index rows, Index cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  QuantizedTensor t(f, rows, cols);
  for (Index r = 0; r < rows; ++r)
    for (Index b = 0; b < cols / f.block_size; ++b)
      fill_block(f, t.row_data(r).data() + b * f.block_bytes, random);
  return t;
}

inline QuantizedTensor random_groups(const QuantSpec& spec, Index rows, Index cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.1f);
  QuantizedTensor t(spec, rows, cols);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols));
  for (Index r = 0; r < rows; ++r) {
    for (std::uint8_t& c : codes) c = static_cast<std::uint8_t>(random() & ((1u << spec.bits) - 1));
    t.set_codes(r, 0, codes);
    for (Index g = 0; g < t.view().groups_per_row(); ++g) {
      t.set_scale(r, g, std::abs(normal(random)) + 0.001f);
      if (spec.offset == OffsetKind::int_zero)
        t.set_offset(r, g, static_cast<float>(random() & ((1u << spec.bits) - 1)));
      if (spec.offset == OffsetKind::float_min) t.set_offset(r, g, normal(random));
    }
  }
  return t;
}

struct SpecCase {
  const char* name;
  QuantSpec spec;
};

/// Groups of every shape that packing treats differently.
inline std::vector<SpecCase> spec_cases() {
  QuantSpec nf4 = integer::symmetric(4, 64), iq4 = integer::symmetric(4, 32),
            e2m1 = integer::symmetric(4, 16);
  nf4.codebook = Codebook::nf4;
  iq4.codebook = Codebook::iq4_nl;
  e2m1.codebook = Codebook::e2m1;
  return {{"int4 sym g32", integer::symmetric(4, 32)},
          {"int4 sym g64", integer::symmetric(4, 64)},
          {"int4 sym g128", integer::symmetric(4, 128)},
          {"int4 sym row", integer::symmetric(4, 0)},
          {"int4 sym g16", integer::symmetric(4, 16)},
          {"int4 sym g48", integer::symmetric(4, 48)},
          {"int4 sym g8 (floats)", integer::symmetric(4, 8)},
          {"int1 sym g32", integer::symmetric(1, 32)},
          {"int2 asym g32", integer::asymmetric(2, 32)},
          {"int3 asym g64", integer::asymmetric(3, 64)},
          {"int4 asym g128", integer::asymmetric(4, 128)},
          {"int5 sym g32", integer::symmetric(5, 32)},
          {"int6 asym g16", integer::asymmetric(6, 16)},
          {"int7 sym g32", integer::symmetric(7, 32)},
          {"int8 sym row", integer::symmetric(8, 0)},
          {"int8 asym g128", integer::asymmetric(8, 128)},
          {"int4 asym g64 f32", integer::asymmetric(4, 64, DType::f32)},
          {"int8 asym g64 f32 (floats)", integer::asymmetric(8, 64, DType::f32)},
          {"int4 sym g32 bf16", integer::symmetric(4, 32, DType::bf16)},
          {"int4 min g32", integer::affine_min(4, 32)},
          {"int8 min g64 f32", integer::affine_min(8, 64, DType::f32)},
          {"nf4 g64 (floats)", nf4},
          {"iq4_nl g32", iq4},
          {"e2m1 g16", e2m1}};
}

/// The dense values, [rows, cols].
inline Matrix<float> decoded(const QuantizedView& v) {
  Matrix<float> w({v.rows(), v.cols()});
  v.decode(w.view());
  return w;
}

}  // namespace nibble::test
