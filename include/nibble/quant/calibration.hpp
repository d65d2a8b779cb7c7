// SPDX-License-Identifier: MIT
// What is known about a layer's inputs when its weights are quantized. For y = W x over T samples the loss
// of a change dW is tr(dW H dW^T) with H = X^T X / T; its diagonal, the mean square of each input channel, is
// the importance that every scale search takes. Quantizers that need more (GPTQ) ask for H itself.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "nibble/core/view.hpp"

namespace nibble::quant {

/// A view of calibration results for one weight matrix [rows, cols]; every part is optional. The storage
/// must outlive it.
struct Calibration {
  std::span<const float> importance{};     ///< [cols] mean x_j^2, or empty: all channels alike
  MatrixView<const float> hessian{};       ///< [cols, cols] mean x x^T, or empty
  Index tokens = 0;                        ///< samples behind the numbers

  bool has_importance() const noexcept { return !importance.empty(); }
  bool has_hessian() const noexcept { return !hessian.empty(); }

  /// Throws Error{invalid_argument} when shapes do not fit `cols` columns or an importance is negative,
  /// Error{not_finite} naming the channel when it is no number.
  void require_fits(Index cols) const {
    NIBBLE_EXPECTS(importance.empty() || static_cast<Index>(importance.size()) == cols,
                   "calibration has " + std::to_string(importance.size()) + " channels, the weights " +
                       std::to_string(cols));
    NIBBLE_EXPECTS(hessian.empty() || (hessian.rows() == cols && hessian.cols() == cols),
                   "the Hessian is " + to_string(hessian.extents()) + ", the weights have " +
                       std::to_string(cols) + " columns");
    for (std::size_t j = 0; j < importance.size(); ++j) {
      if (!std::isfinite(importance[j]))
        throw Error(Errc::not_finite, "the importance of channel " + std::to_string(j) + " is not finite");
      NIBBLE_EXPECTS(importance[j] >= 0, "the importance of channel " + std::to_string(j) + " is negative");
    }
  }
};

/// Accumulates the mean square of each channel over activations [tokens, cols]; sums are double, so the
/// result does not depend on how the samples are cut into batches beyond double rounding.
class ChannelStatistics {
 public:
  explicit ChannelStatistics(Index cols) : sums_(static_cast<std::size_t>(cols)) {}

  /// Throws Error{invalid_argument} on a wrong width, Error{not_finite} with the coordinates.
  void add(MatrixView<const float> x) {
    NIBBLE_EXPECTS(x.cols() == static_cast<Index>(sums_.size()),
                   "activations have " + std::to_string(x.cols()) + " channels, expected " +
                       std::to_string(sums_.size()));
    for (Index t = 0; t < x.rows(); ++t)
      for (Index c = 0; c < x.cols(); ++c) {
        const auto v = static_cast<double>(x(t, c));
        if (!std::isfinite(v))
          throw Error(Errc::not_finite,
                      "activation [" + std::to_string(t) + ", " + std::to_string(c) + "] is not finite");
        sums_[static_cast<std::size_t>(c)] += v * v;
      }
    tokens_ += x.rows();
  }

  Index tokens() const noexcept { return tokens_; }
  /// [cols]; zeros when nothing was added.
  std::vector<float> mean_square() const {
    std::vector<float> m(sums_.size());
    for (std::size_t i = 0; i < m.size(); ++i)
      m[i] = tokens_ > 0 ? static_cast<float>(sums_[i] / static_cast<double>(tokens_)) : 0.0f;
    return m;
  }

 private:
  std::vector<double> sums_;
  Index tokens_ = 0;
};

}  // namespace nibble::quant
