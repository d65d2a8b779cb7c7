// SPDX-License-Identifier: MIT
// AtomicFile: a file that appears whole or not at all. It is written under a temporary name in the target's
// directory; commit() makes it durable and renames it over the target. Whatever goes wrong before (a full
// disk, an exception, cancellation), the temporary file is removed and the old target is untouched. A target
// that somebody has mapped, us included, may be replaced: the mapping keeps the old bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/io/byte_sink.hpp"

namespace nibble {

/// The system calls AtomicFile makes, replaceable so that a host (or a test) can stand between. As in the
/// system: -1 means failure with the reason in errno.
class NIBBLE_API FileOps {
 public:
  virtual ~FileOps();
  /// Creates a new file for writing; fails with EEXIST when the name is taken.
  virtual int create(const char* path, unsigned mode);
  /// May write fewer bytes than asked.
  virtual std::ptrdiff_t write(int file, const std::byte* data, std::size_t size);
  virtual int sync(int file);
  virtual int close(int file);
  virtual int rename(const char* from, const char* to);
  virtual int remove(const char* path);
  virtual int sync_directory(const char* path);

  /// The operating system's.
  static FileOps& system() noexcept;
};

/// Not thread-safe; one writer per object.
class NIBBLE_API AtomicFile final : public ByteSink {
 public:
  /// Creates the temporary file. Throws Error{io} when the directory refuses it or the target is not a file.
  /// A symbolic link as target is itself replaced, not what it points to.
  explicit AtomicFile(std::filesystem::path target, FileOps& ops = FileOps::system());
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary file unless commit() succeeded.
  ~AtomicFile() override;

  /// Appends. Throws Error{io} naming the target, the byte reached and the system's reason; after that only
  /// discard() and the destructor make sense.
  void write(std::span<const std::byte> bytes) override;
  /// Bytes appended so far.
  std::uint64_t size() const noexcept { return size_; }

  /// Flushes to the disk and takes the target's place. Throws Error{io}.
  void commit();
  /// Gives up: removes the temporary file.
  void discard() noexcept;

  const std::filesystem::path& target() const noexcept { return target_; }
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

 private:
  void create();
  void flush();
  void write_through(std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* what, int code);

  FileOps& ops_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  int file_ = -1;
  bool exists_ = false;  // the temporary file
  bool failed_ = false;
};

}  // namespace nibble
