// SPDX-License-Identifier: MIT
// What a caller may choose when weights are packed. The default keeps every weight.
#pragma once

#include <cstdint>

#include "nibble/core/memory.hpp"

namespace nibble {

/// How pruned weights are packed: those whose code stands for zero. Values, and the bits of every product in fast and
/// exact numerics, are those of the dense matrix.
enum class SparsePacking : std::uint8_t {
  dense,      ///< like any other weight
  bitmap,     ///< one bit a weight says which are stored; codes of 8 and 4 bits that have a zero
  blocks,     ///< blocks of 32 x 32 weights that are all pruned are left out; any codes without minima
  automatic,  ///< of these what decodes fastest here, by the bytes that remain and measured thresholds
};

struct PackOptions {
  SparsePacking sparse = SparsePacking::dense;
  MemoryResource* memory = nullptr;  ///< of the packed weights, which it must outlive; null: the context's
};

/// How a matrix was packed, and what packing found.
struct PackedSparsity {
  SparsePacking packing = SparsePacking::dense;  ///< never automatic
  double stored = 1;     ///< share of the weights that are stored
  int most_of_four = 4;  ///< most weights kept of four neighbours in a row: 2 for a matrix pruned 2:4
};

}  // namespace nibble
