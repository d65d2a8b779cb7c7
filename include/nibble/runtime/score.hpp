// SPDX-License-Identifier: MIT
// Scoring of given tokens: how likely a model finds a text, token by token.
#pragma once

#include <span>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/model/model.hpp"

namespace nibble {

/// log p(tokens[i + 1] | tokens[0..i]) for every i, natural logarithm: one entry less than tokens.
/// One forward pass over all tokens; logits are made and dropped a few rows at a time. Numerics are the
/// context's; exact ones keep keys and values in FP32, too. Throws Error{invalid_argument} for a token
/// outside the vocabulary, Error{not_finite}, Error{cancelled} by the context's stop token.
NIBBLE_API std::vector<float> score(const Model& model, Model::Context& context, std::span<const Token> tokens);

/// Rows of logits worth making at once: enough to share the reading of the head's weights, few enough that
/// they take some 32 MiB whatever the vocabulary.
NIBBLE_API Index logit_rows_at_once(Index vocabulary) noexcept;

}  // namespace nibble
