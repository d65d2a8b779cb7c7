// SPDX-License-Identifier: MIT
// The small random decoder of tiny_source.hpp with a byte-level vocabulary and, if wanted, a chat template:
// what generation, chat and evaluation need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nibble/model/model.hpp"
#include "nibble/text/unicode.hpp"
#include "support/tiny_source.hpp"

namespace nibble::test {

inline constexpr Token tiny_end = 0, tiny_start = 1;  ///< <|im_end|> and <|im_start|>

/// Token 2 + b is byte b; two merges behind them.
inline std::vector<std::string> tiny_vocabulary() {
  std::vector<std::string> tokens = {"<|im_end|>", "<|im_start|>"};
  char32_t extra = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    tokens.emplace_back();
    unicode::append_utf8(tokens.back(), plain ? b : extra++);
  }
  tokens.insert(tokens.end(), {"he", "ll"});
  return tokens;
}

inline constexpr std::string_view tiny_template =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Ties the head to the embedding; no template when it is empty.
inline TinyModel tiny_text_model(std::string_view chat_template = tiny_template, bool add_bos = false) {
  TinyModel m = tiny_llama();
  const std::vector<std::string> tokens = tiny_vocabulary();
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[0] = types[1] = 3;
  m.drop("token_embd.weight");
  m.add("token_embd.weight", {static_cast<Index>(tokens.size()), 64}, 0, 0.3);
  m.metadata.set("tokenizer.ggml.model", std::string_view("gpt2"));
  m.metadata.set("tokenizer.ggml.pre", std::string_view("smollm"));
  m.metadata.set_array("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
  m.metadata.set_array("tokenizer.ggml.token_type", types);
  const std::vector<std::string> merges = {"h e", "l l"};
  m.metadata.set_array("tokenizer.ggml.merges", std::span<const std::string>(merges));
  m.metadata.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  m.metadata.set("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  m.metadata.set("tokenizer.ggml.add_bos_token", add_bos);
  if (!chat_template.empty()) m.metadata.set("tokenizer.chat_template", chat_template);
  return m;
}

inline Model load(Model::Context& context, const TinyModel& tiny) {
  MemoryWeightSource source = tiny.source();
  return Model::from_source(context, source);
}

}  // namespace nibble::test
