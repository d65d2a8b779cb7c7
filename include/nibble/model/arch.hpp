// SPDX-License-Identifier: MIT
// An architecture: how a file's metadata becomes a ModelSpec, and which tensors a block has. One source
// file in src/model/arch/ and one line in src/model/architectures.def each.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/io/metadata.hpp"
#include "nibble/model/block_spec.hpp"
#include "nibble/model/tensor_names.hpp"

namespace nibble {

enum class Presence { required, optional };

struct RoleUse {
  Role role;
  Presence presence = Presence::required;
};

struct Architecture {
  std::string_view name;                       ///< general.architecture
  ModelSpec (*spec)(const Metadata& metadata); ///< throws Error naming the offending key
  std::span<const RoleUse> roles;              ///< every tensor a file of it may hold
};

/// The shipped architectures.
NIBBLE_API std::span<const Architecture* const> architectures();
/// Throws Error{unsupported} naming the architecture and those there are.
NIBBLE_API const Architecture& find_architecture(std::string_view name);

}  // namespace nibble
