// SPDX-License-Identifier: MIT
// Rotary position embedding (Su et al. 2021, eq. 34): pairs of a head's features are rotated by
// position * frequency. Two pair orders exist: neighbours (2i, 2i+1), and halves (i, i + rotary/2).
// Frequencies come precomputed, so that every scaling rule (linear, llama3, ...) is data, not code.
#pragma once

#include <cmath>

#include "nibble/ops/op.hpp"

namespace nibble {

/// Rotates x[tokens, heads, head_dim] in place; features beyond 2 * frequencies are left alone.
struct Rope {
  enum class Pairs { neighbours, halves } pairs = Pairs::halves;
  VectorView<const float> frequencies{};  ///< radians per position, [rotary / 2]
  float magnitude = 1.0f;                 ///< multiplies sine and cosine (YaRN's attention factor)

  template <class B>
  using Signature = void(VectorView<const Index> positions, TensorView<float, 3, typename B::Space> x);

  static void reference(const Rope& op, VectorView<const Index> positions, TensorView<float, 3> x) {
    const Index half = op.frequencies.size();
    for (Index t = 0; t < x.extent(0); ++t) {
      for (Index h = 0; h < x.extent(1); ++h) {
        for (Index i = 0; i < half; ++i) {
          const double angle = double(positions[t]) * double(op.frequencies[i]);
          const double c = std::cos(angle) * op.magnitude, s = std::sin(angle) * op.magnitude;
          float& a = op.pairs == Pairs::halves ? x(t, h, i) : x(t, h, 2 * i);
          float& b = op.pairs == Pairs::halves ? x(t, h, i + half) : x(t, h, 2 * i + 1);
          const double a0 = a, b0 = b;
          a = float(a0 * c - b0 * s);
          b = float(a0 * s + b0 * c);
        }
      }
    }
  }
};

}  // namespace nibble
