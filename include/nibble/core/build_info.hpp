// SPDX-License-Identifier: MIT
// How the compiled library was built. The macros in nibble/config.hpp describe the headers a user
// compiles against; these functions describe the library that was linked, which may differ.
#pragma once

#include <string>
#include <string_view>

#include "nibble/core/export.hpp"

namespace nibble {

/// Version of the linked library, e.g. "0.1.0".
NIBBLE_API std::string_view version() noexcept;

/// One readable line: version, backend, build type, compiler, system and optional parts.
NIBBLE_API std::string build_info();

}  // namespace nibble
