// SPDX-License-Identifier: MIT
// Contracts at public entries: always on, and they throw. NIBBLE_EXPECTS guards what a caller passes;
// inner loops rely on it and check nothing.
#pragma once

#include <string>

#include "nibble/core/error.hpp"

namespace nibble::detail {
[[noreturn]] inline void contract_violated(const std::string& message) {
  throw Error(Errc::invalid_argument, message);
}
}  // namespace nibble::detail

/// Throws Error{invalid_argument} with `message` (a std::string expression, built only on failure).
#define NIBBLE_EXPECTS(condition, message) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::nibble::detail::contract_violated(message))
