// SPDX-License-Identifier: MIT
// From TokenizerData to the tables of a Tokenizer. The data comes from a file, so every number and name
// in it is checked here; what comes after relies on that.
#include "vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "nibble/core/checked.hpp"
#include "nibble/core/error.hpp"
#include "nibble/text/unicode.hpp"

namespace nibble::text::detail {
namespace {

using Tables = Tokenizer::Tables;

// Longer literal tokens would make the search for them cost more than the merging.
constexpr std::size_t max_special_bytes = 512;

[[noreturn]] void malformed(const std::string& what) { throw Error(Errc::malformed, "tokenizer: " + what); }

// An entry as it may stand in an error message: bounded and printable.
std::string quoted(std::string_view text) {
  return "'" + unicode::to_valid_utf8(text.substr(0, 40)) + (text.size() > 40 ? "..." : "") + "'";
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void read_kind(const TokenizerData& data, Tables& t) {
  if (data.model == "gpt2") {
    t.kind = Tables::Kind::byte_level;
    const auto pre = find_pre_tokenizer(data.pre);
    if (!pre) throw Error(Errc::unsupported, "tokenizer: unknown pre-tokenizer " + quoted(data.pre));
    t.pre = *pre;
  } else if (data.model == "llama") {
    t.kind = Tables::Kind::sentence_piece;
  } else {
    throw Error(Errc::unsupported, "tokenizer: unknown model " + quoted(data.model));
  }
}

void check_lengths(const TokenizerData& data) {
  const std::size_t n = data.tokens.size();
  if (n == 0) malformed("the vocabulary is empty");
  if (n > static_cast<std::size_t>(std::numeric_limits<Token>::max())) malformed("more than 2^31 tokens");
  const auto check = [n](std::size_t have, const char* what) {
    if (have != n && have != 0)
      malformed(std::to_string(n) + " tokens, but " + std::to_string(have) + " " + what);
  };
  check(data.scores.size(), "scores");
  check(data.types.size(), "token types");
  for (std::size_t i = 0; i < data.scores.size(); ++i)
    if (std::isnan(data.scores[i])) malformed("the score of token " + std::to_string(i) + " is NaN");
}

void copy_entries(const TokenizerData& data, Tables& t) {
  const std::size_t n = data.tokens.size();
  std::size_t total = 0;
  for (const std::string_view token : data.tokens)
    total = checked::add(total, token.size(), "vocabulary size");
  (void)checked::cast<std::uint32_t>(total, "vocabulary size");
  t.bytes.reserve(total);
  t.offsets.reserve(n + 1);
  t.offsets.push_back(0);
  for (const std::string_view token : data.tokens) {
    t.bytes += token;
    t.offsets.push_back(static_cast<std::uint32_t>(t.bytes.size()));
  }
  t.types.resize(n, static_cast<std::uint8_t>(TokenType::normal));
  for (std::size_t i = 0; i < data.types.size(); ++i) {
    const std::int32_t type = data.types[i];
    if (type < 0 || type > 6)
      malformed("token " + std::to_string(i) + " has unknown type " + std::to_string(type));
    if (type != 0) t.types[i] = static_cast<std::uint8_t>(type);
  }
}

void index_entries(Tables& t) {
  // The address is a seed that a prepared file cannot know, so it cannot aim for collisions.
  const auto seed = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t.bytes.data()));
  t.index.reserve(t.size(), seed);
  const auto texts = [&t](Token id) { return t.text(id); };
  for (std::size_t i = 0; i < t.size(); ++i) {
    const auto id = static_cast<Token>(i);
    if (!t.text(id).empty()) t.index.insert(t.text(id), id, texts);
  }
}

void index_literals(Tables& t) {
  for (std::size_t i = 0; i < t.size(); ++i) {
    const auto id = static_cast<Token>(i);
    const TokenType type = t.type(id);
    const bool literal = type == TokenType::user_defined;
    if (!literal && type != TokenType::control && type != TokenType::unknown) continue;
    std::string text(t.text(id));
    if (text.size() > max_special_bytes)
      throw Error(Errc::unsupported, "tokenizer: special token " + quoted(text) + " is longer than " +
                                         std::to_string(max_special_bytes) + " bytes");
    if (literal && t.kind == Tables::Kind::sentence_piece) {
      text.clear();
      append_unescaped(t.text(id), text);
    }
    if (text.empty()) continue;
    if (literal) t.literal.insert(text, id);
    t.special.insert(text, id);
  }
}

void read_byte_level(const TokenizerData& data, Tables& t) {
  const ByteAlphabet& alphabet = byte_alphabet();
  for (std::size_t b = 0; b < 256; ++b) {
    std::string text;
    unicode::append_utf8(text, alphabet.to_char[b]);
    t.byte_tokens[b] = t.find(text);
  }
  if (data.merges.empty()) malformed("a byte-level vocabulary without merges");
  if (data.merges.size() > std::numeric_limits<std::uint32_t>::max()) malformed("more than 2^32 merges");
  t.merges.reserve(data.merges.size(),
                   static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t.bytes.data())));
  std::string joined;
  Token guess = 0;  // vocabularies list most merges in order, so the next one is probably behind the last
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const auto fail = [&](const char* why) {
      malformed("merge " + std::to_string(rank) + " " + quoted(merge) + " " + why);
    };
    const std::size_t space = merge.empty() ? merge.npos : merge.find(' ', 1);
    if (space == merge.npos || space + 1 == merge.size()) fail("is not two parts with a space between");
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const Token l = t.find(left), r = t.find(right);
    const bool in_order = static_cast<std::size_t>(guess) < t.size() && t.text(guess) == joined;
    const Token both = in_order ? guess : t.find(joined);
    guess = both + 1;
    if (l == no_token || r == no_token) fail("has a part that is not in the vocabulary");
    if (both == no_token) fail("makes a token that is not in the vocabulary");
    t.merges.insert(l, r, {static_cast<std::uint32_t>(rank), both});
  }
}

