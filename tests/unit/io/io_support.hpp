// SPDX-License-Identifier: MIT
// What the io tests share: expected errors, files as bytes, and GGUF files built byte by byte, so that any
// field can be wrong.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/io/gguf.hpp"
#include "support/catch.hpp"

namespace io_test {

using Bytes = std::vector<std::byte>;

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(NIBBLE_GOLDEN_DIR) / "gguf" / name;
}

/// The error `f` throws; a test failure when it throws none.
template <class F>
nibble::Error error_of(F&& f) {
  try {
    f();
  } catch (const nibble::Error& e) { return e; }
  FAIL("no error was thrown");
  return nibble::Error(nibble::Errc::internal, "");
}

/// Requires an error of this code whose message has every fragment.
inline void require_error(const nibble::Error& error, nibble::Errc code, std::vector<std::string> fragments) {
  INFO("message: " << error.what());
  CHECK(std::string(nibble::to_string(error.code())) == nibble::to_string(code));
  for (const std::string& fragment : fragments) {
    INFO("fragment: " << fragment);
    CHECK(std::string(error.what()).find(fragment) != std::string::npos);
  }
}

inline Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

/// A directory that goes with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nibble-io-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::size_t entries() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(path_)) ++n;
    return n;
  }

 private:
  std::filesystem::path path_;
};

/// FNV-1a of 64 bits, as in tests/golden/make_gguf.py.
inline std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const std::byte b : bytes) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3u;
  return h;
}

/// Appends fields one after another; nothing is checked.
struct Raw {
  Bytes bytes;

  /// Not vector::insert: g++ 12 at -O3 warns of null pointers in it.
  Raw& raw(const void* p, std::size_t count) {
    const std::size_t old = bytes.size();
    bytes.resize(old + count);
    if (count > 0) std::memcpy(bytes.data() + old, p, count);
    return *this;
  }
  template <class T>
  Raw& num(T value) {
    return raw(&value, sizeof value);
  }
  Raw& text(std::string_view s) { return raw(s.data(), s.size()); }  // without a length
  Raw& string(std::string_view s) { return num(std::uint64_t{s.size()}).text(s); }
  Raw& key(std::string_view name, std::uint32_t type) { return string(name).num(type); }
  Raw& header(std::int64_t tensors, std::int64_t keys, std::uint32_t version = 3) {
    return text("GGUF").num(version).num(tensors).num(keys);
  }
  Raw& tensor(std::string_view name, std::vector<std::int64_t> ne, std::uint32_t type, std::uint64_t offset) {
    string(name).num(static_cast<std::uint32_t>(ne.size()));
    for (const std::int64_t n : ne) num(n);
    return num(type).num(offset);
  }
  Raw& pad(std::size_t alignment = 32) {
    while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
    return *this;
  }
  Raw& data(std::size_t count, std::byte value = std::byte{0x11}) {
    bytes.resize(bytes.size() + count, value);
    return *this;
  }
};

/// One file with one key 'k' whose type and value are given.
inline Raw file_with_value(std::uint32_t type, const Raw& value) {
  Raw raw;
  raw.header(0, 1).key("k", type);
  return raw.raw(value.bytes.data(), value.bytes.size());
}

inline nibble::Error parse_error(const Raw& raw) {
  // An exact heap copy, so that a sanitizer sees the first byte read beyond the end.
  const Bytes exact(raw.bytes.begin(), raw.bytes.end());
  const auto result = nibble::GgufFile::try_from_memory(exact);
  if (result) FAIL("the file was accepted");
  return result.error();
}

inline void refuse(const Raw& raw, nibble::Errc code, std::vector<std::string> fragments) {
  fragments.push_back("memory: ");  // every message begins with the file
  require_error(parse_error(raw), code, std::move(fragments));
}

}  // namespace io_test
