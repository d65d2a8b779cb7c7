// SPDX-License-Identifier: MIT
// Quantizer: weights [rows, cols] and calibration in, a portable QuantizedTensor out. A user's own needs no
// registration and no base class: it is any type with a name and this one member function.
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

#include "nibble/format/quantized_tensor.hpp"
#include "nibble/quant/calibration.hpp"

namespace nibble::quant {

template <class Q>
concept Quantizer = requires(const Q& q, MatrixView<const float> weights, const Calibration& calibration) {
  { Q::name } -> std::convertible_to<std::string_view>;
  { q.quantize(weights, calibration) } -> std::same_as<QuantizedTensor>;
};

/// Fails to compile with a sentence when Q is no Quantizer; generic code calls it first.
template <class Q>
constexpr void require_quantizer() noexcept {
  static_assert(
      requires { { Q::name } -> std::convertible_to<std::string_view>; },
      "a quantizer needs `static constexpr std::string_view name`");
  static_assert(
      requires(const Q& q, MatrixView<const float> w, const Calibration& c) {
        { q.quantize(w, c) } -> std::same_as<QuantizedTensor>;
      },
      "a quantizer needs `QuantizedTensor quantize(MatrixView<const float> weights, const Calibration&) "
      "const`");
}

/// Throws Error{not_finite} with the coordinates of the first NaN or infinity. `first_row` is the row number
/// of weights row 0 in messages, for callers who look at a part of a matrix.
inline void require_finite(MatrixView<const float> weights, Index first_row = 0) {
  for (Index r = 0; r < weights.rows(); ++r)
    for (Index c = 0; c < weights.cols(); ++c)
      if (const float v = weights(r, c); !std::isfinite(v))
        throw Error(Errc::not_finite, "weight [" + std::to_string(first_row + r) + ", " + std::to_string(c) +
                                          "] is " +
                                          (std::isnan(v) ? "NaN"
                                           : v > 0       ? "infinite"
                                                         : "minus infinite") +
                                          "; only finite weights can be quantized");
}

/// Runs any quantizer after checking its inputs: finite weights, calibration of the right width.
template <class Q>
QuantizedTensor quantize(const Q& quantizer, MatrixView<const float> weights,
                         const Calibration& calibration = {}) {
  require_quantizer<Q>();
  calibration.require_fits(weights.cols());
  require_finite(weights);
  return quantizer.quantize(weights, calibration);
}

}  // namespace nibble::quant
