// SPDX-License-Identifier: MIT
// Reader of GGUF files, versions 2 and 3:
//   "GGUF" | u32 version | i64 tensors | i64 keys | keys | tensor infos | padding | tensor data
// Every number in the file is hostile until checked: nothing is read out of bounds, nothing larger than what
// the file holds is allocated, and a file that breaks the format gives an Error naming the file, the byte
// offset, the key or tensor and the numbers. A GgufFile that exists is valid throughout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/result.hpp"
#include "nibble/io/gguf_types.hpp"
#include "nibble/io/metadata.hpp"
#include "nibble/io/mmap.hpp"

namespace nibble {

/// Upper bounds a file must respect, whatever its size. A caller who trusts a larger file raises them.
struct GgufLimits {
  std::uint64_t keys = 1u << 16;
  std::uint64_t tensors = 1u << 20;
  std::uint64_t key_bytes = 65535;
  std::uint64_t tensor_name_bytes = 1024;
  std::uint64_t string_bytes = 1u << 30;
  std::uint64_t array_elements = 1u << 30;
  std::uint32_t alignment = 1u << 20;
};

struct GgufOpenOptions {
  FileMode mode = FileMode::map;
  GgufLimits limits{};
};

/// One tensor of the file. `ne` is in file order: ne[0] is the contiguous dimension (cols), ne[1] the rows.
struct GgufTensor {
  std::string_view name;
  std::array<std::int64_t, 4> ne{1, 1, 1, 1};
  int rank = 0;                        ///< dimensions stored in the file, 0 to 4; the others are 1
  const GgufTypeInfo* type = nullptr;  ///< never null
  std::uint64_t offset = 0;            ///< of the data, from the start of the data section
  std::span<const std::byte> bytes;    ///< aligned to GgufFile::alignment() relative to the file's first byte

  std::int64_t elements() const noexcept { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

/// A parsed file, owning its bytes (or borrowing them, from_memory). Move-only; views into it stay valid
/// across moves. Thread safety: const access from any number of threads.
class NIBBLE_API GgufFile {
 public:
  /// Opens and checks a file. Errors: io (system), malformed (breaks the format), unsupported (version,
  /// byte order, retired or unknown tensor type, part of a split model), out_of_memory (over a limit).
  static GgufFile open(const std::filesystem::path& path, const GgufOpenOptions& options = {});
  static Result<GgufFile> try_open(const std::filesystem::path& path, const GgufOpenOptions& options = {});

  /// The same on bytes that must outlive the result; `name` stands for the path in messages.
  static GgufFile from_memory(std::span<const std::byte> bytes, const GgufLimits& limits = {},
                              std::string name = "memory");
  static Result<GgufFile> try_from_memory(std::span<const std::byte> bytes, const GgufLimits& limits = {},
                                          std::string name = "memory");

  const std::string& name() const noexcept { return file_.name(); }
  std::uint32_t version() const noexcept { return version_; }
  std::uint32_t alignment() const noexcept { return alignment_; }
  /// Where the data section starts, in bytes from the start of the file.
  std::uint64_t data_offset() const noexcept { return data_offset_; }
  std::uint64_t file_bytes() const noexcept { return file_.size(); }
  const MappedFile& file() const noexcept { return file_; }

  const Metadata& metadata() const noexcept { return metadata_; }
  /// Short forms of metadata().find / get / get_or.
  const MetadataValue* find(std::string_view key) const noexcept { return metadata_.find(key); }
  template <MetadataReadable T>
  T get(std::string_view key) const {
    return metadata_.get<T>(key);
  }
  template <MetadataReadable T>
  T get_or(std::string_view key, T fallback) const {
    return metadata_.get_or<T>(key, std::move(fallback));
  }

  /// Tensors in file order.
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }
  /// A tensor by name, null when absent.
  const GgufTensor* find_tensor(std::string_view name) const noexcept;
  /// A tensor by name. Throws Error{malformed} naming file and tensor when absent.
  const GgufTensor& tensor(std::string_view name) const;

  /// Oddities that did not prevent loading, as sentences: trailing bytes, over-long tensor names.
  std::span<const std::string> warnings() const noexcept { return warnings_; }

 private:
  friend class GgufParser;
  GgufFile() = default;
  static GgufFile parse(MappedFile file, const GgufLimits& limits);

  MappedFile file_;
  Metadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // sorted: lookups and the duplicate check have no bad case
  std::vector<std::string> warnings_;
  std::uint32_t version_ = 0;
  std::uint32_t alignment_ = 32;
  std::uint64_t data_offset_ = 0;
};

}  // namespace nibble