// Scores in an order of unsigned numbers, the best first: the bits of a float sort like the float.
std::uint32_t rank_of(float score) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 counts as 0
  return (bits >> 31) != 0 ? bits : ~(bits | 0x80000000u);
}

void read_sentence_piece(const TokenizerData& data, Tables& t) {
  if (data.scores.empty()) malformed("a SentencePiece vocabulary without scores");
  t.ranks.resize(t.size());
  t.byte_tokens.fill(no_token);
  for (std::size_t i = 0; i < t.size(); ++i) {
    const auto id = static_cast<Token>(i);
    const std::string_view text = t.text(id);
    t.ranks[i] = rank_of(data.scores[i]);
    const int byte = byte_value(text);
    if (data.types.empty() && byte >= 0) t.types[i] = static_cast<std::uint8_t>(TokenType::byte);
    if (t.type(id) == TokenType::byte) {
      if (byte < 0) malformed("byte token " + std::to_string(i) + " is " + quoted(text) + ", not <0xHH>");
      t.byte_tokens[static_cast<std::size_t>(byte)] = id;
    } else if (t.type(id) != TokenType::control) {
      std::size_t first = 0;  // behind the leading meta spaces
      while (text.substr(first, meta_space.size()) == meta_space) first += meta_space.size();
      while ((first = text.find(meta_space, first)) != text.npos) {
        t.joins_space[static_cast<std::uint8_t>(text[first - 1])] = true;
        first += meta_space.size();
      }
    }
  }
}

void read_special_ids(const TokenizerData& data, Tables& t) {
  const auto check = [&t](std::optional<Token> id, const char* name) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= t.size()))
      malformed(std::string(name) + " token id " + std::to_string(*id) + " is outside the vocabulary of " +
                std::to_string(t.size()));
    return id;
  };
  t.bos = check(data.bos, "bos");
  t.eos = check(data.eos, "eos");
  t.eot = check(data.eot, "eot");
  t.unk = check(data.unk, "unknown");
  t.pad = check(data.pad, "padding");
  if (t.eos) t.ends.push_back(*t.eos);
  if (t.eot) t.ends.push_back(*t.eot);
  for (const Token id : data.more_end_tokens) t.ends.push_back(*check(id, "end"));
  constexpr const char* deepseek = "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>";
  // The ends of turn that chat models are trained to emit, which files often do not declare.
  for (const std::string_view name :
       {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "<|eot_id|>", "<|eom_id|>",
        "<|end|>", "<EOT>", "<|return|>", "<|call|>", "<end_of_utterance>", "<|end_of_turn|>", deepseek}) {
    const Token id = t.find(name);
    if (id != no_token && (t.type(id) == TokenType::control || t.type(id) == TokenType::user_defined))
      t.ends.push_back(id);
  }
  std::sort(t.ends.begin(), t.ends.end());
  t.ends.erase(std::unique(t.ends.begin(), t.ends.end()), t.ends.end());
}

