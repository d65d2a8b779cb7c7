// SPDX-License-Identifier: MIT
// Arithmetic on one row of logits, in double: the few functions that sampling, scoring and evaluation
// share. An entry of -Inf is a masked token (probability 0); NaN, +Inf and a row that is masked throughout
// are errors, never token 0.
#pragma once

#include <span>

#include "nibble/core/export.hpp"
#include "nibble/text/token.hpp"

namespace nibble {

/// The largest logit's token; of equals the lowest id. Throws Error{not_finite} as described above,
/// Error{invalid_argument} for an empty row.
NIBBLE_API Token argmax(std::span<const float> logits);

/// log(sum_i exp(logits[i])), natural logarithm, without overflow. Throws as argmax does.
NIBBLE_API double log_sum_exp(std::span<const float> logits);

/// out[i] = log p(i) = logits[i] - log_sum_exp(logits); `out` is as long as `logits`.
NIBBLE_API void log_softmax(std::span<const float> logits, std::span<double> out);

}  // namespace nibble
