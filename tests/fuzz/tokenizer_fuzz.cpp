// SPDX-License-Identifier: MIT
// Two things from any bytes, picked by the first one: a text for a fixed tokenizer, which must come back from
// its tokens and through a stream; or a vocabulary, which must be refused or then encode and decode anything.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/text/token_stream.hpp"
#include "nibble/text/tokenizer.hpp"
#include "nibble/text/unicode.hpp"

namespace {

using namespace nibble;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Vocab {
  std::vector<std::string> texts, merges;
  TokenizerData data;

  void add(std::string text, TokenType type, float score = 0) {
    texts.push_back(std::move(text));
    data.types.push_back(static_cast<std::int32_t>(type));
    if (data.model == "llama") data.scores.push_back(score);
  }
  const TokenizerData& get() {
    data.tokens.assign(texts.begin(), texts.end());
    data.merges.assign(merges.begin(), merges.end());
    return data;
  }
};

Tokenizer byte_level(const char* pre) {
  Vocab v;
  v.data.model = "gpt2";
  v.data.pre = pre;
  std::array<std::string, 256> alphabet;  // GPT-2's letters for the bytes
  char32_t next = 256;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    unicode::append_utf8(alphabet[b], itself ? static_cast<char32_t>(b) : next++);
    v.add(alphabet[b], TokenType::normal);
  }
  for (const char* word : {" the", "and", "  ", "    ", "\n\n", "aaaa", "'s", "12", "\xC3\xA9",
                           "\xE4\xB8\xAD", "\xF0\x9F\xA6\x99"}) {
    std::string left = alphabet[static_cast<std::uint8_t>(word[0])];
    for (const char* c = word + 1; *c != '\0'; ++c) {
      const std::string& right = alphabet[static_cast<std::uint8_t>(*c)];
      v.merges.push_back(left + " " + right);
      left += right;
      v.add(left, TokenType::normal);
    }
  }
  v.add("<|end|>", TokenType::control);
  v.add("<tool>", TokenType::user_defined);
  return Tokenizer(v.get());
}

Tokenizer pieces(bool prefix) {
  Vocab v;
  v.data.model = "llama";
  v.data.add_space_prefix = prefix;
  v.data.legacy_space_prefix = false;
  v.data.unk = 0;
  v.data.bos = 1;
  v.add("<unk>", TokenType::unknown);
  v.add("<s>", TokenType::control);
  for (int b = 0; b < 256; ++b) {
    const char* hex = "0123456789ABCDEF";
    v.add(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">", TokenType::byte);
  }
  float score = 0;
  for (const char* t :
       {"\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81", "t", "h", "e", "th", "the", "\xE2\x96\x81the", "a", "aa",
        "aaaa", "\xE4\xB8\xAD", "<", "s", ">", "<s", "\n", "e\xE2\x96\x81t"})
    v.add(t, TokenType::normal, score -= 1);
  v.add("he", TokenType::unused, score - 1);
  v.add("\n\n", TokenType::user_defined, score);
  return Tokenizer(v.get());
}

void round_trip(const Tokenizer& t, std::string_view text, bool parse_special) {
  const auto ids = t.encode(text, {.add_special = false, .parse_special = parse_special});
  for (const Token id : ids) require(id >= 0 && static_cast<std::size_t>(id) < t.vocab_size());
  std::string expected(text);  // U+2581 in a text is SentencePiece's space
  if (t.find("<s>"))
    for (std::size_t at; (at = expected.find("\xE2\x96\x81")) != expected.npos;) expected.replace(at, 3, " ");
  // A text that begins with a special token has no dummy prefix, so the space behind it must be kept.
  const bool keep = !ids.empty() && t.token_type(ids.front()) != TokenType::normal &&
                    t.token_type(ids.front()) != TokenType::byte;
  const DecodeOptions options{.skip_special = false, .keep_prefix = keep};
  require(t.decode(ids, options) == expected);

  TokenStream stream(t, {.decode = options, .stop = {"the end", "\n\n\n"}});
  std::string streamed;
  for (const Token id : ids) streamed += stream.push(id);
  streamed += stream.flush();
  require(stream.stopped() ? expected.compare(0, streamed.size(), streamed) == 0 : streamed == expected);
}

void any_vocabulary(std::string_view input) {
  Vocab v;
  v.data.model = input.size() % 2 == 0 ? "gpt2" : "llama";
  v.data.pre = "llama-bpe";
  std::size_t line = 0;
  while (!input.empty() && line < 1000) {
    const std::string_view text = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), text.size() + 1));
    if (text.empty()) break;
    const auto type = static_cast<TokenType>(static_cast<std::uint8_t>(text[0]) % 8);
    if (text.find(' ') != text.npos && v.data.model == "gpt2") v.merges.emplace_back(text);
    else v.add(std::string(text.substr(1)), type, static_cast<float>(line % 7));
    ++line;
  }
  v.data.unk = static_cast<Token>(line % 5);
  const auto t = Tokenizer::try_make(v.get());
  if (!t) return;
  (void)t->decode(t->encode(input, {.add_special = true, .parse_special = true}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::array<Tokenizer, 6> tokenizers = {
      byte_level("gpt-2"),     byte_level("smollm"), byte_level("llama-bpe"),
      byte_level("stablelm2"), pieces(true),         pieces(false)};
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::size_t pick = bytes[0] % 13;
  if (pick < 12) round_trip(tokenizers[pick / 2], input, pick % 2 == 1);
  else any_vocabulary(input);
  (void)unicode::to_nfc(unicode::to_nfc(input));
  return 0;
}
