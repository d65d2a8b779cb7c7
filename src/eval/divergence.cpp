// SPDX-License-Identifier: MIT
#include "nibble/eval/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "nibble/core/contract.hpp"

namespace nibble {

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  NIBBLE_EXPECTS(p_logits.size() == q_logits.size(), "KL divergence between rows of " +
                                                         std::to_string(p_logits.size()) + " and " +
                                                         std::to_string(q_logits.size()) + " logits");
  const double p_total = log_sum_exp(p_logits), q_total = log_sum_exp(q_logits);
  double sum = 0;
  for (std::size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = static_cast<double>(p_logits[i]) - p_total;
    const double log_q = static_cast<double>(q_logits[i]) - q_total;
    const double p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - log_q);
  }
  return std::max(sum, 0.0);  // below zero only by rounding
}

double log_probability(std::span<const float> logits, Token token) {
  NIBBLE_EXPECTS(
      token >= 0 && static_cast<std::size_t>(token) < logits.size(),
      "token " + std::to_string(token) + " is outside a row of " + std::to_string(logits.size()) + " logits");
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - log_sum_exp(logits);
}

}  // namespace nibble
