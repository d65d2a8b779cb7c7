// SPDX-License-Identifier: MIT
// A model file's tokenizer on its own, without loading weights.
#pragma once

#include "nibble/core/export.hpp"
#include "nibble/io/metadata.hpp"
#include "nibble/text/tokenizer.hpp"

namespace nibble {

/// The tokenizer that `tokenizer.ggml.*` metadata describes. Throws Error{malformed} naming source and key,
/// Error{unsupported} for a kind of tokenizer that is not there.
NIBBLE_API Tokenizer load_tokenizer(const Metadata& metadata);

}  // namespace nibble
