// SPDX-License-Identifier: MIT
// Generator: one sequence and its sampler, from prompt tokens to streamed text.
//
//   Generator generator(model, context, {.sampler = {.temperature = 0}, .max_tokens = 64});
//   generator.generate(model.tokenizer().encode("Once upon"), [](std::string_view text, Token) {
//     std::cout << text;
//     return true;
//   });
//
// The sequence stays: the next call continues it, and only new tokens are evaluated.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/model/model.hpp"
#include "nibble/runtime/sampler.hpp"

namespace nibble {

struct GeneratorOptions {
  SamplerOptions sampler{};
  Index max_tokens = -1;                  ///< new tokens per call; 0 = only evaluate the prompt, -1 = no limit
  std::vector<std::string> stop_strings{};  ///< generation ends before the first of them; none may be empty
  bool stop_at_end = true;                ///< end at the tokens for which Tokenizer::is_end holds
  Index prefill_tokens = 512;             ///< prompt tokens evaluated at once: bounds scratch memory
  SequenceOptions sequence{};

  /// Throws Error{invalid_argument} naming the option out of its range.
  NIBBLE_API void validate(Index vocabulary = 0) const;
};

enum class FinishReason {
  end,           ///< the model ended its text
  length,        ///< max_tokens reached
  stop_string,   ///< one of the stop strings was made; it is not part of the text
  cancelled,     ///< by the stop token, or the callback returned false
  context_full   ///< the sequence holds no more tokens
};

/// "end", "length", "stop_string", "cancelled" or "context_full".
NIBBLE_API std::string_view to_string(FinishReason reason) noexcept;

struct GenerateResult {
  std::vector<Token> tokens;   ///< drawn tokens, without the one that ended the text
  std::string text;            ///< exactly what the callback was given, put together
  FinishReason finish = FinishReason::length;
  Index prompt_tokens = 0;     ///< evaluated in this call before the first draw
  double prefill_seconds = 0;
  double decode_seconds = 0;   ///< everything after the prompt
};

/// Receives text as soon as it is certain (never half a character, never the beginning of a stop string)
/// together with the token that completed it; `text` may be empty. Returning false ends the call.
using TextCallback = std::function<bool(std::string_view text, Token token)>;

/// Not thread-safe; model and context must outlive it. The context's stop token is replaced during a call.
class NIBBLE_API Generator {
 public:
  /// Throws as GeneratorOptions::validate does.
  Generator(const Model& model, Model::Context& context, GeneratorOptions options = {});

  /// Appends `prompt` to the sequence and generates. With an empty prompt it goes on where it was; in an empty
  /// sequence it then starts with BOS, where the model has one. Throws Error{invalid_argument} for tokens
  /// outside the vocabulary, a prompt that does not fit or nothing to start from, Error{not_finite}; the
  /// sequence then still holds what was evaluated. Cancellation is a result, not an error.
  GenerateResult generate(std::span<const Token> prompt, const TextCallback& callback = {},
                          std::stop_token stop = {});

  /// The tokens of the sequence, the last drawn one included.
  std::span<const Token> tokens() const noexcept { return tokens_; }
  /// Keeps the longest common beginning of the sequence and `conversation`, at least one token less than the
  /// latter, so that generate(conversation.subspan(n)) continues it. Returns the number of tokens kept, n.
  Index rewind(std::span<const Token> conversation);

  SequenceState& state() noexcept { return state_; }
  Sampler& sampler() noexcept { return sampler_; }
  const GeneratorOptions& options() const noexcept { return options_; }

 private:
  void append(std::span<const Token> prompt);
  bool forward(std::span<const Token> tokens, LogitsOf wanted, Logits& logits);
  bool prefill(Logits& logits, GenerateResult& result);
  FinishReason decode(Logits& logits, const TextCallback& callback, GenerateResult& result);

  const Model* model_;
  Model::Context* context_;
  GeneratorOptions options_;
  SequenceState state_;
  Sampler sampler_;
  std::vector<Token> tokens_;  // state_ holds a beginning of them; the rest waits to be evaluated
};

}  // namespace nibble
