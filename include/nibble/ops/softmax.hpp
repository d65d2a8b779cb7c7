// SPDX-License-Identifier: MIT
// Softmax over the last dimension, shifted by the row maximum.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "nibble/ops/op.hpp"

namespace nibble {

/// x[rows, cols] -> y[rows, cols], y = exp(x*scale - max) / sum; y may be x. A row of -infinity
/// (everything masked) gives zeros, never NaN.
struct Softmax {
  float scale = 1.0f;

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, MatrixView<float, typename B::Space> y);

  static void reference(const Softmax& op, MatrixView<const float> x, MatrixView<float> y) {
    for (Index r = 0; r < x.rows(); ++r) {
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (Index c = 0; c < x.cols(); ++c) max = std::max(max, double(x(r, c)) * op.scale);
      if (max == -std::numeric_limits<double>::infinity()) {
        for (Index c = 0; c < x.cols(); ++c) y(r, c) = 0.0f;
        continue;
      }
      for (Index c = 0; c < x.cols(); ++c) sum += std::exp(double(x(r, c)) * op.scale - max);
      for (Index c = 0; c < x.cols(); ++c) y(r, c) = float(std::exp(double(x(r, c)) * op.scale - max) / sum);
    }
  }
};

}  // namespace nibble
