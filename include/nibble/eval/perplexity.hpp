// SPDX-License-Identifier: MIT
// Perplexity of a text, and the divergence of a model from a reference on it, by the convention of
// llama.cpp's tool, so that figures compare: the text is tokenized once; chunks of `ctx` tokens are evaluated
// each on its own; the first token of a chunk is replaced by BOS where the tokenizer adds one; the tokens
// behind positions ctx/2 .. ctx-2 are scored (255 of 512); an incomplete chunk at the end is left out.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/log.hpp"
#include "nibble/eval/divergence.hpp"
#include "nibble/eval/layer_error.hpp"
#include "nibble/model/model.hpp"

namespace nibble {

/// A tokenized text, and what starts each chunk of it.
struct EvalText {
  std::vector<Token> tokens;
  std::optional<Token> first;  ///< replaces each chunk's first token
};

/// Tokenizes with the model's special tokens; text that spells a special token stays text.
NIBBLE_API EvalText eval_text(const Tokenizer& tokenizer, std::string_view text);

struct EvalOptions {
  Index ctx = 512;                               ///< tokens per chunk, at least 4
  Index chunks = 0;                              ///< 0 = as many as the text fills
  Numerics numerics = Numerics::exact;           ///< of the model
  Numerics reference_numerics = Numerics::exact; ///< of the reference
  DType kv_dtype = DType::f32;                   ///< of the model's keys and values
  DType reference_kv_dtype = DType::f32;         ///< of the reference's
  Progress progress{};                           ///< (chunks done, chunks, "chunks")
  std::stop_token stop{};                        ///< Error{cancelled}
};

struct PerplexityResult {
  double perplexity = 0;         ///< exp(mean negative log likelihood)
  double perplexity_stderr = 0;  ///< perplexity * standard error of that mean (delta method)
  Index tokens = 0;              ///< scored tokens
  Index chunks = 0;
};

struct ComparisonResult {
  PerplexityResult model, reference;
  double mean_kl = 0;         ///< of KL(reference || model) over scored tokens, in nats
  double mean_kl_stderr = 0;
  double top1_agreement = 0;  ///< share of scored tokens whose likeliest token is the same
  std::vector<LayerError> layers;  ///< from the embedding (-1) on; empty when the models differ in shape
};

/// Needs memory for one chunk's hidden states and a few rows of logits. Throws Error{invalid_argument} for a
/// text shorter than one chunk (with the number of tokens it needs) and for bad options, Error{not_finite}
/// naming chunk and position, Error{cancelled}.
NIBBLE_API PerplexityResult perplexity(const Model& model, Model::Context& context, const EvalText& text,
                                       const EvalOptions& options = {});

/// The same for two models in step, so that neither's logits are ever kept; layer errors are taken on all
/// tokens of every chunk. The vocabularies must be of one size.
NIBBLE_API ComparisonResult compare(const Model& model, const Model& reference, Model::Context& context,
                                    const EvalText& text, const EvalOptions& options = {});

}  // namespace nibble
