// SPDX-License-Identifier: MIT
// Metadata lookups, messages and the parser of the key section.
#include "nibble/io/metadata.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "io/metadata_parser.hpp"
#include "nibble/core/checked.hpp"

namespace nibble {
namespace {

// Shortest text that reads back as the same number.
template <class T>
std::string number_text(T v) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  return end.ec == std::errc{} ? std::string(buffer, end.ptr) : std::string("?");
}

std::string scalar_text(MetadataType type, const std::byte* p) {
  switch (type) {
    case MetadataType::u8: return number_text(detail::load<std::uint8_t>(p));
    case MetadataType::i8: return number_text(detail::load<std::int8_t>(p));
    case MetadataType::u16: return number_text(detail::load<std::uint16_t>(p));
    case MetadataType::i16: return number_text(detail::load<std::int16_t>(p));
    case MetadataType::u32: return number_text(detail::load<std::uint32_t>(p));
    case MetadataType::i32: return number_text(detail::load<std::int32_t>(p));
    case MetadataType::u64: return number_text(detail::load<std::uint64_t>(p));
    case MetadataType::i64: return number_text(detail::load<std::int64_t>(p));
    case MetadataType::f32: return number_text(detail::load<float>(p));
    case MetadataType::f64: return number_text(detail::load<double>(p));
    case MetadataType::boolean: return detail::load<bool>(p) ? "true" : "false";
    case MetadataType::string:
    case MetadataType::array: break;
  }
  return {};
}

std::string cut(std::string_view text, std::size_t max_bytes) {
  if (max_bytes == 0 || text.size() <= max_bytes) return std::string(text);
  std::size_t end = max_bytes;  // never between the bytes of one character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t k) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(text[k]));
    };
    const std::uint32_t lead = at(i);
    const std::size_t extra = lead < 0x80       ? 0
                              : lead >> 5 == 6  ? 1
                              : lead >> 4 == 14 ? 2
                              : lead >> 3 == 30 ? 3
                                                : 9;
    if (extra == 9 || text.size() - i <= extra) return false;
    std::uint32_t code = extra == 0 ? lead : lead & (0x3Fu >> extra);
    for (std::size_t k = 1; k <= extra; ++k) {
      if (at(i + k) >> 6 != 2) return false;
      code = code << 6 | (at(i + k) & 0x3Fu);
    }
    constexpr std::uint32_t smallest[4] = {0, 0x80, 0x800, 0x10000};
    if (code < smallest[extra] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += extra + 1;
  }
  return true;
}

std::string printable(std::string_view name) {
  constexpr std::size_t longest = 120;
  std::string result;
  for (char c : name.substr(0, longest)) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = u >= 0x20 && u != 0x7F && (u < 0x80 || is_utf8(name));
    if (plain) {
      result += c;
    } else {
      constexpr char hex[] = "0123456789abcdef";
      result += "\\x";
      result += hex[u >> 4];
      result += hex[u & 15u];
    }
  }
  return name.size() > longest ? result + "..." : result;
}

std::string MetadataValue::describe() const {
  if (is_array()) return "array of " + std::string(to_string(element_)) + " [" + std::to_string(size_) + "]";
  if (type_ == MetadataType::string) return "string";
  return std::string(to_string(type_)) + " " + scalar_text(type_, raw_.data());
}

std::string MetadataValue::to_text(std::size_t max_elements, std::size_t max_bytes) const {
  if (type_ == MetadataType::string) return cut(*as<std::string_view>(), max_bytes);
  if (!is_array()) return scalar_text(type_, raw_.data());
  std::string text = "[";
  const std::size_t shown = std::min(size_, max_elements);
  const auto strings = as<MetadataStrings>();
  const std::size_t step = metadata_type_bytes(element_);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += strings ? "\"" + cut((*strings)[i], max_bytes) + "\""
                    : scalar_text(element_, element_data() + i * step);
  }
  if (shown < size_) text += std::string(shown > 0 ? ", " : "") + "... " + std::to_string(size_) + " in all";
  return text + "]";
}

const MetadataValue* Metadata::find(std::string_view key) const noexcept {
  const auto name_of = [&](std::uint32_t i) { return entries_[i].key; };
  const std::size_t at = find_by_name(by_key_, key, name_of);
  return at < by_key_.size() ? &entries_[by_key_[at]].value : nullptr;
}

void Metadata::fail(std::string_view key, const std::string& expected, const MetadataValue* found) const {
  const std::string place = source_.empty() ? std::string() : source_ + ": ";
  throw Error(Errc::malformed, place + "key '" + printable(key) + "': expected " + expected + ", found " +
                                   (found ? found->describe() : std::string("nothing: the key is missing")));
}

