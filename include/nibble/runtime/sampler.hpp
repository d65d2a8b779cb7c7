// SPDX-License-Identifier: MIT
// Sampler: one row of logits to one token. The steps, in this order, each skipped at its neutral value:
//   repetition penalty (CTRL, https://arxiv.org/abs/1909.05858: x > 0 ? x / r : x * r, once per seen token)
//   frequency and presence penalty: x -= count * frequency + presence
//   logit bias: x += bias
//   temperature: x /= T
//   top-k: the k largest
//   top-p: the fewest largest whose probability reaches p (nucleus, https://arxiv.org/abs/1904.09751)
//   min-p: those with at least min_p times the probability of the best (https://arxiv.org/abs/2407.01082)
//   one draw from what is left
// Equal logits are ordered by id, lowest first, wherever an order matters.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/view.hpp"
#include "nibble/text/token.hpp"

namespace nibble {

struct SamplerOptions {
  double temperature = 1.0;         ///< >= 0; 0 = greedy: the largest logit after penalties and bias
  Index top_k = 0;                  ///< <= 0 = off
  double top_p = 1.0;               ///< (0, 1]; 1 = off
  double min_p = 0.0;               ///< [0, 1]; 0 = off
  double repetition_penalty = 1.0;  ///< > 0; 1 = off
  double frequency_penalty = 0.0;   ///< any finite number; 0 = off
  double presence_penalty = 0.0;    ///< any finite number; 0 = off
  Index penalty_window = -1;        ///< how many of the last accepted tokens the penalties see; -1 = all
  std::unordered_map<Token, float> logit_bias{};  ///< added to a token's logit; -Inf forbids the token
  std::uint64_t seed = 0;           ///< every value is a stream of its own

  /// Throws Error{invalid_argument} naming the first option out of its range. With a vocabulary (> 0),
  /// tokens of the bias must lie inside it.
  NIBBLE_API void validate(Index vocabulary = 0) const;
};

/// Deterministic: draw n depends on the seed, n, the logits and the accepted tokens, and on nothing else: not
/// on other sequences, threads or platforms. Copyable: a copy continues alike. Not thread-safe.
class NIBBLE_API Sampler {
 public:
  /// Throws as SamplerOptions::validate does.
  explicit Sampler(SamplerOptions options = {});

  const SamplerOptions& options() const noexcept { return options_; }

  /// Draws a token from logits[vocabulary]; does not accept it. A single -Inf is a masked token.
  /// Throws Error{not_finite} for NaN, +Inf or when every token is masked, Error{invalid_argument} for an
  /// empty row or a bias outside the vocabulary; the draw then does not count.
  Token operator()(std::span<const float> logits);

  /// Tells the penalties about a token of the sequence, be it from the prompt or drawn.
  void accept(Token token);
  void accept(std::span<const Token> tokens) { for (const Token t : tokens) accept(t); }
  /// Forgets accepted tokens; the count of draws goes on.
  void clear_history() noexcept;

 private:
  struct Candidate {
    double weight;  // exp((logit - largest) / temperature)
    float logit;
    Token token;
  };

  bool penalizes() const noexcept;
  void adjust(std::span<float> logits) const;
  double weight(float logit, float largest) const noexcept;
  Token draw_from_all(std::span<const float> logits, float largest, double u) const;
  double collect_top_k(std::span<const float> logits, float largest);
  double collect_likely(std::span<const float> logits, float largest);
  Token draw_filtered(double total, double u);

  SamplerOptions options_;
  std::uint64_t draws_ = 0;
  std::vector<Token> history_;                 // as much of it as the window needs
  std::size_t oldest_ = 0;                     // ring position in history_ once the window is full
  std::unordered_map<Token, Index> counts_;    // of the tokens in history_
  std::vector<float> adjusted_;                // scratch: logits after penalties and bias
  std::vector<Candidate> candidates_;          // scratch
};

}  // namespace nibble
