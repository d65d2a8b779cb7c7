// SPDX-License-Identifier: MIT
// Nothing here sorts a whole vocabulary: greedy is one pass, top-k keeps a small heap, and top-p and min-p
// sort only the tokens that can be in the result.
#include "nibble/runtime/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "nibble/core/contract.hpp"
#include "nibble/core/random.hpp"
#include "nibble/runtime/logits.hpp"

namespace nibble {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

void expect(bool valid, const char* name, double value, const char* range) {
  NIBBLE_EXPECTS(valid, std::string(name) + " is " + std::to_string(value) + "; it must be " + range);
}

/// Likelier first, equal logits by id: the order of every filter.
constexpr auto likelier = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
};

}  // namespace

void SamplerOptions::validate(Index vocabulary) const {
  const double t = temperature;
  expect(std::isfinite(t) && t >= 0, "temperature", t, "a finite number >= 0");
  expect(top_p > 0 && top_p <= 1, "top_p", top_p, "in (0, 1]");
  expect(min_p >= 0 && min_p <= 1, "min_p", min_p, "in [0, 1]");
  expect(std::isfinite(repetition_penalty) && repetition_penalty > 0, "repetition_penalty", repetition_penalty,
         "a finite number > 0");
  expect(std::isfinite(frequency_penalty), "frequency_penalty", frequency_penalty, "a finite number");
  expect(std::isfinite(presence_penalty), "presence_penalty", presence_penalty, "a finite number");
  expect(penalty_window >= -1, "penalty_window", static_cast<double>(penalty_window), "-1 (all) or more");
  for (const auto& [token, bias] : logit_bias) {
    const std::string which = "logit_bias of token " + std::to_string(token);
    NIBBLE_EXPECTS(token >= 0 && (vocabulary <= 0 || token < vocabulary),
                   which + " is outside the vocabulary" +
                       (vocabulary > 0 ? " of " + std::to_string(vocabulary) : std::string()));
    NIBBLE_EXPECTS(std::isfinite(bias) || bias == minus_infinity,
                   which + " must be a finite number, or -Inf to forbid the token");
  }
}

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) { options_.validate(); }

bool Sampler::penalizes() const noexcept {
  return options_.penalty_window != 0 && (options_.repetition_penalty != 1.0 ||
                                          options_.frequency_penalty != 0.0 || options_.presence_penalty != 0.0);
}

void Sampler::accept(Token token) {
  if (!penalizes()) return;
  ++counts_[token];
  if (options_.penalty_window < 0) return;  // nothing ever leaves: the counts are enough
  if (static_cast<Index>(history_.size()) < options_.penalty_window) {
    history_.push_back(token);
    return;
  }
  const auto gone = counts_.find(history_[oldest_]);
  if (--gone->second == 0) counts_.erase(gone);
  history_[oldest_] = token;
  oldest_ = (oldest_ + 1) % history_.size();
}

void Sampler::clear_history() noexcept {
  history_.clear();
  counts_.clear();
  oldest_ = 0;
}

void Sampler::adjust(std::span<float> logits) const {
  const auto repetition = static_cast<float>(options_.repetition_penalty);
  for (const auto& [token, count] : counts_) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& x = logits[static_cast<std::size_t>(token)];
    x = x > 0 ? x / repetition : x * repetition;
    x -= static_cast<float>(static_cast<double>(count) * options_.frequency_penalty + options_.presence_penalty);
  }
  for (const auto& [token, bias] : options_.logit_bias) {
    NIBBLE_EXPECTS(static_cast<std::size_t>(token) < logits.size(),
                   "logit_bias of token " + std::to_string(token) + " is outside the vocabulary of " +
                       std::to_string(logits.size()));
    logits[static_cast<std::size_t>(token)] += bias;
  }
}

Token Sampler::operator()(std::span<const float> logits) {
  if (!counts_.empty() || !options_.logit_bias.empty()) {
    argmax(logits);  // the model's own row must be sound before a bias of -Inf may hide that
    adjusted_.assign(logits.begin(), logits.end());
    adjust(adjusted_);
    logits = adjusted_;
  }
  const Token best = argmax(logits);
  const double u = Random(options_.seed, draws_).uniform();
  ++draws_;
  if (options_.temperature == 0) return best;

  const float largest = logits[static_cast<std::size_t>(best)];
  const bool top_k = options_.top_k > 0 && options_.top_k < static_cast<Index>(logits.size());
  if (!top_k && options_.top_p >= 1 && options_.min_p <= 0) return draw_from_all(logits, largest, u);
  const double total = top_k ? collect_top_k(logits, largest) : collect_likely(logits, largest);
  return draw_filtered(total, u);
}

double Sampler::weight(float logit, float largest) const noexcept {
  return std::exp((static_cast<double>(logit) - static_cast<double>(largest)) / options_.temperature);
}

Token Sampler::draw_from_all(std::span<const float> logits, float largest, double u) const {
  double total = 0;
  for (const float x : logits) total += weight(x, largest);
  const double target = u * total;
  double sum = 0;
  Token last = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double w = weight(logits[i], largest);
    if (w == 0) continue;
    last = static_cast<Token>(i);
    sum += w;
    if (sum > target) return last;
  }
  return last;  // rounding left the target at the very end
}

/// The k likeliest, best first; returns their mass.
double Sampler::collect_top_k(std::span<const float> logits, float largest) {
  const auto k = static_cast<std::size_t>(options_.top_k);
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const Candidate c{0, logits[i], static_cast<Token>(i)};
    if (candidates_.size() < k) {
      candidates_.push_back(c);
      if (candidates_.size() == k) std::make_heap(candidates_.begin(), candidates_.end(), likelier);
    } else if (likelier(c, candidates_.front())) {  // the heap's front is the least likely kept
      std::pop_heap(candidates_.begin(), candidates_.end(), likelier);
      candidates_.back() = c;
      std::push_heap(candidates_.begin(), candidates_.end(), likelier);
    }
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), likelier);
  double total = 0;
  for (Candidate& c : candidates_) total += c.weight = weight(c.logit, largest);
  return total;
}

/// Enough of the likeliest for top-p and min-p to decide, best first; returns the mass of the whole row.
double Sampler::collect_likely(std::span<const float> logits, float largest) {
  double total = 0;
  for (const float x : logits) total += weight(x, largest);
  double mass = 0;
  for (double cutoff = std::max(options_.min_p, 1e-3);; cutoff = std::max(options_.min_p, cutoff * cutoff)) {
    candidates_.clear();
    mass = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double w = weight(logits[i], largest);
      if (w < cutoff || w == 0) continue;
      candidates_.push_back({w, logits[i], static_cast<Token>(i)});
      mass += w;
    }
    const bool complete = cutoff <= options_.min_p || cutoff == 0;
    if (complete || (options_.top_p < 1 && mass >= options_.top_p * total)) break;
  }
  std::sort(candidates_.begin(), candidates_.end(), likelier);
  return total;
}

Token Sampler::draw_filtered(double total, double u) {
  std::size_t kept = candidates_.size();
  if (options_.top_p < 1) {
    double mass = 0;
    for (kept = 0; kept < candidates_.size() && mass < options_.top_p * total; ++kept)
      mass += candidates_[kept].weight;
  }
  while (kept > 1 && (candidates_[kept - 1].weight < options_.min_p || candidates_[kept - 1].weight == 0)) --kept;

  double mass = 0;
  for (std::size_t i = 0; i < kept; ++i) mass += candidates_[i].weight;
  const double target = u * mass;
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += candidates_[i].weight;
    if (sum > target) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;
}

}  // namespace nibble
