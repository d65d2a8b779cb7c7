// SPDX-License-Identifier: MIT
#include "nibble/model/arch.hpp"

#include <array>
#include <string>

namespace nibble {

namespace arch {
#define NIBBLE_ARCHITECTURE(name) extern const Architecture name;
#include "model/architectures.def"
#undef NIBBLE_ARCHITECTURE
}  // namespace arch

std::span<const Architecture* const> architectures() {
#define NIBBLE_ARCHITECTURE(name) &arch::name,
  static constexpr const Architecture* list[] = {
#include "model/architectures.def"
  };
#undef NIBBLE_ARCHITECTURE
  return list;
}

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture* a : architectures()) {
    if (a->name == name) return *a;
    known += (known.empty() ? "" : ", ") + std::string(a->name);
  }
  throw Error(Errc::unsupported,
              "architecture '" + std::string(name) + "' is not supported (there are: " + known + ")");
}

}  // namespace nibble
