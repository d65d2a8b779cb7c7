// SPDX-License-Identifier: MIT
// What a stream gives out, put together, is the text, for every way to cut it into tokens.
#include <random>
#include <string>
#include <vector>

#include "nibble/text/token_stream.hpp"
#include "nibble/text/unicode.hpp"
#include "support/catch.hpp"
#include "support/gguf_vocab.hpp"

namespace {

using namespace nibble;
using namespace std::string_literals;

const Tokenizer& tokenizer() {
  static const Tokenizer t(test::GgufVocab(NIBBLE_GOLDEN_DIR "/tokenizer_spm.gguf").data());
  return t;
}

TokenStream stream(std::vector<std::string> stop = {}) {
  return TokenStream(tokenizer(),
                     {.decode = {.skip_special = true, .keep_prefix = false}, .stop = std::move(stop)});
}

// The definition: the text before the stop string that ends first, and of those that end there the longest.
std::string cut(const std::string& text, const std::vector<std::string>& stop) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& s : stop)
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0)
        longest = std::max(longest, s.size());
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST_CASE("a stop string spread over pieces gives nothing away", "[token_stream]") {
  TokenStream s = stream({"DEFGHIJ"});
  for (const char* piece : {"DEF", "G", "HI", "J"}) CHECK(s.push_bytes(piece) == "");
  CHECK(s.stopped());
  CHECK(s.flush() == "");
  CHECK(s.push_bytes("more") == "");

  s.reset();
  CHECK_FALSE(s.stopped());
  CHECK(s.push_bytes("DEF") == "");
  CHECK(s.push_bytes("G") == "");
  CHECK(s.push_bytes("X") == "DEFGX");
  CHECK(s.flush() == "");
}

TEST_CASE("a character spread over tokens comes out whole", "[token_stream]") {
  TokenStream s = stream();
  CHECK(s.push_bytes("\xF0") == "");
  CHECK(s.push_bytes("\x9F\xA6") == "");
  CHECK(s.push_bytes("\x99") == "\xF0\x9F\xA6\x99");
  CHECK(s.push_bytes("ok") == "ok");
  CHECK(s.push_bytes("\xE2\x96") == "");
  CHECK(s.flush() == "\xE2\x96");                   // cut short: still not lost
  CHECK(s.push_bytes("\xE2(\xFF") == "\xE2(\xFF");  // can never become a character
}

TEST_CASE("any split of any text streams to the text before its first stop string", "[token_stream]") {
  std::mt19937 random(7);
  const std::vector<std::vector<std::string>> stops = {{},
                                                       {"ab"},
                                                       {"aab", "aaaab"},
                                                       {"abc", "b"},
                                                       {"\xC3\xA9\xC3\xA9"},
                                                       {"ab\xF0\x9F\xA6\x99", "\n\n"},
                                                       {"\xA9"},
                                                       {"aba", "bab"}};
  const std::vector<std::string> parts = {"a",    "b",  "c",       "\xC3\xA9", "\n", "\xF0\x9F\xA6\x99",
                                          "\xFF", "ab", "\xE2\x96"};
  std::size_t wrong = 0, broken = 0, runs = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += parts[random() % parts.size()];
    const auto& stop = stops[random() % stops.size()];
    TokenStream s = stream(stop);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 4, text.size() - at);
      const std::string piece = s.push_bytes(std::string_view(text).substr(at, n));
      out += piece;
      broken += unicode::is_valid_utf8(text) && unicode::incomplete_suffix(piece) != 0 && !s.stopped();
      at += n;
    }
    out += s.flush();
    wrong += out != cut(text, stop);
    ++runs;
  }
  CHECK(runs == 4000);
  CHECK(wrong == 0);
  CHECK(broken == 0);
}

TEST_CASE("a stream of tokens equals decoding them at once", "[token_stream]") {
  const std::string text = "The tokens of \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\xA6\x99\n\tin  a stream \xFF.";
  const auto ids = tokenizer().encode(text);
  REQUIRE(tokenizer().token_type(ids.front()) == TokenType::control);  // bos
  for (const bool skip : {true, false})
    for (const bool keep : {true, false}) {
      const DecodeOptions options{.skip_special = skip, .keep_prefix = keep};
      TokenStream s(tokenizer(), {.decode = options, .stop = {}});
      std::string out;
      for (const Token id : ids) out += s.push(id);
      CHECK(out + s.flush() == tokenizer().decode(ids, options));
    }
  TokenStream s = stream();
  CHECK_THROWS_AS(s.push(-1), Error);
  CHECK_THROWS_AS(s.push(static_cast<Token>(tokenizer().vocab_size())), Error);
}

TEST_CASE("stop strings are checked and cost nothing in their number of repeats", "[token_stream]") {
  CHECK_THROWS_AS(stream({"a", ""}), Error);
  // A self-similar stop string on a self-similar text is the worst case of a naive search.
  StopStrings stop({std::string(20'000, 'a') + "b"});
  std::size_t found = 0;
  for (int i = 0; i < 1'000'000; ++i) found += stop.push('a');
  CHECK(found == 0);
  CHECK(stop.pending() == 20'000);
  CHECK(stop.push('b') == 20'001);
}

}  // namespace
