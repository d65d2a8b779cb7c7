// SPDX-License-Identifier: MIT
#include "nibble/text/token_stream.hpp"

#include <algorithm>
#include <utility>

#include "nibble/core/contract.hpp"
#include "nibble/text/unicode.hpp"

namespace nibble {

TokenStream::TokenStream(const Tokenizer& tokenizer, TokenStreamOptions options)
    : tokenizer_(tokenizer), options_(std::move(options)) {
  for (const std::string& s : options_.stop_strings) NIBBLE_EXPECTS(!s.empty(), "a stop string is empty");
}

std::string TokenStream::take(std::size_t bytes) {
  std::string text = held_.substr(0, bytes);
  held_.erase(0, bytes);
  return text;
}

/// Bytes at the end of held_ that begin a stop string; no whole one is in it.
std::size_t TokenStream::stop_prefix() const noexcept {
  std::size_t longest = 0;
  for (const std::string& s : options_.stop_strings)
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > longest; --n)
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) longest = n;
  return longest;
}

std::string TokenStream::push(Token token) {
  const TokenType type = tokenizer_.token_type(token);
  if (stopped_) return {};
  if (!options_.skip_special || (type != TokenType::control && type != TokenType::unknown))
    held_ += tokenizer_.token_bytes(token);
  std::size_t stop = std::string::npos;
  for (const std::string& s : options_.stop_strings) stop = std::min(stop, held_.find(s));
  if (stop != std::string::npos) {
    stopped_ = true;
    std::string text = take(stop);
    held_.clear();
    return text;
  }
  return take(held_.size() - std::max(stop_prefix(), unicode::incomplete_suffix(held_)));
}

std::string TokenStream::finish() {
  const std::size_t half = unicode::incomplete_suffix(held_);
  std::string text = take(held_.size() - half);
  if (half > 0) unicode::append_utf8(text, U'\uFFFD');
  held_.clear();
  return text;
}

}  // namespace nibble
