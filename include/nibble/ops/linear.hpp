// SPDX-License-Identifier: MIT
// Linear layers, y = x W^T, with what surrounds them folded in: a norm of the input, an epilogue on the
// output, several weights on one input, the gate of a feed-forward network. Each op is one parallel region
// (FeedForward: two), and one more where a norm follows many rows. The input is normalized and quantized once
// for all weights that read it, and no result depends on the number of threads or of tokens in the batch:
// FP32 sums over K in fixed order.
#pragma once

#include <span>
#include <vector>

#include "nibble/backend/backend.hpp"
#include "nibble/ops/activation.hpp"
#include "nibble/ops/norm.hpp"
#include "nibble/ops/op.hpp"

namespace nibble {

/// What happens to a finished output tile before it is stored.
namespace epilogue {
struct None {};                                  ///< y = t
struct Bias { VectorView<const float> bias; };   ///< y = t + bias[rows(out)]
struct Add { VectorView<const float> bias{}; };  ///< y = y + (t + bias): the residual connection; bias may be empty
/// y = f(norm(t + bias)), or y += norm(t + bias) (Gemma's norms after a branch; Linear -> LayerNorm -> GELU of
/// encoders). Few rows: by whoever ends the region's last task; many: in a region of its own.
struct Normed {
  enum class Then { store, gelu_erf, gelu_tanh, add } then = Then::store;
  FoldedNorm norm{};
  VectorView<const float> bias{};
};
}  // namespace epilogue

namespace detail {
/// rows(x) normalized; what the references share.
inline std::vector<double> folded(const FoldedNorm& norm, VectorView<const float> x) {
  std::vector<double> y(static_cast<std::size_t>(x.size()));
  double sum = 0, square = 0;
  for (Index c = 0; c < x.size(); ++c) sum += x[c];
  const bool layer = norm.kind == FoldedNorm::Kind::layer;
  const double mean = layer ? sum / double(x.size()) : 0.0;
  for (Index c = 0; c < x.size(); ++c) square += (x[c] - mean) * (x[c] - mean);
  const double scale = 1.0 / std::sqrt(square / double(x.size()) + double(norm.eps));
  for (Index c = 0; c < x.size(); ++c) {
    y[static_cast<std::size_t>(c)] = x[c];
    if (!norm.present()) continue;
    y[static_cast<std::size_t>(c)] = (x[c] - mean) * scale * norm.weight[c] + (layer ? norm.bias[c] : 0.0f);
  }
  return y;
}
inline double dot(const std::vector<double>& x, VectorView<const float> w) {
  double sum = 0;
  for (Index k = 0; k < w.size(); ++k) sum += x[static_cast<std::size_t>(k)] * w[k];
  return sum;
}
}  // namespace detail

/// x[tokens, cols(in)], w[rows(out), cols(in)] -> y[tokens, rows(out)]. x and y must not overlap.
template <class Epilogue = epilogue::None>
struct Linear {
  Epilogue epilogue{};
  /// Fast numerics only: activations as the sum of two INT8 terms, the second for what the first left over, which
  /// makes their error about 250 times smaller for twice the products. The weights are still read once.
  bool refined = false;
  FoldedNorm norm{};  ///< of the input

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, const PackedMatrix<B>& w,
                         MatrixView<float, typename B::Space> y);

  /// The oracle works on dense weights w[rows(out), cols(in)].
  static void reference(const Linear& op, MatrixView<const float> x, MatrixView<const float> w,
                        MatrixView<float> y) {
    std::vector<float> row(static_cast<std::size_t>(w.rows()));
    for (Index t = 0; t < x.rows(); ++t) {
      const std::vector<double> in = detail::folded(op.norm, x[t]);
      for (Index o = 0; o < w.rows(); ++o) {
        double sum = detail::dot(in, w[o]);
        if constexpr (!std::is_same_v<Epilogue, nibble::epilogue::None>)
          if (!op.epilogue.bias.empty()) sum += op.epilogue.bias[o];
        if constexpr (std::is_same_v<Epilogue, nibble::epilogue::Add>) sum += y(t, o);
        row[static_cast<std::size_t>(o)] = float(sum);
      }
      store(op, VectorView<const float>(row), y[t]);
    }
  }

 private:
  static void store(const Linear& op, VectorView<const float> row, VectorView<float> y) {
    if constexpr (!std::is_same_v<Epilogue, nibble::epilogue::Normed>) {
      for (Index o = 0; o < y.size(); ++o) y[o] = row[o];
    } else {
      using Then = nibble::epilogue::Normed::Then;
      const std::vector<double> n = detail::folded(op.epilogue.norm, row);
      for (Index o = 0; o < y.size(); ++o) {
        const double v = n[static_cast<std::size_t>(o)];
        switch (op.epilogue.then) {
          case Then::store: y[o] = float(v); break;
          case Then::gelu_erf: y[o] = float(detail::gelu_erf(v)); break;
          case Then::gelu_tanh: y[o] = float(detail::gelu_tanh(v)); break;
          case Then::add: y[o] = float(y[o] + v); break;
        }
      }
    }
  }
};

template <class E>
Linear(E, bool = false) -> Linear<E>;
template <class E>
Linear(E, bool, FoldedNorm) -> Linear<E>;
Linear() -> Linear<epilogue::None>;

/// One of several linear layers on the same input.
template <class B>
struct LinearOutput {
  const PackedMatrix<B>* weight = nullptr;  ///< [rows(out), cols(in)]
  MatrixView<float, typename B::Space> y{};
  VectorView<const float> bias{};           ///< [rows(out)], or empty
};

/// y_i = norm(x) W_i^T + b_i: query, key and value. Weights may differ in format and number of rows.
struct LinearGroup {
  bool refined = false;
  FoldedNorm norm{};

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, std::span<const LinearOutput<B>> outputs);
};

/// y = act(gate + b_gate) * (up + b_up) with gate = norm(x) W_gate^T and up = norm(x) W_up^T.
struct GatedLinear {
  Activation activation = Activation::silu;
  bool refined = false;
  FoldedNorm norm{};
  VectorView<const float> gate_bias{}, up_bias{};

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, const PackedMatrix<B>& gate,
                         const PackedMatrix<B>& up, MatrixView<float, typename B::Space> y);

  static void reference(const GatedLinear& op, MatrixView<const float> x, MatrixView<const float> gate,
                        MatrixView<const float> up, MatrixView<float> y) {
    for (Index t = 0; t < x.rows(); ++t) {
      const std::vector<double> in = detail::folded(op.norm, x[t]);
      for (Index o = 0; o < y.cols(); ++o) {
        const double g = detail::dot(in, gate[o]) + (op.gate_bias.empty() ? 0.0f : op.gate_bias[o]);
        const double u = detail::dot(in, up[o]) + (op.up_bias.empty() ? 0.0f : op.up_bias[o]);
        y(t, o) = float((op.activation == Activation::silu ? detail::silu(g) : detail::gelu_tanh(g)) * u);
      }
    }
  }
};

/// y += post(down W_down^T + b), down = GatedLinear(x): a gated feed-forward network with its residual
/// connection. In fast numerics what lies between the two regions is INT8, never stored as floats. y may be x.
struct FeedForward {
  GatedLinear inner{};
  FoldedNorm post{};                 ///< before the sum; usually none
  VectorView<const float> bias{};    ///< of down, or empty
  bool refined = false;              ///< of down

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, const PackedMatrix<B>& gate,
                         const PackedMatrix<B>& up, const PackedMatrix<B>& down,
                         MatrixView<float, typename B::Space> y);
};

}  // namespace nibble
