// SPDX-License-Identifier: MIT
// Tokenizer: hostile data, the published failures of others, special tokens in user text, losslessness,
// time on hostile text, threads. Token ids are judged in tokenizer_golden_test.cpp.
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nibble/text/pre_tokenizer.hpp"
#include "nibble/text/tokenizer.hpp"
#include "support/catch.hpp"
#include "support/gguf_vocab.hpp"

namespace {

using namespace nibble;
using namespace std::string_literals;
using Strings = std::vector<std::string>;

// A vocabulary whose strings live beside it.
struct Vocab {
  Strings texts, merge_texts;
  TokenizerData data;

  Token add(std::string text, TokenType type = TokenType::normal, float score = 0) {
    texts.push_back(std::move(text));
    data.types.push_back(static_cast<std::int32_t>(type));
    if (data.model == "llama") data.scores.push_back(score);
    return static_cast<Token>(texts.size() - 1);
  }
  const TokenizerData& get() {
    data.tokens.assign(texts.begin(), texts.end());
    data.merges.assign(merge_texts.begin(), merge_texts.end());
    return data;
  }
};

Vocab byte_level() {
  Vocab v;
  v.data.model = "gpt2";
  v.data.pre = "gpt-2";
  for (const char* t : {"a", "b", "c", "\xC4\xA0", "ab",
                        "\xC4\xA0"
                        "ab",
                        "abc"})
    v.add(t);
  v.merge_texts = {"a b", "\xC4\xA0 ab", "ab c"};
  return v;
}

Vocab pieces() {
  Vocab v;
  v.data.model = "llama";
  v.data.unk = v.add("<unk>", TokenType::unknown);
  v.data.bos = v.add("<s>", TokenType::control);
  v.data.eos = v.add("</s>", TokenType::control);
  for (int b = 0; b < 256; ++b) {
    const char* hex = "0123456789ABCDEF";
    v.add("<0x"s + hex[b / 16] + hex[b % 16] + ">", TokenType::byte);
  }
  v.add("\xE2\x96\x81", TokenType::normal, -9);
  v.add("G", TokenType::normal, -8);
  v.add("\xE2\x96\x81G", TokenType::normal, -1);
  for (const char* t : {"<", "s", ">", "/", "<s", "</", "</s"}) v.add(t, TokenType::normal, -2);
  return v;
}

Token id_of(const Tokenizer& t, std::string_view text) { return t.find(text).value(); }

void check_error(const TokenizerData& data, Errc code, const std::string& part) {
  const auto r = Tokenizer::try_make(data);
  INFO(part);
  REQUIRE_FALSE(r.has_value());
  CHECK(r.error().code() == code);
  INFO(r.error().what());
  CHECK(std::string(r.error().what()).find(part) != std::string::npos);
}

TEST_CASE("contradictory vocabularies are errors that name what is wrong", "[tokenizer]") {
  REQUIRE(Tokenizer::try_make(byte_level().get()).has_value());
  REQUIRE(Tokenizer::try_make(pieces().get()).has_value());
  struct Fault {
    Vocab base;
    std::function<void(Vocab&)> spoil;
    Errc code;
    std::string part;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Fault faults[] = {
      {byte_level(), [](Vocab& v) { v.data.model = "magic"; }, Errc::unsupported, "'magic'"},
      {byte_level(), [](Vocab& v) { v.data.model = ""; }, Errc::unsupported, "model"},
      {byte_level(), [](Vocab& v) { v.data.pre = "magic"; }, Errc::unsupported, "'magic'"},
      {byte_level(), [](Vocab& v) { v.data.pre = ""; }, Errc::unsupported, "pre-tokenizer"},
      {byte_level(),
       [](Vocab& v) {
         v.texts.clear();
         v.data.types.clear();
       },
       Errc::malformed, "empty"},
      {byte_level(), [](Vocab& v) { v.data.types.pop_back(); }, Errc::malformed, "6 token types"},
      {byte_level(), [](Vocab& v) { v.data.types[2] = 7; }, Errc::malformed, "token 2"},
      {byte_level(), [](Vocab& v) { v.data.types[2] = -1; }, Errc::malformed, "token 2"},
      {byte_level(),
       [](Vocab& v) {
         v.data.scores = {1, 2};
       },
       Errc::malformed, "2 scores"},
      {byte_level(), [](Vocab& v) { v.merge_texts.clear(); }, Errc::malformed, "merges"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = "a x"; }, Errc::malformed, "merge 1 'a x'"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = "b a"; }, Errc::malformed, "merge 1"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = "ab"; }, Errc::malformed, "merge 1"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = "a "; }, Errc::malformed, "merge 1"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = " a"; }, Errc::malformed, "merge 1"},
      {byte_level(), [](Vocab& v) { v.merge_texts[1] = ""; }, Errc::malformed, "merge 1"},
      {byte_level(), [](Vocab& v) { v.data.bos = 7; }, Errc::malformed, "bos token id 7"},
      {byte_level(), [](Vocab& v) { v.data.eos = -1; }, Errc::malformed, "eos token id -1"},
      {byte_level(), [](Vocab& v) { v.data.pad = 1 << 30; }, Errc::malformed, "padding"},
      {byte_level(), [](Vocab& v) { v.data.eot = 7; }, Errc::malformed, "eot"},
      {byte_level(), [](Vocab& v) { v.data.unk = 7; }, Errc::malformed, "unknown"},
      {byte_level(),
       [](Vocab& v) {
         v.data.more_end_tokens = {1, 7};
       },
       Errc::malformed, "end"},
      {byte_level(), [](Vocab& v) { v.data.add_bos = true; }, Errc::malformed, "bos"},
      {byte_level(), [](Vocab& v) { v.data.add_eos = true; }, Errc::malformed, "eos"},
      {byte_level(), [](Vocab& v) { v.add(std::string(5000, '<'), TokenType::control); }, Errc::unsupported,
       "longer"},
      {pieces(), [](Vocab& v) { v.data.scores.clear(); }, Errc::malformed, "scores"},
      {pieces(), [](Vocab& v) { v.data.scores.pop_back(); }, Errc::malformed, "scores"},
      {pieces(), [nan](Vocab& v) { v.data.scores[5] = nan; }, Errc::malformed, "token 5 is NaN"},
  };
  for (Fault f : faults) {
    f.spoil(f.base);
    check_error(f.base.get(), f.code, f.part);
  }
}

