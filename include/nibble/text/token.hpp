// SPDX-License-Identifier: MIT
// A token is an index into a model's vocabulary. Signed 32 bits, as in every file format and API of
// the field; negative values never name a token.
#pragma once

#include <cstdint>

namespace nibble {

using Token = std::int32_t;

}  // namespace nibble
