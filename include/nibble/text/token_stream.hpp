// SPDX-License-Identifier: MIT
// TokenStream: tokens in, text out as soon as it is certain. It holds back the bytes of an unfinished
// character and whatever may turn out to be the beginning of a stop string, so what it has given never has
// to be taken back.
#pragma once

#include <string>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/text/tokenizer.hpp"

namespace nibble {

struct TokenStreamOptions {
  std::vector<std::string> stop_strings{};  ///< text ends before the first of them; none may be empty
  bool skip_special = true;                 ///< control and unknown tokens give no text
};

/// Not thread-safe; keeps a copy of the tokenizer, which shares its tables. Texts put together equal the
/// decoded tokens up to the stop string, however tokens cut characters.
class NIBBLE_API TokenStream {
 public:
  /// Throws Error{invalid_argument} for an empty stop string.
  explicit TokenStream(const Tokenizer& tokenizer, TokenStreamOptions options = {});

  /// Text that has become certain with this token, perhaps none. After a stop string always none. Throws
  /// Error{invalid_argument} for a token outside the vocabulary.
  std::string push(Token token);
  /// Whether a stop string was found.
  bool stopped() const noexcept { return stopped_; }
  /// What was held back, at the end of the tokens: an unfinished character becomes U+FFFD.
  std::string finish();

 private:
  std::string take(std::size_t bytes);
  std::size_t stop_prefix() const noexcept;

  Tokenizer tokenizer_;
  TokenStreamOptions options_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace nibble