TEST_CASE("a byte token is two hex digits and nothing else", "[tokenizer]") {
  for (const char* bad : {"<0x-1>", "<0xZZ>", "<0x+1>", "<0x 1>", "<0x1>", "<0x001>", "<0X0A>", "<0x0A",
                          "0x0A", "<0x0G>", ""}) {
    Vocab v = pieces();
    v.texts[258] = bad;  // in place of <0xFF>
    check_error(v.get(), Errc::malformed, "byte token 258");
  }
  Vocab v = pieces();
  v.texts[258] = "<0xff>";
  CHECK(Tokenizer(v.get()).token_bytes(258) == "\xFF");
}

TEST_CASE("of equal entries the last one stands", "[tokenizer]") {
  Vocab v = byte_level();
  const Token second = v.add("c");
  const Tokenizer t(v.get());
  CHECK(t.find("c") == second);
  CHECK(t.encode("c") == std::vector<Token>{second});
  CHECK(t.token_bytes(2) == "c");
}

TEST_CASE("merging takes the best pair first and the leftmost of equals", "[tokenizer]") {
  const Tokenizer t(byte_level().get());
  CHECK(t.encode("abc ab") == std::vector<Token>{6, 5});
  CHECK(t.encode("aab") == std::vector<Token>{0, 4});
  CHECK(t.encode("") == std::vector<Token>{});
}

TEST_CASE("the dummy prefix stands at the start, and behind special tokens where the model says so",
          "[tokenizer]") {
  Vocab v = pieces();
  {
    const Tokenizer t(v.get());
    CHECK(t.add_bos());
    CHECK(t.encode("G") == std::vector<Token>{1, id_of(t, "\xE2\x96\x81G")});
    CHECK(t.encode("<s>G", {.add_special = false, .parse_special = true}) ==
          std::vector<Token>{1, id_of(t, "\xE2\x96\x81G")});
    CHECK(t.decode(t.encode("G")) == "<s>G");
    CHECK(t.decode(t.encode("G"), {.skip_special = true, .keep_prefix = true}) == " G");
    CHECK(t.decode(t.encode(" G"), {.skip_special = true}) == " G");
  }
  v.data.legacy_space_prefix = false;
  const Tokenizer t(v.get());
  CHECK(t.encode("<s>G", {.add_special = false, .parse_special = true}) ==
        std::vector<Token>{1, id_of(t, "G")});
  CHECK(t.encode("G") == std::vector<Token>{1, id_of(t, "\xE2\x96\x81G")});
  v.data.add_space_prefix = false;
  CHECK(Tokenizer(v.get()).encode("G") == std::vector<Token>{1, id_of(t, "G")});
}

