// SPDX-License-Identifier: MIT
// Objects as text: str(), repr() and JSON, byte for byte as Python writes them.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/object.hpp"

namespace nibble::jinja {

/// What {{ object }} prints.
void print(Writer& out, const Object& object);
std::string to_text(Budget& budget, const Object& object);
/// As inside a printed list: strings quoted and escaped.
void print_repr(Writer& out, const Object& object);
std::string to_repr(Budget& budget, const Object& object);

struct JsonStyle {
  bool ascii_only = false;
  std::optional<std::string> indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps; error for what JSON has no form for.
std::string to_json(Budget& budget, const Object& object, const JsonStyle& style);

}  // namespace nibble::jinja
