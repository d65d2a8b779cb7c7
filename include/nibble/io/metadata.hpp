// SPDX-License-Identifier: MIT
// Typed key-value metadata as GGUF stores it, read without copying: a value is a view of its bytes in the
// file, an array a view of its elements, and a vocabulary of 262,144 strings costs one index of offsets.
//
// Integers convert to any integer type that holds the value; everything else must match. A missing key, a
// wrong type and a number out of range are errors naming the source, the key, what was asked and what is
// there.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/core/export.hpp"
#include "nibble/io/gguf_types.hpp"

namespace nibble {

static_assert(std::endian::native == std::endian::little,
              "nibble reads and writes little-endian files in place");

namespace detail {

/// Reads one T from bytes of any alignment.
template <class T>
T load(const std::byte* p) noexcept {
  if constexpr (std::same_as<T, bool>) {
    return *p != std::byte{0};
  } else {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
}

/// Input iterator over anything with operator[](size_t): the elements are made on the fly.
template <class Range>
class IndexIterator {
 public:
  using value_type = typename Range::value_type;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;
  using reference = value_type;
  using pointer = void;
  IndexIterator() = default;
  IndexIterator(const Range& range, std::size_t at) : range_(range), at_(at) {}
  value_type operator*() const noexcept { return range_[at_]; }
  IndexIterator& operator++() noexcept {
    ++at_;
    return *this;
  }
  IndexIterator operator++(int) noexcept {
    IndexIterator old = *this;
    ++at_;
    return old;
  }
  bool operator==(const IndexIterator& other) const noexcept { return at_ == other.at_; }

 private:
  Range range_{};
  std::size_t at_ = 0;
};

}  // namespace detail

template <class T>
concept MetadataNumber = std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>);
template <class T>
concept MetadataScalar = MetadataNumber<T> || std::same_as<T, bool>;

/// The file's type for a C++ scalar: by size and signedness.
template <MetadataScalar T>
constexpr MetadataType metadata_type_of() noexcept {
  using enum MetadataType;
  if constexpr (std::same_as<T, bool>) return boolean;
  else if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? f32 : f64;
  else if constexpr (sizeof(T) == 1) return std::signed_integral<T> ? i8 : u8;
  else if constexpr (sizeof(T) == 2) return std::signed_integral<T> ? i16 : u16;
  else if constexpr (sizeof(T) == 4) return std::signed_integral<T> ? i32 : u32;
  else return std::signed_integral<T> ? i64 : u64;
}

/// Array of numbers or booleans, in place; elements may be unaligned, hence by value.
template <MetadataScalar T>
class MetadataArray {
 public:
  using value_type = T;
  MetadataArray() = default;
  MetadataArray(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// i < size()
  T operator[](std::size_t i) const noexcept { return detail::load<T>(data_ + i * sizeof(T)); }
  auto begin() const noexcept { return detail::IndexIterator<MetadataArray>(*this, 0); }
  auto end() const noexcept { return detail::IndexIterator<MetadataArray>(*this, size_); }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Array of strings, in place, with random access. The bytes are the file's: not necessarily UTF-8.
class MetadataStrings {
 public:
  using value_type = std::string_view;
  MetadataStrings() = default;
  MetadataStrings(const std::byte* data, const std::uint64_t* offsets, std::size_t size)
      : data_(data), offsets_(offsets), size_(size) {}
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// i < size(); valid as long as the file object lives.
  std::string_view operator[](std::size_t i) const noexcept {
    const std::byte* p = data_ + offsets_[i];
    return {reinterpret_cast<const char*>(p + 8), static_cast<std::size_t>(detail::load<std::uint64_t>(p))};
  }
  auto begin() const noexcept { return detail::IndexIterator<MetadataStrings>(*this, 0); }
  auto end() const noexcept { return detail::IndexIterator<MetadataStrings>(*this, size_); }

 private:
  const std::byte* data_ = nullptr;
  const std::uint64_t* offsets_ = nullptr;  // of each length prefix, from data_
  std::size_t size_ = 0;
};

namespace detail {
template <class T>
struct MetadataAsArray : std::false_type {};
template <class T>
struct MetadataAsArray<MetadataArray<T>> : std::true_type {};
template <class T>
struct MetadataAsVector : std::false_type {};
template <class T>
struct MetadataAsVector<std::vector<T>> : std::true_type {};
}  // namespace detail

/// What Metadata::get can return: bool, integers, float, double, std::string_view, std::string,
/// MetadataStrings, MetadataArray<exact element type>, or std::vector of a converted element type.
template <class T>
concept MetadataReadable = MetadataScalar<T> || std::same_as<T, std::string_view> ||
    std::same_as<T, std::string> || std::same_as<T, MetadataStrings> || detail::MetadataAsArray<T>::value ||
    detail::MetadataAsVector<T>::value;

/// A view of one value. Valid as long as the file (or builder-made Metadata) it came from.
class NIBBLE_API MetadataValue {
 public:
  MetadataValue() = default;
  MetadataValue(MetadataType type, MetadataType element, std::span<const std::byte> raw, std::size_t size,
                const std::uint64_t* offsets = nullptr)
      : type_(type), element_(element), raw_(raw), size_(size), offsets_(offsets) {}

  MetadataType type() const noexcept { return type_; }
  bool is_array() const noexcept { return type_ == MetadataType::array; }
  /// Type of an array's elements; the value's own type otherwise.
  MetadataType element_type() const noexcept { return element_; }
  /// Elements of an array, 1 otherwise.
  std::size_t size() const noexcept { return size_; }
  /// The value as the file holds it, behind its type number: what a copy needs.
  std::span<const std::byte> raw() const noexcept { return raw_; }

  /// The value as T; empty when the type differs or the number does not fit.
  template <MetadataReadable T>
  std::optional<T> as() const;

  /// "u32 30", "string", "array of f32 [262144]": for messages and listings.
  std::string describe() const;
  /// The value in readable form: numbers, true/false, strings as they are (cut to `max_bytes`, 0 = whole),
  /// arrays as "[a, b, ...]" with at most `max_elements` elements.
  std::string to_text(std::size_t max_elements = 8, std::size_t max_bytes = 80) const;

 private:
  template <MetadataScalar T>
  static std::optional<T> convert(MetadataType type, const std::byte* p);
  const std::byte* element_data() const noexcept { return raw_.data() + (is_array() ? 12 : 0); }

  MetadataType type_ = MetadataType::u8;
  MetadataType element_ = MetadataType::u8;
  std::span<const std::byte> raw_;
  std::size_t size_ = 0;
  const std::uint64_t* offsets_ = nullptr;
};

struct MetadataEntry {
  std::string_view key;
  MetadataValue value;
};

/// All metadata of a file, in file order, with lookup by key. Move-only; moving keeps views valid.
class NIBBLE_API Metadata {
 public:
  Metadata() = default;
  Metadata(Metadata&&) = default;
  Metadata& operator=(Metadata&&) = default;

  std::span<const MetadataEntry> entries() const noexcept { return entries_; }
  std::size_t size() const noexcept { return entries_.size(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }
  /// What messages call this metadata: the file's path.
  const std::string& source() const noexcept { return source_; }

  /// The value of a key, null when absent.
  const MetadataValue* find(std::string_view key) const noexcept;

  /// The value of a key as T. Throws Error{malformed} naming source, key, expected and found type.
  template <MetadataReadable T>
  T get(std::string_view key) const {
    const MetadataValue* value = find(key);
    std::optional<T> result;
    if (value) result = value->as<T>();
    if (!result) fail(key, expected<T>(), value);
    return *std::move(result);
  }

  /// The same with a value for an absent key; a present key of a wrong type is still an error.
  template <MetadataReadable T>
  T get_or(std::string_view key, T fallback) const {
    return find(key) ? get<T>(key) : std::move(fallback);
  }

  template <MetadataReadable T>
  std::optional<T> get_optional(std::string_view key) const {
    return find(key) ? std::optional<T>(get<T>(key)) : std::nullopt;
  }

 private:
  friend class MetadataParser;
  template <class T>
  static std::string expected();
  [[noreturn]] void fail(std::string_view key, const std::string& expected, const MetadataValue* found) const;

  std::vector<MetadataEntry> entries_;
  std::vector<std::uint32_t> by_key_;  // sorted: lookups and the duplicate check have no bad case
  std::vector<std::unique_ptr<std::uint64_t[]>> string_offsets_;
  std::shared_ptr<const std::vector<std::byte>> owned_;  // the bytes, when no file holds them
  std::string source_;
};

// ---------------------------------------------------------------------------------------------------------

template <MetadataScalar T>
std::optional<T> MetadataValue::convert(MetadataType type, const std::byte* p) {
  const auto integer = [](auto v) -> std::optional<T> {
    if constexpr (std::integral<T> && !std::same_as<T, bool>)
      return std::in_range<T>(v) ? std::optional<T>(static_cast<T>(v)) : std::nullopt;
    else return std::nullopt;
  };
  const auto real = [](auto v) -> std::optional<T> {
    if constexpr (std::floating_point<T>) {
      // float from a double: allowed where it stays finite (or was not finite to begin with)
      const double wide = v;
      const bool finite = wide - wide == 0;
      const bool fits = !finite || (wide <= static_cast<double>(std::numeric_limits<T>::max()) &&
                                    wide >= static_cast<double>(std::numeric_limits<T>::lowest()));
      return fits ? std::optional<T>(static_cast<T>(v)) : std::nullopt;
    } else {
      return std::nullopt;
    }
  };
  switch (type) {
    case MetadataType::u8: return integer(detail::load<std::uint8_t>(p));
    case MetadataType::i8: return integer(detail::load<std::int8_t>(p));
    case MetadataType::u16: return integer(detail::load<std::uint16_t>(p));
    case MetadataType::i16: return integer(detail::load<std::int16_t>(p));
    case MetadataType::u32: return integer(detail::load<std::uint32_t>(p));
    case MetadataType::i32: return integer(detail::load<std::int32_t>(p));
    case MetadataType::u64: return integer(detail::load<std::uint64_t>(p));
    case MetadataType::i64: return integer(detail::load<std::int64_t>(p));
    case MetadataType::f32: return real(detail::load<float>(p));
    case MetadataType::f64: return real(detail::load<double>(p));
    case MetadataType::boolean:
      if constexpr (std::same_as<T, bool>) return detail::load<bool>(p);
      break;
    case MetadataType::string:
    case MetadataType::array: break;
  }
  return std::nullopt;
}

template <MetadataReadable T>
std::optional<T> MetadataValue::as() const {
  if constexpr (MetadataScalar<T>) {
    return convert<T>(type_, raw_.data());
  } else if constexpr (std::same_as<T, std::string_view> || std::same_as<T, std::string>) {
    if (type_ != MetadataType::string) return std::nullopt;
    return T(reinterpret_cast<const char*>(raw_.data() + 8), raw_.size() - 8);
  } else if constexpr (std::same_as<T, MetadataStrings>) {
    if (!is_array() || element_ != MetadataType::string) return std::nullopt;
    return MetadataStrings(element_data(), offsets_, size_);
  } else if constexpr (detail::MetadataAsArray<T>::value) {
    if (!is_array() || element_ != metadata_type_of<typename T::value_type>()) return std::nullopt;
    return T(element_data(), size_);
  } else {
    using U = typename T::value_type;
    if (!is_array()) return std::nullopt;
    T result;
    if constexpr (MetadataScalar<U>) {
      const std::size_t step = metadata_type_bytes(element_);
      if (step == 0) return std::nullopt;
      result.reserve(size_);
      for (std::size_t i = 0; i < size_; ++i) {
        const std::optional<U> v = convert<U>(element_, element_data() + i * step);
        if (!v) return std::nullopt;
        result.push_back(*v);
      }
    } else {
      const auto strings = as<MetadataStrings>();
      if (!strings) return std::nullopt;
      result.reserve(size_);
      for (std::string_view s : *strings) result.emplace_back(s);
    }
    return result;
  }
}

template <class T>
std::string Metadata::expected() {
  if constexpr (MetadataScalar<T>) return std::string(to_string(metadata_type_of<T>()));
  else if constexpr (std::same_as<T, MetadataStrings>) return "array of string";
  else if constexpr (std::same_as<T, std::string_view> || std::same_as<T, std::string>) return "string";
  else return "array of " + expected<typename T::value_type>();
}

}  // namespace nibble
