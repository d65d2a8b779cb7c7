// SPDX-License-Identifier: MIT
// strftime in the C locale, whatever the process's locale is: prompts must not change with it.
#pragma once

#include <ctime>
#include <string>

#include "text/jinja/budget.hpp"

namespace nibble::jinja {

/// Error{unsupported} for a directive outside a A b B c d D e F H I j k l m M n p S t T u w x X y Y %,
/// each optionally with '-' (no padding).
void format_time(Writer& out, const std::string& format, const std::tm& time);

}  // namespace nibble::jinja
