// SPDX-License-Identifier: MIT
// MappedFile: the bytes of a file, read-only, by memory mapping or read into memory, or borrowed from a
// buffer the caller owns. Everything that parses a file does so on the span this gives.
//
// The length is checked before mapping. A mapped file that another process *shrinks* later raises SIGBUS on
// access, which no library can turn into an error: use FileMode::read for files that may change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "nibble/core/export.hpp"
#include "nibble/core/result.hpp"

namespace nibble {

enum class FileMode {
  map,  ///< mmap: opens at once, pages come in on first use, and are shared between processes
  read  ///< read into 64-byte aligned memory: immune to later changes of the file
};

/// Movable owner of a file's bytes. Moving keeps the bytes where they are, so spans into them stay valid.
/// Thread safety: const access from any number of threads.
class NIBBLE_API MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    MappedFile moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~MappedFile();

  /// Opens a regular file. Throws Error{io} with the path and the system's reason.
  static MappedFile open(const std::filesystem::path& path, FileMode mode = FileMode::map);
  static Result<MappedFile> try_open(const std::filesystem::path& path, FileMode mode = FileMode::map);

  /// A view of bytes that must outlive this object; `name` stands for the path in messages.
  static MappedFile borrow(std::span<const std::byte> bytes, std::string name = "memory");

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::size_t size() const noexcept { return size_; }
  /// The path it was opened with, or the name given to borrow().
  const std::string& name() const noexcept { return name_; }
  bool mapped() const noexcept { return kind_ == Kind::mapped; }

  /// Hints that `part` (inside bytes()) is needed soon, or not any more. Never fails, may do nothing.
  void prefetch(std::span<const std::byte> part) const noexcept;
  void release(std::span<const std::byte> part) const noexcept;

  void swap(MappedFile& other) noexcept;

 private:
  enum class Kind { borrowed, mapped, owned };
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Kind kind_ = Kind::borrowed;
  std::string name_;
};

}  // namespace nibble
