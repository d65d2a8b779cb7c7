// SPDX-License-Identifier: MIT
// Pre-tokenizers of byte-level BPE vocabularies: where a text is cut into words before merging. Each is
// published as a regular expression; here each is a direct scanner over Unicode 16 classes, linear in
// the text, without a regex engine (whose tables are older and whose look-ahead may backtrack).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "nibble/core/export.hpp"

namespace nibble {

/// How words are cut. The patterns (ordered alternatives, first match wins):
///   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   smollm  each \p{N} alone, then gpt2 on what lies between
///   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
///           ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
///   qwen2   llama3 with \p{N} in place of \p{N}{1,3}
enum class PreTokenizer : std::uint8_t { gpt2, smollm, llama3, qwen2 };

/// The scanner for a `tokenizer.ggml.pre` name ("smollm", "llama-bpe", ...); nullopt for a name whose
/// pattern is none of the four: guessing would change token ids silently.
NIBBLE_API std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept;

/// End of the word that starts at `pos` (< text.size()); always > pos. Never splits a valid character;
/// invalid UTF-8 bytes count as "neither letter, number nor space".
NIBBLE_API std::size_t next_word(PreTokenizer kind, std::string_view text, std::size_t pos) noexcept;

}  // namespace nibble
