// SPDX-License-Identifier: MIT
// Little-endian encoding onto the end of a byte vector: the writer's side of ByteCursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace nibble {

inline void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
void append_number(std::vector<std::byte>& to, T value) {
  // Not `insert`: at -O3 g++ 12 imagines writes beyond the end of an empty vector.
  const std::size_t at = to.size();
  to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}

/// u64 length + bytes.
inline void append_string(std::vector<std::byte>& to, std::string_view text) {
  append_number(to, std::uint64_t{text.size()});
  append_bytes(to, std::as_bytes(std::span<const char>(text.data(), text.size())));
}

}  // namespace nibble
