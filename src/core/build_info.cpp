// SPDX-License-Identifier: MIT
// Turns the generated configuration header into the line that programs print with --version.
#include "nibble/core/build_info.hpp"

#include "nibble/config.hpp"

namespace nibble {

std::string_view version() noexcept { return NIBBLE_VERSION_STRING; }

std::string build_info() {
  std::string line = "nibble " NIBBLE_VERSION_STRING " (backend " NIBBLE_BACKEND_NAME ", " NIBBLE_BUILD_TYPE
                     ", " NIBBLE_BUILD_COMPILER ", " NIBBLE_BUILD_SYSTEM;
  if (NIBBLE_HAS_ONEDNN != 0) line += ", oneDNN";
  return line + ")";
}

}  // namespace nibble
