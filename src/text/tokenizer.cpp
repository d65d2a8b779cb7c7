// SPDX-License-Identifier: MIT
// The public face of the tokenizer, and decoding: what bytes each kind of token stands for.
#include "nibble/text/tokenizer.hpp"

#include <algorithm>

#include "nibble/core/contract.hpp"
#include "nibble/text/unicode.hpp"
#include "vocabulary.hpp"

namespace nibble {
namespace {

using Tables = Tokenizer::Tables;

void check_token(const Tables& t, Token token) {
  NIBBLE_EXPECTS(
      token >= 0 && static_cast<std::size_t>(token) < t.size(),
      "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(t.size()));
}

// Appends an entry in GPT-2's byte alphabet as the bytes it spells. An entry with any other character was
// added as text and is taken literally.
void append_byte_level(std::string_view entry, std::string& out) {
  const auto& to_byte = text::detail::byte_alphabet().to_byte;
  const std::size_t size = out.size();
  for (std::size_t i = 0; i < entry.size();) {
    const unicode::Decoded d = unicode::decode_utf8(entry, i);
    if (!d.valid || d.code_point >= to_byte.size() || to_byte[d.code_point] < 0) {
      out.resize(size);
      out += entry;
      return;
    }
    out.push_back(static_cast<char>(to_byte[d.code_point]));
    i += d.size;
  }
}

void append_bytes(const Tables& t, Token token, std::string& out) {
  const std::string_view entry = t.text(token);
  const bool pieces = t.kind == Tables::Kind::sentence_piece;
  switch (t.type(token)) {
    case TokenType::normal:
      if (pieces) text::detail::append_unescaped(entry, out);
      else append_byte_level(entry, out);
      return;
    case TokenType::user_defined:
      if (pieces) text::detail::append_unescaped(entry, out);
      else out += entry;
      return;
    case TokenType::byte:
      if (!pieces) return append_byte_level(entry, out);
      return out.push_back(static_cast<char>(text::detail::byte_value(entry)));
    case TokenType::control:
    case TokenType::unknown: out += entry; return;
    case TokenType::unused: return;
  }
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerData& data) : tables_(text::detail::make_tables(data)) {}

Result<Tokenizer> Tokenizer::try_make(const TokenizerData& data) {
  return try_invoke([&] { return Tokenizer(data); });
}

std::vector<Token> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<Token> out;
  out.reserve(text.size() / 3 + 4);
  text::detail::encode(*tables_, text, options, out);
  return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens, DecodeOptions options) const {
  std::string out;
  out.reserve(tokens.size() * 4);
  bool at_start = tables_->space_prefix && !options.keep_prefix;
  for (const Token token : tokens) {
    check_token(*tables_, token);
    const TokenType type = tables_->type(token);
    const bool special = type == TokenType::control || type == TokenType::unknown;
    if (special && options.skip_special) continue;
    const std::size_t size = out.size();
    append_bytes(*tables_, token, out);
    if (special || out.size() == size) continue;
    if (at_start && type == TokenType::normal && out[size] == ' ') out.erase(size, 1);
    at_start = false;
  }
  return out;
}

std::string Tokenizer::token_bytes(Token token) const {
  check_token(*tables_, token);
  std::string out;
  append_bytes(*tables_, token, out);
  return out;
}

std::string_view Tokenizer::token_text(Token token) const {
  check_token(*tables_, token);
  return tables_->text(token);
}

TokenType Tokenizer::token_type(Token token) const {
  check_token(*tables_, token);
  return tables_->type(token);
}

std::optional<Token> Tokenizer::find(std::string_view token_text) const {
  const Token id = tables_->find(token_text);
  return id == text::detail::no_token ? std::nullopt : std::optional<Token>(id);
}

std::size_t Tokenizer::vocab_size() const noexcept { return tables_->size(); }
std::optional<Token> Tokenizer::bos() const noexcept { return tables_->bos; }
std::optional<Token> Tokenizer::eos() const noexcept { return tables_->eos; }
std::optional<Token> Tokenizer::eot() const noexcept { return tables_->eot; }
std::optional<Token> Tokenizer::unk() const noexcept { return tables_->unk; }
std::optional<Token> Tokenizer::pad() const noexcept { return tables_->pad; }
bool Tokenizer::add_bos() const noexcept { return tables_->add_bos; }
bool Tokenizer::add_eos() const noexcept { return tables_->add_eos; }
bool Tokenizer::add_space_prefix() const noexcept { return tables_->space_prefix; }

bool Tokenizer::is_end(Token token) const noexcept {
  return std::binary_search(tables_->ends.begin(), tables_->ends.end(), token);
}
std::span<const Token> Tokenizer::end_tokens() const noexcept { return tables_->ends; }

}  // namespace nibble
