// SPDX-License-Identifier: MIT
#include "nibble/runtime/generator.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "nibble/core/contract.hpp"
#include "nibble/text/token_stream.hpp"

namespace nibble {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Lends the context another stop token.
class StopScope {
 public:
  StopScope(Model::Context& context, std::stop_token stop) : context_(context), before_(context.stop()) {
    if (stop.stop_possible()) context_.set_stop(std::move(stop));
  }
  ~StopScope() { context_.set_stop(before_); }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  Model::Context& context_;
  std::stop_token before_;
};

}  // namespace

std::string_view to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::end: return "end";
    case FinishReason::length: return "length";
    case FinishReason::stop_string: return "stop_string";
    case FinishReason::cancelled: return "cancelled";
    case FinishReason::context_full: return "context_full";
  }
  return "unknown";
}

void GeneratorOptions::validate(Index vocabulary) const {
  sampler.validate(vocabulary);
  NIBBLE_EXPECTS(max_tokens >= -1,
                 "max_tokens is " + std::to_string(max_tokens) + "; it must be -1 (no limit) or more");
  NIBBLE_EXPECTS(prefill_tokens >= 1, "prefill_tokens is " + std::to_string(prefill_tokens) + "; it must be positive");
  for (const std::string& s : stop_strings) NIBBLE_EXPECTS(!s.empty(), "a stop string is empty");
}

Generator::Generator(const Model& model, Model::Context& context, GeneratorOptions options)
    : model_(&model), context_(&context), options_((options.validate(model.vocabulary()), std::move(options))),
      state_(model.new_sequence(options_.sequence)), sampler_(options_.sampler) {}

/// Strong guarantee: a prompt that is refused leaves no trace.
void Generator::append(std::span<const Token> prompt) {
  for (const Token t : prompt)
    NIBBLE_EXPECTS(t >= 0 && t < model_->vocabulary(), "token " + std::to_string(t) + " is outside the vocabulary of " +
                                                           std::to_string(model_->vocabulary()));
  const Token* bos = nullptr;
  const std::optional<Token> start = model_->tokenizer().bos();
  if (tokens_.empty() && prompt.empty()) {
    NIBBLE_EXPECTS(start.has_value(), "the prompt is empty, and the model has no token to start a text with");
    bos = &*start;
  }
  const auto added = static_cast<Index>(prompt.size()), have = static_cast<Index>(tokens_.size());
  NIBBLE_EXPECTS(added <= state_.max_tokens() - have,
                 "a prompt of " + std::to_string(added) + " tokens does not fit: the sequence holds " +
                     std::to_string(have) + " of at most " + std::to_string(state_.max_tokens()));
  if (bos != nullptr) prompt = {bos, 1};
  tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
  sampler_.accept(prompt);
}

/// False when it was cancelled.
bool Generator::forward(std::span<const Token> tokens, LogitsOf wanted, Logits& logits) {
  try {
    const BatchItem item{.sequence = &state_, .tokens = tokens, .logits = wanted};
    logits = model_->forward(*context_, {&item, 1});
    return true;
  } catch (const Error& e) {
    if (e.code() == Errc::cancelled) return false;
    throw;
  }
}

/// Evaluates every waiting token, at least the last one; false when it was cancelled.
bool Generator::prefill(Logits& logits, GenerateResult& result) {
  const auto all = static_cast<Index>(tokens_.size());
  if (state_.tokens() == all) state_.truncate(all - 1);
  while (state_.tokens() < all) {
    if (context_->stop().stop_requested()) return false;
    const Index first = state_.tokens(), count = std::min(options_.prefill_tokens, all - first);
    const auto piece = std::span<const Token>(tokens_).subspan(static_cast<std::size_t>(first),
                                                               static_cast<std::size_t>(count));
    if (!forward(piece, first + count == all ? LogitsOf::last : LogitsOf::none, logits)) return false;
    result.prompt_tokens += count;
  }
  return true;
}

FinishReason Generator::decode(Logits& logits, const TextCallback& callback, GenerateResult& result) {
  const Tokenizer& tokenizer = model_->tokenizer();
  TokenStream stream(tokenizer, {.decode = {.skip_special = true, .keep_prefix = true}, .stop = options_.stop_strings});
  Token token = 0;
  const auto emit = [&](const std::string& text) {
    result.text += text;
    return !callback || callback(text, token);
  };
  const auto finish = [&](FinishReason reason) {
    const std::string rest = stream.flush();
    return rest.empty() || emit(rest) ? reason : FinishReason::cancelled;
  };
  for (Index drawn = 0; drawn != options_.max_tokens; ++drawn) {
    if (drawn > 0) {
      if (context_->stop().stop_requested()) return finish(FinishReason::cancelled);
      if (state_.tokens() == state_.max_tokens()) return finish(FinishReason::context_full);
      if (!forward({&token, 1}, LogitsOf::last, logits)) return finish(FinishReason::cancelled);
    }
    token = sampler_(logits.row(0));
    sampler_.accept(token);
    tokens_.push_back(token);
    if (options_.stop_at_end && tokenizer.is_end(token)) return finish(FinishReason::end);
    result.tokens.push_back(token);
    if (!emit(stream.push(token))) return FinishReason::cancelled;
    if (stream.stopped()) return FinishReason::stop_string;
  }
  return finish(FinishReason::length);
}

GenerateResult Generator::generate(std::span<const Token> prompt, const TextCallback& callback, std::stop_token stop) {
  append(prompt);
  const StopScope scope(*context_, std::move(stop));
  GenerateResult result;
  Logits logits;
  const auto start = Clock::now();
  const bool ready = prefill(logits, result);
  result.prefill_seconds = seconds_since(start);
  const auto decode_start = Clock::now();
  result.finish = ready ? decode(logits, callback, result) : FinishReason::cancelled;
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

Index Generator::rewind(std::span<const Token> conversation) {
  const std::size_t limit = std::min(tokens_.size(), conversation.empty() ? 0 : conversation.size() - 1);
  std::size_t common = 0;
  while (common < limit && tokens_[common] == conversation[common]) ++common;
  if (common == tokens_.size()) return static_cast<Index>(common);
  tokens_.resize(common);
  state_.truncate(std::min(state_.tokens(), static_cast<Index>(common)));
  sampler_.clear_history();
  sampler_.accept(tokens_);
  return static_cast<Index>(common);
}

}  // namespace nibble
