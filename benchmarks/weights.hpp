// SPDX-License-Identifier: MIT
// Random weights for benchmarks, in any format.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "nibble/format/quantized_tensor.hpp"

namespace nibble::bench {

inline void fill_normal(std::span<float> values, float deviation = 1.0f) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0f, deviation);
  for (float& v : values) v = normal(random);
}

/// One random row, repeated: the time of no kernel depends on the values.
inline QuantizedTensor random_weights(const FormatInfo& format, Index rows, Index cols) {
  QuantizedTensor t(format, rows, cols);
  if (format.has_encode()) {
    std::vector<float> row(static_cast<std::size_t>(cols));
    fill_normal(row, 0.05f);
    format.encode(row.data(), nullptr, t.row_data(0).data(), cols / format.block_size);
  } else {  // small bytes give small, finite scales in every format
    std::mt19937 random(1);
    for (std::byte& b : t.row_data(0)) b = static_cast<std::byte>(random() & 0x2F);
  }
  for (Index r = 1; r < rows; ++r)
    std::memcpy(t.row_data(r).data(), t.row_data(0).data(), t.row_data(0).size());
  return t;
}

/// Normal weights of which a random share is zero, a row like no other; a format that can be encoded.
inline QuantizedTensor pruned_weights(const FormatInfo& format, Index rows, Index cols, double zeros) {
  QuantizedTensor t(format, rows, cols);
  std::vector<float> values(static_cast<std::size_t>(cols)), row(values.size());
  fill_normal(values, 0.05f);
  std::mt19937 random(3);
  for (Index r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < row.size(); ++k)
      row[k] = static_cast<double>(random()) < zeros * 4294967296.0 ? 0.0f : values[k];
    format.encode(row.data(), nullptr, t.row_data(r).data(), cols / format.block_size);
  }
  return t;
}

}  // namespace nibble::bench
