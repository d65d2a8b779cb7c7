// SPDX-License-Identifier: MIT
// How far one distribution over the vocabulary is from another, and means with their standard errors.
// Everything in double, from logits: KL(p || q) = sum_i p_i (log p_i - log q_i), natural logarithm.
#pragma once

#include <cmath>
#include <span>

#include "nibble/core/export.hpp"
#include "nibble/core/view.hpp"
#include "nibble/runtime/logits.hpp"

namespace nibble {

/// KL(p || q) in nats of two rows of logits of the same length; never negative, exactly 0 for equal rows,
/// unchanged when a constant is added to a row. A token masked (-Inf) in p contributes 0; one masked only
/// in q makes the result +Inf. Throws Error{not_finite} for NaN, +Inf or a row masked throughout.
NIBBLE_API double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);

/// log p(token) under a row of logits. Throws Error{invalid_argument} for a token outside the row.
NIBBLE_API double log_probability(std::span<const float> logits, Token token);

/// Mean of a stream of numbers and its standard error, s / sqrt(n) with s^2 = sum (x - mean)^2 / (n - 1).
/// Welford's update: no cancellation however many numbers.
class RunningMean {
 public:
  void add(double x) noexcept {
    ++count_;
    const double before = x - mean_;
    mean_ += before / static_cast<double>(count_);
    squares_ += before * (x - mean_);
  }
  Index count() const noexcept { return count_; }
  /// 0 when nothing was added.
  double mean() const noexcept { return mean_; }
  /// 0 for fewer than two numbers.
  double standard_error() const noexcept {
    if (count_ < 2) return 0;
    const double n = static_cast<double>(count_);
    return std::sqrt(squares_ / (n - 1) / n);
  }

 private:
  Index count_ = 0;
  double mean_ = 0, squares_ = 0;
};

}  // namespace nibble