TEST_CASE("a piece may reach across a space", "[tokenizer]") {
  const std::string m = "\xE2\x96\x81";
  Vocab v = pieces();
  v.data.add_bos = v.data.add_space_prefix = false;
  for (const std::string& t : {"a" + m, "a" + m + "b", m + m, m + m + m}) v.add(t, TokenType::normal, -1);
  for (const char* t : {"a", "b"}) v.add(t, TokenType::normal, -2);
  const Tokenizer t(v.get());
  const auto ids = [&](const Strings& entries) {
    std::vector<Token> out;
    for (const auto& e : entries) out.push_back(id_of(t, e));
    return out;
  };
  CHECK(t.encode("a b") == ids({"a" + m + "b"}));
  CHECK(t.encode("b a b b a") == ids({"b", m, "a" + m + "b", m, "b", m, "a"}));
  CHECK(t.encode("a  b") == ids({"a" + m, m, "b"}));
  CHECK(t.encode("b   a    b") == ids({"b", m + m + m, "a" + m, m + m + m, "b"}));
}

TEST_CASE("text that spells a special token stays text unless it is to be parsed", "[tokenizer]") {
  Vocab v = pieces();
  v.data.add_space_prefix = false;
  for (float& s : v.data.scores) s = s == 0 ? 1 : s;  // control tokens have the best score of all
  const Tokenizer t(v.get());
  const auto plain = t.encode("</s><s>", {.add_special = false});
  for (const Token id : plain) CHECK(t.token_type(id) == TokenType::normal);
  CHECK(t.decode(plain) == "</s><s>");
  CHECK(t.encode("</s><s>", {.add_special = false, .parse_special = true}) == std::vector<Token>{2, 1});

  // The byte tokens' names are not a way to write bytes either.
  for (const Token id : t.encode("<0x0A>", {.add_special = false})) CHECK(t.token_bytes(id) != "\n");

  Vocab b = byte_level();
  const Token end = b.add("<|im_end|>", TokenType::control), tool = b.add("ca", TokenType::user_defined);
  const Tokenizer u(b.get());
  CHECK(u.encode("a<|im_end|>b", {.parse_special = true}) == std::vector<Token>{0, end, 1});
  CHECK(u.encode("a<|im_end|>b") == std::vector<Token>{0, 1});  // this vocabulary has no letters for it
  CHECK(u.encode("bcab") == std::vector<Token>{1, tool, 1});    // user-defined tokens are cut out always
  CHECK(u.is_end(end));
  CHECK_FALSE(u.is_end(tool));
  CHECK_FALSE(u.is_end(-1));
  CHECK_FALSE(u.is_end(1 << 30));
  CHECK(u.decode(std::vector<Token>{0, end}, {.skip_special = true}) == "a");
}

TEST_CASE("of overlapping special tokens the leftmost wins, then the longest", "[tokenizer]") {
  Vocab v = byte_level();
  const Token ab = v.add("ab", TokenType::user_defined), abca = v.add("abca", TokenType::user_defined);
  const Token cab = v.add("cab", TokenType::user_defined);
  const Tokenizer t(v.get());
  CHECK(t.encode("abcab") == std::vector<Token>{abca, 1});
  CHECK(t.encode("abc") == std::vector<Token>{ab, 2});
  CHECK(t.encode("bcabca") == std::vector<Token>{1, cab, 2, 0});
}

TEST_CASE("added tokens are literal, also where the byte alphabet has their letters", "[tokenizer]") {
  Vocab v = byte_level();
  const Token a = v.add("il\xC3\x96veyou", TokenType::user_defined),
              b = v.add("\xC4\x8D", TokenType::user_defined);
  const Tokenizer t(v.get());
  CHECK(t.decode(t.encode("il\xC3\x96veyou")) == "il\xC3\x96veyou");
  CHECK(t.token_bytes(a) == "il\xC3\x96veyou");
  CHECK(t.token_bytes(b) == "\xC4\x8D");
}

TEST_CASE("ids outside the vocabulary are errors", "[tokenizer]") {
  const Tokenizer t(byte_level().get());
  for (const Token id : {-1, 7, std::numeric_limits<Token>::max(), std::numeric_limits<Token>::min()}) {
    CHECK_THROWS_AS(t.decode(std::vector<Token>{0, id}), Error);
    CHECK_THROWS_AS(t.token_bytes(id), Error);
    CHECK_THROWS_AS(t.token_text(id), Error);
    CHECK_THROWS_AS(t.token_type(id), Error);
  }
}

