// SPDX-License-Identifier: MIT
// Linear: y = x W^T with a fused epilogue. The epilogue is a type, so each combination is its own kernel.
#pragma once

#include "nibble/backend/backend.hpp"
#include "nibble/ops/op.hpp"

namespace nibble {

/// What happens to a finished output tile before it is stored.
namespace epilogue {
struct None {};                                  ///< y = t
struct Bias { VectorView<const float> bias; };   ///< y = t + bias[rows(out)]
struct Add {};                                   ///< y = y + t: the residual connection
}  // namespace epilogue

/// x[tokens, cols(in)], w[rows(out), cols(in)] -> y[tokens, rows(out)]. FP32 accumulation over K in fixed
/// order, so results do not depend on the number of threads or of tokens in the batch.
template <class Epilogue = epilogue::None>
struct Linear {
  Epilogue epilogue{};
  /// Fast numerics only: activations as the sum of two INT8 terms, the second for what the first left over, which
  /// makes their error about 250 times smaller for twice the products. The weights are still read once.
  bool refined = false;

  template <class B>
  using Signature = void(MatrixView<const float, typename B::Space> x, const PackedMatrix<B>& w,
                         MatrixView<float, typename B::Space> y);

  /// The oracle works on dense weights w[rows(out), cols(in)].
  static void reference(const Linear& op, MatrixView<const float> x, MatrixView<const float> w,
                        MatrixView<float> y) {
    for (Index t = 0; t < x.rows(); ++t) {
      for (Index o = 0; o < w.rows(); ++o) {
        double sum = 0;
        for (Index k = 0; k < w.cols(); ++k) sum += double(x(t, k)) * w(o, k);
        if constexpr (std::is_same_v<Epilogue, nibble::epilogue::Bias>) sum += op.epilogue.bias[o];
        if constexpr (std::is_same_v<Epilogue, nibble::epilogue::Add>) sum += y(t, o);
        y(t, o) = float(sum);
      }
    }
  }
};

template <class E>
Linear(E, bool = false) -> Linear<E>;
Linear() -> Linear<epilogue::None>;

}  // namespace nibble
