// SPDX-License-Identifier: MIT
// Where quantization hurts: the error of hidden states after each layer, and of each weight tensor.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/eval/divergence.hpp"
#include "nibble/io/weight_source.hpp"

namespace nibble {

/// Collects, over tokens, |candidate - reference| / |reference| and the cosine of the two hidden states. Both
/// are taken per token, so that the one huge first token many models have cannot hide the others.
class NIBBLE_API HiddenErrorMeter {
 public:
  /// Rows [tokens, hidden] of both models. A token whose reference is all zero counts only where the candidate
  /// differs (error 1, cosine 0).
  void add(MatrixView<const float> reference, MatrixView<const float> candidate);
  /// Root of the mean squared relative error.
  double relative_rms() const noexcept { return std::sqrt(squares_.mean()); }
  double mean_cosine() const noexcept { return cosines_.mean(); }

 private:
  RunningMean squares_, cosines_;
};

struct LayerError {
  Index layer = 0;          ///< -1 = after the embedding
  double relative_rms = 0;
  double cosine = 1;
};

struct TensorError {
  std::string name;
  std::string reference_type, type;  ///< "F16", "Q4_0"
  double relative_rms = 0;           ///< |W' - W| / |W| (Frobenius), of decoded weights
};

/// |W' - W| / |W| of two tensors of the same shape, decoded row by row; 0 when both are all zero. Throws
/// Error{invalid_argument} for different shapes, Error{unsupported} for a type without a decoder.
NIBBLE_API double relative_weight_error(const StoredTensor& reference, const StoredTensor& candidate);

/// Every tensor of `candidate` that `reference` also has with the same shape, in the candidate's order.
NIBBLE_API std::vector<TensorError> weight_errors(const WeightSource& reference, const WeightSource& candidate);

}  // namespace nibble
