// SPDX-License-Identifier: MIT
// A position in outside bytes. Every take is checked by subtraction against what remains, and a failed one
// says where, what for, how much was wanted and how much was there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/io/metadata.hpp"

namespace nibble {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t position() const noexcept { return at_; }
  std::uint64_t remaining() const noexcept { return bytes_.size() - at_; }
  const std::byte* here() const noexcept { return bytes_.data() + at_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > remaining())
      throw Error(Errc::malformed, "ends at byte " + std::to_string(bytes_.size()) + ", but " +
                                       std::string(what) + " at byte " + std::to_string(at_) + " needs " +
                                       std::to_string(count) + (count == 1 ? " byte" : " bytes"));
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return part;
  }

  template <class T>
  T number(std::string_view what) {
    return detail::load<T>(take(sizeof(T), what).data());
  }

  /// u64 length + bytes, the length bounded by `limit` and by what remains.
  std::string_view string(std::uint64_t limit, std::string_view what) {
    const std::uint64_t start = at_;
    const auto length = number<std::uint64_t>(what);
    if (length > remaining())
      throw Error(Errc::malformed, std::string(what) + " at byte " + std::to_string(start) + " claims " +
                                       std::to_string(length) + " bytes, only " +
                                       std::to_string(remaining()) + " remain");
    if (length > limit)
      throw Error(Errc::out_of_memory, std::string(what) + " at byte " + std::to_string(start) + " has " +
                                           std::to_string(length) + " bytes, over the limit of " +
                                           std::to_string(limit));
    const auto part = take(length, what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// Whether the bytes are well-formed UTF-8 (no overlong forms, surrogates or values above U+10FFFF).
bool is_utf8(std::string_view text) noexcept;

/// Names in error messages: outside bytes made printable and cut to a sane length.
std::string printable(std::string_view name);

/// Indices of `count` names, sorted by name; throws naming the first duplicate. O(n log n) on any input.
template <class NameOf>
std::vector<std::uint32_t> index_by_name(std::size_t count, const NameOf& name_of, const char* what) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name_of(a) < name_of(b); });
  for (std::size_t i = 1; i < count; ++i)
    if (name_of(order[i - 1]) == name_of(order[i]))
      throw Error(Errc::malformed,
                  std::string(what) + " '" + printable(name_of(order[i])) + "' occurs twice");
  return order;
}

/// Position in `order` of `name`, or `order.size()`.
template <class NameOf>
std::size_t find_by_name(const std::vector<std::uint32_t>& order, std::string_view name,
                         const NameOf& name_of) {
  const auto it = std::lower_bound(order.begin(), order.end(), name,
                                   [&](std::uint32_t i, std::string_view n) { return name_of(i) < n; });
  const bool found = it != order.end() && name_of(*it) == name;
  return found ? static_cast<std::size_t>(it - order.begin()) : order.size();
}

}  // namespace nibble
