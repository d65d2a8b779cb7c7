// SPDX-License-Identifier: MIT
// What may be given out: everything but the longest suffix that begins a stop string, cut back to the end
// of a character.
#include "nibble/text/token_stream.hpp"

#include <algorithm>
#include <utility>

#include "nibble/core/contract.hpp"
#include "nibble/text/unicode.hpp"

namespace nibble {

StopStrings::StopStrings(std::vector<std::string> strings) {
  for (std::string& text : strings) {
    NIBBLE_EXPECTS(!text.empty(), "a stop string is empty");
    std::vector<std::size_t> border(text.size(), 0);
    for (std::size_t i = 1, k = 0; i < text.size(); ++i) {
      while (k > 0 && text[i] != text[k]) k = border[k - 1];
      if (text[i] == text[k]) ++k;
      border[i] = k;
    }
    automata_.push_back({std::move(text), std::move(border), 0});
  }
}

std::size_t StopStrings::push(char byte) noexcept {
  std::size_t found = 0;
  pending_ = 0;
  for (Automaton& a : automata_) {
    if (a.matched == a.text.size()) a.matched = a.border.back();
    while (a.matched > 0 && a.text[a.matched] != byte) a.matched = a.border[a.matched - 1];
    if (a.text[a.matched] == byte) ++a.matched;
    if (a.matched == a.text.size()) found = std::max(found, a.matched);
    pending_ = std::max(pending_, a.matched);
  }
  return found;
}

void StopStrings::reset() noexcept {
  for (Automaton& a : automata_) a.matched = 0;
  pending_ = 0;
}

TokenStream::TokenStream(Tokenizer tokenizer, TokenStreamOptions options)
    : tokenizer_(std::move(tokenizer)), decode_(options.decode), stop_(std::move(options.stop)) {}

std::string TokenStream::push(Token token) {
  const TokenType type = tokenizer_.token_type(token);
  const bool special = type == TokenType::control || type == TokenType::unknown;
  if (stopped_ || (special && decode_.skip_special)) return {};
  std::string bytes = tokenizer_.token_bytes(token);
  if (!special && !bytes.empty()) {
    const bool strip = at_start_ && !decode_.keep_prefix && tokenizer_.add_space_prefix();
    if (strip && type == TokenType::normal && bytes.front() == ' ') bytes.erase(0, 1);
    at_start_ = false;
  }
  return push_bytes(bytes);
}

std::string TokenStream::push_bytes(std::string_view bytes) {
  if (stopped_) return {};
  for (const char byte : bytes) {
    held_ += byte;
    if (const std::size_t length = stop_.push(byte); length > 0) {
      stopped_ = true;
      held_.resize(held_.size() - length);
      return std::exchange(held_, {});
    }
  }
  const std::size_t free = held_.size() - stop_.pending();
  const std::size_t final = free - unicode::incomplete_suffix(std::string_view(held_).substr(0, free));
  std::string out = held_.substr(0, final);
  held_.erase(0, final);
  return out;
}

std::string TokenStream::flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

void TokenStream::reset() noexcept {
  stop_.reset();
  held_.clear();
  at_start_ = true;
  stopped_ = false;
}

}  // namespace nibble