// --- parser ----------------------------------------------------------------------------------------------

Metadata MetadataParser::parse(std::uint64_t count, std::string source,
                               std::shared_ptr<const std::vector<std::byte>> owned) {
  Metadata result;
  result.source_ = std::move(source);
  result.owned_ = std::move(owned);
  // No reserve from `count`: entries grow with the bytes that are really there.
  for (std::uint64_t i = 0; i < count; ++i) result.entries_.push_back(entry(result));
  result.by_key_ = index_by_name(
      result.entries_.size(), [&](std::uint32_t i) { return result.entries_[i].key; }, "metadata key");
  return result;
}

MetadataEntry MetadataParser::entry(Metadata& to) {
  const std::uint64_t start = cursor_.position();
  const std::string_view key = cursor_.string(limits_.key_bytes, "a metadata key");
  if (key.empty())
    throw Error(Errc::malformed, "metadata key at byte " + std::to_string(start) + " is empty");
  if (!is_utf8(key))
    throw Error(Errc::malformed,
                "metadata key '" + printable(key) + "' at byte " + std::to_string(start) + " is not UTF-8");
  const std::string what = "value of key '" + printable(key) + "'";
  return {key, value(value_type(what), to, what)};
}

MetadataType MetadataParser::value_type(const std::string& what) {
  const std::uint64_t start = cursor_.position();
  const auto number = cursor_.number<std::uint32_t>(what);
  if (number > static_cast<std::uint32_t>(MetadataType::f64))
    throw Error(Errc::malformed, what + " at byte " + std::to_string(start) + " has the unknown type " +
                                     std::to_string(number) + " (0 to 12 exist)");
  return static_cast<MetadataType>(number);
}

namespace {
void require_bool(const std::byte* p, std::uint64_t position, const std::string& what) {
  if (*p > std::byte{1})
    throw Error(Errc::malformed, what + ": the bool at byte " + std::to_string(position) + " is " +
                                     std::to_string(std::to_integer<int>(*p)) + ", neither 0 nor 1");
}
}  // namespace

MetadataValue MetadataParser::value(MetadataType type, Metadata& to, const std::string& what) {
  if (type == MetadataType::array) return array(to, what);
  const std::uint64_t start = cursor_.position();
  if (type == MetadataType::string) {
    const std::byte* first = cursor_.here();
    const std::string_view text = cursor_.string(limits_.string_bytes, what);
    return {type, type, {first, 8 + text.size()}, 1};
  }
  const auto raw = cursor_.take(metadata_type_bytes(type), what);
  if (type == MetadataType::boolean) require_bool(raw.data(), start, what);
  return {type, type, raw, 1};
}

MetadataValue MetadataParser::array(Metadata& to, const std::string& what) {
  const std::uint64_t start = cursor_.position();
  const std::byte* first = cursor_.here();
  const MetadataType element = value_type(what);
  if (element == MetadataType::array)
    throw Error(Errc::unsupported, what + " at byte " + std::to_string(start) + " is an array of arrays");
  const auto count = cursor_.number<std::uint64_t>(what);
  const std::size_t step = metadata_type_bytes(element);
  const std::uint64_t smallest = step == 0 ? 8 : step;  // a string takes at least its length prefix
  if (count > cursor_.remaining() / smallest)
    throw Error(Errc::malformed, what + " at byte " + std::to_string(start) + " claims " +
                                     std::to_string(count) + " elements of " +
                                     std::string(to_string(element)) + ", only " +
                                     std::to_string(cursor_.remaining()) + " bytes remain");
  if (count > limits_.array_elements)
    throw Error(Errc::out_of_memory, what + " has " + std::to_string(count) +
                                         " elements, over the limit of " +
                                         std::to_string(limits_.array_elements));
  const auto size = static_cast<std::size_t>(count);
  const std::uint64_t* offsets = nullptr;
  if (element == MetadataType::string) {
    auto index = std::make_unique_for_overwrite<std::uint64_t[]>(size);
    const std::uint64_t base = cursor_.position();
    for (std::size_t i = 0; i < size; ++i) {
      index[i] = cursor_.position() - base;
      cursor_.string(limits_.string_bytes, what);
    }
    offsets = index.get();
    to.string_offsets_.push_back(std::move(index));
  } else {
    const std::uint64_t base = cursor_.position();
    const auto elements = cursor_.take(count * step, what);  // bounded by the check above
    if (element == MetadataType::boolean)
      for (std::size_t i = 0; i < size; ++i) require_bool(elements.data() + i, base + i, what);
  }
  return {MetadataType::array,
          element,
          {first, static_cast<std::size_t>(cursor_.position() - start)},
          size,
          offsets};
}

}  // namespace nibble
