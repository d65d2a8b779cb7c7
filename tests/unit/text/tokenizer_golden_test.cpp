// SPDX-License-Identifier: MIT
// Token ids against the public tokenizers (tests/golden/make_tokenizers.py): vocabularies made for the tests,
// always; real models, where their files are.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nibble/text/tokenizer.hpp"
#include "nibble/text/unicode.hpp"
#include "support/catch.hpp"
#include "support/gguf_vocab.hpp"

namespace {

using namespace nibble;

const std::string golden = NIBBLE_GOLDEN_DIR;
const std::string models = NIBBLE_MODELS_DIR;

bool exists(const std::string& path) { return std::ifstream(path).good(); }

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
  return out;
}

struct Case {
  bool parse_special = false, found = true;
  std::string source, text;
  std::vector<Token> ids;
};

Case parse_case(const std::string& line) {
  std::istringstream in(line);
  Case c;
  std::string flag;
  in >> flag >> c.source;
  c.parse_special = flag == "s";
  for (Token id; in >> id;) c.ids.push_back(id);
  if (c.source[0] == 'x') {
    c.text = from_hex(c.source.substr(2));
    return c;
  }
  const std::size_t size_at = c.source.rfind(':'), offset_at = c.source.rfind(':', size_at - 1);
  std::ifstream file(models + "/" + c.source.substr(2, offset_at - 2), std::ios::binary);
  c.found = file.good();
  c.text.resize(std::stoul(c.source.substr(size_at + 1)));
  file.seekg(std::stol(c.source.substr(offset_at + 1)));
  file.read(c.text.data(), static_cast<std::streamsize>(c.text.size()));
  return c;
}

struct Outcome {
  std::size_t cases = 0, missing = 0, wrong = 0, unequal_text = 0;
};

// Runs a golden file. `lossless`: decoding must give the text back (in NFC where the model normalizes).
Outcome run(const Tokenizer& tokenizer, const std::string& name, bool nfc = false, bool lossless = true) {
  std::ifstream file(golden + "/tokenizer_" + name + ".txt");
  REQUIRE(file.good());
  Outcome o;
  for (std::string line; std::getline(file, line);) {
    const Case c = parse_case(line);
    ++o.cases;
    if (!c.found) {
      ++o.missing;
      continue;
    }
    const auto ids = tokenizer.encode(c.text, {.add_special = false, .parse_special = c.parse_special});
    if (ids != c.ids && ++o.wrong <= 5) {
      UNSCOPED_INFO(name << " parse_special " << c.parse_special << " text "
                         << unicode::to_valid_utf8(c.text.substr(0, 80)));
      CHECK(ids == c.ids);
    }
    const std::string expected = nfc ? unicode::to_nfc(c.text) : c.text;
    if (lossless && !c.parse_special && tokenizer.decode(ids) != expected && ++o.unequal_text <= 5) {
      CHECK(tokenizer.decode(ids) == expected);
    }
  }
  CHECK(o.cases > 400);
  CHECK(o.wrong == 0);
  CHECK(o.unequal_text == 0);
  return o;
}

TEST_CASE("ids of a byte-level vocabulary under each pre-tokenizer equal Hugging Face tokenizers",
          "[tokenizer][golden]") {
  const test::GgufVocab vocab(golden + "/tokenizer_bpe.gguf");
  for (const std::string pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    TokenizerData data = vocab.data();
    data.pre = pre;
    run(Tokenizer(data), "bpe_" + pre, pre == "qwen2");
  }
}

TEST_CASE("ids of a SentencePiece vocabulary equal sentencepiece and Hugging Face tokenizers",
          "[tokenizer][golden]") {
  const test::GgufVocab vocab(golden + "/tokenizer_spm.gguf");
  TokenizerData data = vocab.data();
  SECTION("dummy prefix at the start and behind special tokens") {
    // Not lossless: the prefix behind a user-defined token stays in the text, as with the peers.
    run(Tokenizer(data), "spm", false, false);
  }
  SECTION("dummy prefix at the start only") {
    data.legacy_space_prefix = false;
    run(Tokenizer(data), "spm_first");
  }
  data.add_space_prefix = false;
  SECTION("no dummy prefix") { run(Tokenizer(data), "spm_bare"); }
}

TEST_CASE("unused pieces take part in merging and fall apart afterwards", "[tokenizer][golden]") {
  const test::GgufVocab vocab(golden + "/tokenizer_spm.gguf");
  TokenizerData data = vocab.data();
  for (std::size_t i = 0; i < data.types.size(); i += 7)
    if (data.types[i] == 1 && data.tokens[i].size() > 1 && data.tokens[i] != "\xE2\x96\x81" &&
        unicode::decode_utf8(data.tokens[i], 0).size < data.tokens[i].size())
      data.types[i] = static_cast<std::int32_t>(TokenType::unused);
  const Tokenizer tokenizer(data);
  std::ifstream file(golden + "/tokenizer_spm_unused.txt");
  REQUIRE(file.good());
  std::size_t cases = 0;
  for (std::string line; std::getline(file, line);) {
    const Case c = parse_case(line);
    if (c.parse_special || c.text.find("tool_call>") != std::string::npos)
      continue;  // see make_tokenizers.py
    CHECK(tokenizer.encode(c.text, {.add_special = false}) == c.ids);
    ++cases;
  }
  CHECK(cases > 200);
}

// One test for each real vocabulary, so that a missing file shows as one skipped test.
void run_model(const std::string& file, const std::string& name, bool nfc, bool lossless) {
  const std::string path = models + "/" + file;
  if (!exists(path)) {
    WARN("skipped: " << path << " is not there");
    return;
  }
  const test::GgufVocab vocab(path);
  const Outcome o = run(Tokenizer(vocab.data()), "model_" + name, nfc, lossless);
  if (o.missing > 0)
    WARN(o.missing << " of " << o.cases << " cases not run: their texts are not in " << models);
}

TEST_CASE("SmolLM2: ids equal Hugging Face tokenizers", "[tokenizer][golden][model]") {
  run_model("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2", false, false);  // 21 bytes have no token
}
TEST_CASE("Qwen2.5: ids equal Hugging Face tokenizers", "[tokenizer][golden][model]") {
  run_model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2", true, true);
}
TEST_CASE("Gemma 3: ids equal sentencepiece and Hugging Face tokenizers", "[tokenizer][golden][model]") {
  run_model("gemma-3-270m-q4_k_m.gguf", "gemma3", false, true);
}

}  // namespace
