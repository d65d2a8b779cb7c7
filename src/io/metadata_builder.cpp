// SPDX-License-Identifier: MIT
// Encoding of metadata values: type number, then the value; strings and arrays with 64-bit counts.
#include "nibble/io/metadata_builder.hpp"

#include <memory>
#include <utility>

#include "io/byte_append.hpp"
#include "io/byte_cursor.hpp"
#include "io/metadata_parser.hpp"

namespace nibble {

void MetadataBuilder::put(std::string_view key, MetadataType type, std::span<const std::byte> payload) {
  constexpr std::size_t longest = 65535;
  if (key.empty() || key.size() > longest || !is_utf8(key))
    throw Error(Errc::invalid_argument,
                "metadata key '" + printable(key) + "': 1 to 65535 bytes of UTF-8 are needed");
  std::vector<std::byte> bytes(payload.begin(), payload.end());
  const auto at = index_.find(std::string(key));
  if (at != index_.end()) {
    Item& item = items_[at->second];
    item.type = type;
    item.payload = std::move(bytes);
    return;
  }
  items_.push_back({std::string(key), type, std::move(bytes)});
  index_.emplace(std::string(key), items_.size() - 1);
}

void MetadataBuilder::put_array(std::string_view key, MetadataType element, std::size_t count,
                                std::span<const std::byte> payload) {
  std::vector<std::byte> bytes;
  bytes.reserve(12 + payload.size());
  append_number(bytes, static_cast<std::uint32_t>(element));
  append_number(bytes, std::uint64_t{count});
  append_bytes(bytes, payload);
  put(key, MetadataType::array, bytes);
}

template <class Range>
void MetadataBuilder::put_strings(std::string_view key, const Range& values) {
  std::vector<std::byte> payload;
  for (const auto& text : values) append_string(payload, text);
  put_array(key, MetadataType::string, values.size(), payload);
}

void MetadataBuilder::set(std::string_view key, std::string_view text) {
  std::vector<std::byte> payload;
  append_string(payload, text);
  put(key, MetadataType::string, payload);
}

void MetadataBuilder::set_array(std::string_view key, std::span<const std::string_view> values) {
  put_strings(key, values);
}

void MetadataBuilder::set_array(std::string_view key, std::span<const std::string> values) {
  put_strings(key, values);
}

void MetadataBuilder::copy(const Metadata& from) {
  for (const MetadataEntry& entry : from) set(entry.key, entry.value);
}

bool MetadataBuilder::contains(std::string_view key) const { return index_.contains(std::string(key)); }

bool MetadataBuilder::erase(std::string_view key) {
  const auto at = index_.find(std::string(key));
  if (at == index_.end()) return false;
  const std::size_t position = at->second;
  index_.erase(at);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [_, i] : index_) i -= i > position ? 1 : 0;
  return true;
}

void MetadataBuilder::encode(std::vector<std::byte>& to) const {
  for (const Item& item : items_) {
    append_string(to, item.key);
    append_number(to, static_cast<std::uint32_t>(item.type));
    append_bytes(to, item.payload);
  }
}

Metadata MetadataBuilder::build(std::string source) const {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  encode(*bytes);
  ByteCursor cursor(*bytes);
  const GgufLimits limits;
  MetadataParser parser(cursor, limits);
  return parser.parse(items_.size(), std::move(source), std::move(bytes));
}

}  // namespace nibble