Strings split(PreTokenizer kind, const std::string& text) {
  Strings out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_word(kind, text, at);
    REQUIRE(end > at);
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST_CASE("pre-tokenizers split as their patterns do", "[tokenizer]") {
  const auto llama3 = [](const std::string& s) { return split(PreTokenizer::llama3, s); };
  CHECK(llama3("3333") == Strings{"333", "3"});
  CHECK(llama3("33333333") == Strings{"333", "333", "33"});
  CHECK(llama3("I'VE") == Strings{"I", "'VE"});
  CHECK(llama3("it'\xC5\xBFt") == Strings{"it", "'\xC5\xBF", "t"});  // U+017F is an s in another case
  CHECK(split(PreTokenizer::gpt2, "it'\xC5\xBFt") == Strings{"it", "'", "\xC5\xBFt"});
  CHECK(llama3("Hello   world") == Strings{"Hello", "  ", " world"});
  CHECK(llama3("a\n\n\nb") == Strings{"a", "\n\n\n", "b"});
  CHECK(llama3("x=1;\n\n  y") == Strings{"x", "=", "1", ";\n\n", " ", " y"});
  CHECK(split(PreTokenizer::qwen2, "a 33") == Strings{"a", " ", "3", "3"});
  CHECK(split(PreTokenizer::gpt2, "a 33\n\n x's") == Strings{"a", " 33", "\n\n", " x", "'s"});
  CHECK(split(PreTokenizer::smollm, "a  33 b") == Strings{"a", "  ", "3", "3", " b"});
  CHECK(find_pre_tokenizer("llama-bpe") == PreTokenizer::llama3);
  CHECK_FALSE(find_pre_tokenizer("default").has_value());
}

// Every test vocabulary with all bytes, hence lossless.
std::vector<Tokenizer> lossless() {
  std::vector<Tokenizer> out;
  const test::GgufVocab bpe(NIBBLE_GOLDEN_DIR "/tokenizer_bpe.gguf"),
      spm(NIBBLE_GOLDEN_DIR "/tokenizer_spm.gguf");
  TokenizerData d = bpe.data();
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
    d.pre = pre;
    out.emplace_back(d);
  }
  d = spm.data();
  d.legacy_space_prefix = false;
  out.emplace_back(d);
  d.add_space_prefix = false;
  out.emplace_back(d);
  return out;
}

TEST_CASE("any bytes survive encoding and decoding", "[tokenizer]") {
  std::mt19937 random(11);
  std::size_t wrong = 0;
  for (const Tokenizer& t : lossless())
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      const bool ascii = round % 2 == 0;
      for (auto n = random() % 40; n > 0; --n)
        text.push_back(static_cast<char>(random() % (ascii ? 128 : 256)));
      wrong += t.decode(t.encode(text, {.add_special = false})) != text;
    }
  CHECK(wrong == 0);
}

TEST_CASE("long runs of one character take no quadratic time", "[tokenizer]") {
  using clock = std::chrono::steady_clock;
  for (const Tokenizer& t : lossless())
    for (const std::string unit :
         {"a", " ", "\n", "1", "\xE4\xB8\xAD", "'", "<|im_", "\xFF", "e\xCC\x81", "<tool_cal"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      const auto start = clock::now();
      const auto ids = t.encode(text, {.add_special = false, .parse_special = true});
      const double seconds = std::chrono::duration<double>(clock::now() - start).count();
      CHECK(t.decode(ids) == text);
      INFO(unit);
      CHECK(seconds < 20);  // quadratic would be hours; machines under sanitizers are slow
    }
}

TEST_CASE("one tokenizer serves many threads", "[tokenizer]") {
  const Tokenizer t = lossless().front();
  const std::string text = "The tokens of \xE4\xB8\xAD\xE6\x96\x87 in a stream, and 123 more.";
  const auto expected = t.encode(text);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, copy = t] {
      for (int k = 0; k < 200; ++k)
        if (copy.encode(text) != expected || copy.decode(expected) != text) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("an unknown character without byte tokens is one unknown token a run", "[tokenizer]") {
  Vocab v;
  v.data.model = "llama";
  v.data.add_space_prefix = false;
  v.data.unk = v.add("<unk>", TokenType::unknown);
  v.add("a", TokenType::normal, -1);
  v.add("\xE2\x96\x81", TokenType::normal, -2);
  const Tokenizer t(v.get());
  CHECK(t.encode("a\xE4\xB8\xAD\xE6\x96\x87"
                 "a") == std::vector<Token>{1, 0, 1});
  CHECK(t.encode("\xFF\xFE a") == std::vector<Token>{0, 2, 1});
  CHECK(t.encode("xy xy") == std::vector<Token>{0, 2, 0});
  v.texts.pop_back();  // now the spaces are unknown too, and words repeat inside one run
  v.data.types.pop_back();
  v.data.scores.pop_back();
  CHECK(Tokenizer(v.get()).encode("x x x xa x") == std::vector<Token>{0, 1, 0});
}

}  // namespace
