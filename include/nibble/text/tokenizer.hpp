// SPDX-License-Identifier: MIT
// Text to tokens and back: byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) and SentencePiece BPE (Llama 2,
// Mistral, Gemma). Built from plain data, whatever file it came from; token ids equal those of the
// model's own tokenizer. BPE: Sennrich et al. 2016, https://arxiv.org/abs/1508.07909; SentencePiece:
// Kudo & Richardson 2018, https://arxiv.org/abs/1808.06226.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/result.hpp"
#include "nibble/text/token.hpp"

namespace nibble {

/// What a vocabulary entry is for; the numbers are those of `tokenizer.ggml.token_type`.
enum class TokenType : std::int32_t {
  normal = 1,
  unknown = 2,       ///< stands for text the vocabulary cannot express
  control = 3,       ///< <s>, <|im_end|>: never made from plain text, never part of the content
  user_defined = 4,  ///< literal text, cut out of the input before anything else
  unused = 5,        ///< padding of the embedding matrix
  byte = 6           ///< <0x0A>: one raw byte (SentencePiece byte fallback)
};

/// Everything that defines a tokenizer, as plain data. The views must stay valid only while the Tokenizer is
/// built (they may point into a mapped file). Behind each field: the GGUF key it comes from (prefix
/// `tokenizer.ggml.`).
struct TokenizerData {
  std::string model;                     ///< `model`: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre;                       ///< `pre`: name of the pre-tokenizer; read for byte-level BPE only
  std::vector<std::string_view> tokens;  ///< `tokens`: entries as stored, by id
  std::vector<float> scores;        ///< `scores`: one per token; SentencePiece only (may be empty otherwise)
  std::vector<std::int32_t> types;  ///< `token_type`: TokenType per token; empty: all normal
  std::vector<std::string_view> merges;  ///< `merges`: "left right", best first; byte-level BPE only

  /// `bos_token_id`, `eos_token_id`, `eot_token_id`, `unknown_token_id`, `padding_token_id`
  std::optional<Token> bos, eos, eot, unk, pad;
  std::vector<Token> more_end_tokens;  ///< `eog_token_ids`, or "eos_token_id" lists of other formats

  std::optional<bool> add_bos;  ///< `add_bos_token`; default: SentencePiece and llama3 yes, others no
  std::optional<bool> add_eos;  ///< `add_eos_token`; default no
  std::optional<bool> add_space_prefix;  ///< `add_space_prefix`; SentencePiece's dummy prefix: default yes
  /// Whether the dummy prefix is also put behind each special token ("legacy" in tokenizer_config.json), or
  /// only at the start of the text. No GGUF key; default yes, as with the models converted before the flag
  /// existed.
  std::optional<bool> legacy_space_prefix;
  /// Whether a word that is itself a vocabulary entry is taken without merging. No GGUF key; default: llama3
  /// family.
  std::optional<bool> ignore_merges;
  /// Whether text is put into NFC first. No GGUF key; default: the qwen2 family, whose tokenizer.json says
  /// so.
  std::optional<bool> normalize_nfc;
};

struct EncodeOptions {
  bool add_special = true;  ///< put bos / eos around the text where the model asks for it
  bool parse_special = false;  ///< read "<|im_end|>" as that token; off for text from users
};

struct DecodeOptions {
  bool skip_special = false;  ///< leave control and unknown tokens out of the text
  bool keep_prefix = false;   ///< keep the space of the dummy prefix: the tokens continue earlier text
};

/// A vocabulary with its rules. Immutable: all members are const and may be called from any number of threads
/// at once; copies share the tables.
class NIBBLE_API Tokenizer {
 public:
  /// Copies what it needs from `data`. Throws Error{malformed} for contradictory data (naming the token or
  /// merge) and Error{unsupported} for an unknown model or pre-tokenizer (naming it). 262,144 tokens take
  /// tens of milliseconds.
  explicit Tokenizer(const TokenizerData& data);
  static Result<Tokenizer> try_make(const TokenizerData& data);

  /// Token ids of `text`, which may hold any bytes. n log n in the length of the text, for any text.
  std::vector<Token> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Text of `tokens`: raw bytes, well-formed UTF-8 when the tokens spell whole characters.
  /// decode(encode(text)) is the text (in NFC where the model normalizes), as far as the vocabulary has a token for
  /// each byte. Throws Error{invalid_argument} for an id outside the vocabulary.
  std::string decode(std::span<const Token> tokens, DecodeOptions options = {}) const;

  /// The bytes that one token stands for; for control tokens their literal text; nothing for unused ones.
  std::string token_bytes(Token token) const;
  /// The vocabulary entry as stored ("Ġthe", "▁the", "<0x0A>"); valid as long as a copy of the Tokenizer
  /// lives.
  std::string_view token_text(Token token) const;
  TokenType token_type(Token token) const;
  /// The id of a vocabulary entry, spelled as stored.
  std::optional<Token> find(std::string_view token_text) const;

  std::size_t vocab_size() const noexcept;
  std::optional<Token> bos() const noexcept;
  std::optional<Token> eos() const noexcept;
  std::optional<Token> eot() const noexcept;
  std::optional<Token> unk() const noexcept;
  std::optional<Token> pad() const noexcept;
  bool add_bos() const noexcept;
  bool add_eos() const noexcept;
  bool add_space_prefix() const noexcept;

  /// Whether generation ends at this token: eos, eot, and the control tokens by which chat models end their
  /// turn. False for ids outside the vocabulary.
  bool is_end(Token token) const noexcept;
  /// All tokens for which is_end holds, ascending.
  std::span<const Token> end_tokens() const noexcept;

  /// Opaque; defined in the library.
  struct Tables;

 private:
  std::shared_ptr<const Tables> tables_;
};

}  // namespace nibble
