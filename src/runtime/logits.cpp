// SPDX-License-Identifier: MIT
#include "nibble/runtime/logits.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "nibble/core/contract.hpp"

namespace nibble {

namespace {

[[noreturn]] void fail_not_finite(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
      throw Error(Errc::not_finite, "non-finite logits: " + std::string(std::isnan(logits[i]) ? "NaN" : "+Inf") +
                                        " at token " + std::to_string(i));
  }
  throw Error(Errc::not_finite, "non-finite logits: all " + std::to_string(logits.size()) + " are -Inf");
}

}  // namespace

Token argmax(std::span<const float> logits) {
  NIBBLE_EXPECTS(!logits.empty(), "a row of logits is empty");
  std::size_t best = 0;
  bool nan = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    nan |= logits[i] != logits[i];
    if (logits[i] > logits[best]) best = i;
  }
  if (nan || !std::isfinite(logits[best])) fail_not_finite(logits);
  return static_cast<Token>(best);
}

double log_sum_exp(std::span<const float> logits) {
  const double top = logits[static_cast<std::size_t>(argmax(logits))];
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return top + std::log(sum);
}

void log_softmax(std::span<const float> logits, std::span<double> out) {
  NIBBLE_EXPECTS(out.size() == logits.size(), "log_softmax of " + std::to_string(logits.size()) + " logits into " +
                                                  std::to_string(out.size()) + " values");
  const double total = log_sum_exp(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) out[i] = static_cast<double>(logits[i]) - total;
}

}  // namespace nibble
