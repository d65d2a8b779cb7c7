// SPDX-License-Identifier: MIT
// Text of a generation as it grows. Tokens are pieces of bytes: a character may be spread over several, and
// a stop string too. A TokenStream gives out only what is final: whole characters that no stop string can
// still claim. What it gives out, put together, is what decoding all tokens at once would give.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/text/tokenizer.hpp"

namespace nibble {

/// Finds the first of several strings in a text that arrives in pieces, one automaton (Knuth, Morris, Pratt
/// 1977) for each. "First" is the one that ends first, and of those the longest, so the result does not
/// depend on the pieces.
class NIBBLE_API StopStrings {
 public:
  StopStrings() = default;
  /// Throws Error{invalid_argument} for an empty string: it would stop everything.
  explicit StopStrings(std::vector<std::string> strings);

  /// Takes one more byte; the length of the stop string that ends with it, or 0.
  std::size_t push(char byte) noexcept;
  /// How many of the last bytes may be the beginning of a stop string.
  std::size_t pending() const noexcept { return pending_; }
  void reset() noexcept;

 private:
  struct Automaton {
    std::string text;
    std::vector<std::size_t> border;  // border[i]: longest proper prefix of text[0, i] that is its suffix
    std::size_t matched = 0;
  };
  std::vector<Automaton> automata_;
  std::size_t pending_ = 0;
};

struct TokenStreamOptions {
  DecodeOptions decode{.skip_special = true, .keep_prefix = false};
  std::vector<std::string> stop;  ///< the text ends before the first of these
};

/// One growing text. Not thread safe; one per request.
class NIBBLE_API TokenStream {
 public:
  /// Throws Error{invalid_argument} for an empty stop string.
  explicit TokenStream(Tokenizer tokenizer, TokenStreamOptions options = {});

  /// Takes the next token and returns what became final: possibly nothing. Bytes that cannot be part of a
  /// character are passed on as they are. After a stop string everything is ignored. Throws
  /// Error{invalid_argument} for an id outside the vocabulary; the stream is then unchanged.
  std::string push(Token token);
  /// The same for bytes that no token stands for.
  std::string push_bytes(std::string_view bytes);
  /// The end of the generation: what was held back, be it half a character or half a stop string.
  std::string flush();

  /// Whether a stop string was met.
  bool stopped() const noexcept { return stopped_; }
  /// Back to an empty text with the same options.
  void reset() noexcept;

 private:
  Tokenizer tokenizer_;
  DecodeOptions decode_;
  StopStrings stop_;
  std::string held_;  // not yet given out
  bool at_start_ = true, stopped_ = false;
};

}  // namespace nibble
