// SPDX-License-Identifier: MIT
// Feed-forward activations and element-wise helpers. All work on [rows, cols] and may run in place.
//   SwiGlu: y = silu(gate) * up,  silu(v) = v / (1 + e^-v)                (Shazeer 2020, eq. 6)
//   GeGlu:  y = gelu_tanh(gate) * up                                      (Shazeer 2020, eq. 5)
//   Gelu:   erf form, or 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3)))  (Hendrycks & Gimpel 2016)
#pragma once

#include <cmath>

#include "nibble/ops/op.hpp"

namespace nibble {

namespace detail {
inline double silu(double v) { return v / (1.0 + std::exp(-v)); }
inline double gelu_tanh(double v) {
  return 0.5 * v * (1.0 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}
inline double gelu_erf(double v) { return 0.5 * v * (1.0 + std::erf(v * 0.7071067811865476)); }
}  // namespace detail

/// Of the gate of a feed-forward network.
enum class Activation { silu, gelu_tanh };

struct SwiGlu {
  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> gate,
                         MatrixView<const float, typename B::Space> up,
                         MatrixView<float, typename B::Space> y);
  static void reference(const SwiGlu&, MatrixView<const float> gate, MatrixView<const float> up,
                        MatrixView<float> y) {
    for (Index r = 0; r < y.rows(); ++r)
      for (Index c = 0; c < y.cols(); ++c) y(r, c) = float(detail::silu(gate(r, c)) * up(r, c));
  }
};

struct GeGlu {
  template <class B>
  using Signature = SwiGlu::Signature<B>;
  static void reference(const GeGlu&, MatrixView<const float> gate, MatrixView<const float> up,
                        MatrixView<float> y) {
    for (Index r = 0; r < y.rows(); ++r)
      for (Index c = 0; c < y.cols(); ++c) y(r, c) = float(detail::gelu_tanh(gate(r, c)) * up(r, c));
  }
};

struct Gelu {
  enum class Form { erf, tanh } form = Form::erf;
  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, MatrixView<float, typename B::Space> y);
  static void reference(const Gelu& op, MatrixView<const float> x, MatrixView<float> y) {
    for (Index r = 0; r < y.rows(); ++r)
      for (Index c = 0; c < y.cols(); ++c)
        y(r, c) = float(op.form == Form::erf ? detail::gelu_erf(x(r, c)) : detail::gelu_tanh(x(r, c)));
  }
};

/// y += x: the residual connection where no linear layer can carry it in its epilogue.
struct Add {
  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, MatrixView<float, typename B::Space> y);
  static void reference(const Add&, MatrixView<const float> x, MatrixView<float> y) {
    for (Index r = 0; r < y.rows(); ++r)
      for (Index c = 0; c < y.cols(); ++c) y(r, c) = float(double(y(r, c)) + x(r, c));
  }
};

/// y = cap * tanh(y / cap): bounds logits to (-cap, cap) (Gemma 2 report, section 2).
struct SoftCapLogits {
  float cap = 30.0f;
  template <class B>
  using Signature = void(MatrixView<float, typename B::Space> y);
  static void reference(const SoftCapLogits& op, MatrixView<float> y) {
    for (Index r = 0; r < y.rows(); ++r)
      for (Index c = 0; c < y.cols(); ++c) y(r, c) = float(op.cap * std::tanh(double(y(r, c)) / op.cap));
  }
};

}  // namespace nibble
