// SPDX-License-Identifier: MIT
// Embedding: gathers rows of a (possibly quantized) table.
#pragma once

#include <cstdint>

#include "nibble/ops/op.hpp"

namespace nibble {

/// ids[tokens], table[vocabulary, hidden] -> y[tokens, hidden] = table[id] * scale.
/// Throws Error{invalid_argument} for an id outside the table.
struct Embedding {
  float scale = 1.0f;

  template <class B>
  using Signature = void(VectorView<const std::int32_t> ids, const PackedMatrix<B>& table,
                         MatrixView<float, typename B::Space> y);

  static void reference(const Embedding& op, VectorView<const std::int32_t> ids, MatrixView<const float> table,
                        MatrixView<float> y) {
    for (Index t = 0; t < y.rows(); ++t)
      for (Index c = 0; c < y.cols(); ++c) y(t, c) = table(ids[t], c) * op.scale;
  }
};

}  // namespace nibble
