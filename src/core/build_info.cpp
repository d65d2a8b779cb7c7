// SPDX-License-Identifier: MIT
// Turns the generated configuration header into the line that programs print with --version.
#include "nibble/core/build_info.hpp"

#include "nibble/config.hpp"

namespace nibble {

std::string_view version() noexcept { return NIBBLE_VERSION_STRING; }

std::string build_info() {
  std::string line = "nibble " NIBBLE_VERSION_STRING " (backend " NIBBLE_BACKEND_NAME ", " NIBBLE_BUILD_TYPE
                     ", " NIBBLE_BUILD_COMPILER ", " NIBBLE_BUILD_SYSTEM;
  const auto add = [&line](bool present, std::string_view name) {
    if (present) line.append(", ").append(name);
  };
  add(NIBBLE_HAS_XSIMD != 0, "xsimd");
  add(NIBBLE_HAS_JSON != 0, "json");
  add(NIBBLE_HAS_ONEDNN != 0, "oneDNN");
  return line + ")";
}

}  // namespace nibble
