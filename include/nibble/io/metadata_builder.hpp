// SPDX-License-Identifier: MIT
// MetadataBuilder: metadata being made, for a file to be written or a model in memory. Keys keep the order in
// which they first came; setting a key again replaces its value in place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/io/metadata.hpp"

namespace nibble {

class NIBBLE_API MetadataBuilder {
 public:
  /// Sets a scalar; the type stored is that of the argument: set("llama.block_count", std::uint32_t{30}).
  /// All set functions throw Error{invalid_argument} for a key that is empty, not UTF-8 or over 65,535 bytes.
  template <MetadataScalar T>
  void set(std::string_view key, T value) {
    put(key, metadata_type_of<T>(), std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  void set(std::string_view key, std::string_view text);
  /// A copy of a value of any type, from another file.
  void set(std::string_view key, const MetadataValue& value) { put(key, value.type(), value.raw()); }

  template <MetadataScalar T>
  void set_array(std::string_view key, std::span<const T> values) {
    put_array(key, metadata_type_of<T>(), values.size(), std::as_bytes(values));
  }
  template <MetadataScalar T>
  void set_array(std::string_view key, const std::vector<T>& values) {
    set_array(key, std::span<const T>(values));
  }
  void set_array(std::string_view key, std::span<const std::string_view> values);
  void set_array(std::string_view key, std::span<const std::string> values);

  /// Sets every key of `from`, in its order.
  void copy(const Metadata& from);
  /// Removes a key; false when it was not there.
  bool erase(std::string_view key);
  bool contains(std::string_view key) const;
  std::size_t size() const noexcept { return items_.size(); }

  /// What was set, readable; `source` stands for the path in messages.
  Metadata build(std::string source = "memory") const;
  /// Appends the entries as a GGUF file holds them.
  void encode(std::vector<std::byte>& to) const;

 private:
  struct Item {
    std::string key;
    MetadataType type;
    std::vector<std::byte> payload;
  };
  void put(std::string_view key, MetadataType type, std::span<const std::byte> payload);
  void put_array(std::string_view key, MetadataType element, std::size_t count,
                 std::span<const std::byte> payload);
  template <class Range>
  void put_strings(std::string_view key, const Range& values);

  std::vector<Item> items_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace nibble
