// SPDX-License-Identifier: MIT
// The type ids a GGUF file may name: every tensor type known to the format, decodable here or not, so that
// any file can be inspected, checked and copied; and the types of metadata values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nibble/core/export.hpp"

namespace nibble {

/// A tensor type: `block_bytes` bytes hold `block_size` consecutive elements of one row.
struct GgufTypeInfo {
  std::uint32_t id = 0;
  std::string_view name;  ///< as other GGUF tools spell it: "Q4_K"
  std::uint32_t block_size = 1;
  std::uint32_t block_bytes = 0;
};

/// The type with this id; null when the id is unknown or retired.
NIBBLE_API const GgufTypeInfo* find_gguf_type(std::uint32_t id) noexcept;
/// The type with this name, in any letter case; null when unknown.
NIBBLE_API const GgufTypeInfo* find_gguf_type(std::string_view name) noexcept;
/// What a retired id once meant ("Q4_2"); empty for every other id.
NIBBLE_API std::string_view retired_gguf_type(std::uint32_t id) noexcept;

/// Types of metadata values; the numbers are those stored in files.
enum class MetadataType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12
};

/// "u32", "string", ...; "unknown" for a number outside the enumeration.
NIBBLE_API std::string_view to_string(MetadataType type) noexcept;

/// Bytes of one value of a fixed-size type; 0 for string and array.
constexpr std::size_t metadata_type_bytes(MetadataType type) noexcept {
  switch (type) {
    case MetadataType::u8:
    case MetadataType::i8:
    case MetadataType::boolean: return 1;
    case MetadataType::u16:
    case MetadataType::i16: return 2;
    case MetadataType::u32:
    case MetadataType::i32:
    case MetadataType::f32: return 4;
    case MetadataType::u64:
    case MetadataType::i64:
    case MetadataType::f64: return 8;
    case MetadataType::string:
    case MetadataType::array: break;
  }
  return 0;
}

}  // namespace nibble
