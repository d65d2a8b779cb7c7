// SPDX-License-Identifier: MIT
// AtomicFile on POSIX: exclusive create, write with EINTR and short writes handled, fsync, rename, fsync of
// the directory. Without the first fsync a crash may leave an empty file under the final name; without the
// second, the old one.
#include "nibble/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "nibble/core/error.hpp"

namespace nibble {

ByteSink::~ByteSink() = default;
FileOps::~FileOps() = default;

int FileOps::create(const char* path, unsigned mode) {
  return ::open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, static_cast<mode_t>(mode));
}
std::ptrdiff_t FileOps::write(int file, const std::byte* data, std::size_t size) {
  return ::write(file, data, size);
}
int FileOps::sync(int file) { return ::fsync(file); }
int FileOps::close(int file) { return ::close(file); }
int FileOps::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileOps::remove(const char* path) { return ::unlink(path); }

int FileOps::sync_directory(const char* path) {
  const int directory = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -1;
  const int result = ::fsync(directory);
  const int reason = errno;
  ::close(directory);
  errno = reason;
  return result;
}

FileOps& FileOps::system() noexcept {
  static FileOps ops;  // no state
  return ops;
}

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;
constexpr std::size_t largest_write = std::size_t{1} << 30;

std::filesystem::path directory_of(const std::filesystem::path& target) {
  const auto parent = target.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return ".nibble-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
}

template <class Call>
auto retry_interrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target, FileOps& ops) : ops_(ops), target_(std::move(target)) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(target_, ignored);
  const bool replaceable = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
                           std::filesystem::is_symlink(status);
  if (!target_.has_filename() || !replaceable)
    throw Error(Errc::io, target_.string() + ": cannot be written: not a regular file");
  buffer_.reserve(buffer_bytes);
  create();
}

void AtomicFile::create() {
  constexpr int attempts = 100;  // a name may be taken by what an earlier crash left behind
  unsigned mode = 0666;          // the process's umask applies
  struct stat old {};
  if (::stat(target_.c_str(), &old) == 0) mode = old.st_mode & 0777u;
  for (int i = 0; i < attempts; ++i) {
    temporary_ = directory_of(target_) / temporary_name();
    file_ = retry_interrupted([&] { return ops_.create(temporary_.c_str(), mode); });
    if (file_ >= 0) {
      exists_ = true;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("cannot create a temporary file beside it", errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (file_ >= 0) ops_.close(std::exchange(file_, -1));
  if (std::exchange(exists_, false)) ops_.remove(temporary_.c_str());
  failed_ = true;
}

void AtomicFile::fail(const char* what, int code) {
  discard();
  throw Error(Errc::io, target_.string() + ": " + what + ": " + std::generic_category().message(code));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (failed_ || file_ < 0) throw Error(Errc::io, target_.string() + ": is closed for writing");
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) {
    write_through(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  size_ += bytes.size();
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), largest_write);
    const std::ptrdiff_t n = retry_interrupted([&] { return ops_.write(file_, bytes.data(), part); });
    if (n <= 0) {
      const int code = n < 0 ? errno : ENOSPC;
      fail(("cannot write after byte " + std::to_string(size_)).c_str(), code);
    }
    bytes = bytes.subspan(std::min(static_cast<std::size_t>(n), part));
  }
}

void AtomicFile::commit() {
  if (failed_ || file_ < 0) throw Error(Errc::io, target_.string() + ": is closed for writing");
  flush();
  if (retry_interrupted([&] { return ops_.sync(file_); }) != 0) fail("cannot flush to the disk", errno);
  // No retry: after EINTR the descriptor is gone on Linux. The data is on the disk already.
  if (ops_.close(std::exchange(file_, -1)) != 0 && errno != EINTR) fail("cannot close", errno);
  if (ops_.rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot take its place", errno);
  exists_ = false;
  if (ops_.sync_directory(directory_of(target_).c_str()) == 0) return;
  const bool not_offered = errno == EINVAL || errno == ENOTSUP;  // some file systems cannot, and need not
  if (!not_offered) fail("was written, but its directory could not be flushed to the disk", errno);
}

}  // namespace nibble