void read_flags(const TokenizerData& data, Tables& t) {
  const bool pieces = t.kind == Tables::Kind::sentence_piece;
  const bool llama3 = !pieces && (data.pre == "llama-bpe" || data.pre == "llama3" || data.pre == "llama-v3" ||
                                  data.pre == "falcon3");
  if (data.add_bos.value_or(false) && !t.bos) malformed("add_bos is set, but there is no bos token");
  if (data.add_eos.value_or(false) && !t.eos) malformed("add_eos is set, but there is no eos token");
  t.add_bos = data.add_bos.value_or((pieces || llama3) && t.bos.has_value());
  t.add_eos = data.add_eos.value_or(false);
  t.space_prefix = pieces && data.add_space_prefix.value_or(true);
  t.legacy_prefix = data.legacy_space_prefix.value_or(true);
  t.ignore_merges = data.ignore_merges.value_or(llama3);
  t.nfc = data.normalize_nfc.value_or(!pieces && (data.pre == "qwen2" || data.pre == "deepseek-r1-qwen"));
}

}  // namespace

int byte_value(std::string_view text) noexcept {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void append_unescaped(std::string_view entry, std::string& out) {
  for (std::size_t i = 0; i < entry.size();) {
    const bool space = entry.substr(i, meta_space.size()) == meta_space;
    out.push_back(space ? ' ' : entry[i]);
    i += space ? meta_space.size() : 1;
  }
}

const ByteAlphabet& byte_alphabet() noexcept {
  static constexpr ByteAlphabet alphabet = [] {
    ByteAlphabet a{};
    for (auto& b : a.to_byte) b = -1;
    char16_t next = 256;
    for (std::size_t b = 0; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      a.to_char[b] = itself ? static_cast<char16_t>(b) : next++;
      a.to_byte[a.to_char[b]] = static_cast<std::int16_t>(b);
    }
    return a;
  }();
  return alphabet;
}

void Trie::insert(std::string_view text, Token id) {
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const std::uint32_t first = i == 0 ? root_[byte] : nodes_[node - 1].child;
    std::uint32_t next = i == 0 ? first : step(first, byte);
    if (next == 0) {
      nodes_.push_back({0, i == 0 ? 0 : first, no_token, byte});
      next = static_cast<std::uint32_t>(nodes_.size());
      (i == 0 ? root_[byte] : nodes_[node - 1].child) = next;
    }
    node = next;
  }
  if (node != 0) nodes_[node - 1].token = id;
}

Trie::Match Trie::find(std::string_view text, std::size_t pos) const noexcept {
  for (; pos < text.size(); ++pos) {
    Match match{pos, 0, no_token};
    std::uint32_t node = root_[static_cast<std::uint8_t>(text[pos])];
    for (std::size_t i = pos; node != 0;) {
      const Node& n = nodes_[node - 1];
      ++i;
      if (n.token != no_token) match = {pos, i - pos, n.token};
      node = i < text.size() ? step(n.child, static_cast<std::uint8_t>(text[i])) : 0;
    }
    if (match.size > 0) return match;
  }
  return {text.size(), 0, no_token};
}

std::shared_ptr<const Tables> make_tables(const TokenizerData& data) {
  auto t = std::make_shared<Tables>();
  read_kind(data, *t);
  check_lengths(data);
  copy_entries(data, *t);
  index_entries(*t);
  if (t->kind == Tables::Kind::byte_level) read_byte_level(data, *t);
  else read_sentence_piece(data, *t);
  index_literals(*t);
  read_special_ids(data, *t);
  read_flags(data, *t);
  return t;
}

}  // namespace nibble::text::detail
