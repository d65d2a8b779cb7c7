// SPDX-License-Identifier: MIT
// Normalizations over the last dimension.
//   RmsNorm:   y = x / sqrt(mean(x^2) + eps) * w          (Zhang & Sennrich 2019, eq. 4)
//   LayerNorm: y = (x - mean) / sqrt(var + eps) * w + b   (Ba, Kiros & Hinton 2016, eq. 4)
#pragma once

#include <cmath>

#include "nibble/ops/op.hpp"

namespace nibble {

/// x[rows, hidden], weight[hidden] -> y[rows, hidden]; y may be x. A zero row gives zeros.
struct RmsNorm {
  float eps = 1e-5f;

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x,
                         VectorView<const float, typename B::Space> weight,
                         MatrixView<float, typename B::Space> y);

  static void reference(const RmsNorm& op, MatrixView<const float> x, VectorView<const float> weight,
                        MatrixView<float> y) {
    for (Index r = 0; r < x.rows(); ++r) {
      double sum = 0;
      for (Index c = 0; c < x.cols(); ++c) sum += double(x(r, c)) * x(r, c);
      const double scale = 1.0 / std::sqrt(sum / double(x.cols()) + double(op.eps));
      for (Index c = 0; c < x.cols(); ++c) y(r, c) = float(x(r, c) * scale * weight[c]);
    }
  }
};

/// x[rows, hidden], weight[hidden], bias[hidden] -> y[rows, hidden]; y may be x.
struct LayerNorm {
  float eps = 1e-5f;

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x,
                         VectorView<const float, typename B::Space> weight,
                         VectorView<const float, typename B::Space> bias,
                         MatrixView<float, typename B::Space> y);

  static void reference(const LayerNorm& op, MatrixView<const float> x, VectorView<const float> weight,
                        VectorView<const float> bias, MatrixView<float> y) {
    const double n = double(x.cols());
    for (Index r = 0; r < x.rows(); ++r) {
      double mean = 0, var = 0;
      for (Index c = 0; c < x.cols(); ++c) mean += x(r, c);
      mean /= n;
      for (Index c = 0; c < x.cols(); ++c) var += (x(r, c) - mean) * (x(r, c) - mean);
      const double scale = 1.0 / std::sqrt(var / n + double(op.eps));
      for (Index c = 0; c < x.cols(); ++c) y(r, c) = float((x(r, c) - mean) * scale * weight[c] + bias[c]);
    }
  }
};

/// A norm that an op applies to its input or output on the way; `none` leaves rows as they are.
struct FoldedNorm {
  enum class Kind { none, rms, layer } kind = Kind::none;
  VectorView<const float> weight{};  ///< [cols]
  VectorView<const float> bias{};    ///< [cols], of a layer norm
  float eps = 1e-5f;

  bool present() const noexcept { return kind != Kind::none; }
};

}  // namespace nibble
