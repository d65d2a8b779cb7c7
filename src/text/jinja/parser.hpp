// SPDX-License-Identifier: MIT
// Parser: template source to syntax tree.
#pragma once

#include <string_view>

#include "text/jinja/ast.hpp"

namespace nibble::jinja {

/// Errors carry the line: malformed (syntax), unsupported (tag, filter, test), out_of_memory (nesting).
Tree parse(std::string_view source);

}  // namespace nibble::jinja
