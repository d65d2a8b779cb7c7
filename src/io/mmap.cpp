// SPDX-License-Identifier: MIT
// MappedFile on POSIX: fstat before mmap, EINTR and short reads handled, the descriptor closed at once.
#include "nibble/io/mmap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <system_error>

#include "nibble/core/memory.hpp"

namespace nibble {
namespace {

[[noreturn]] void fail(const std::string& name, const char* what, int code) {
  throw Error(Errc::io, name + ": " + what + ": " + std::generic_category().message(code));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& name)
      : fd_(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail(name, "cannot open", errno);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

std::size_t checked_size(const Descriptor& file, const std::string& name) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail(name, "cannot get the size", errno);
  if (S_ISDIR(info.st_mode)) throw Error(Errc::io, name + ": is a directory, a file is needed");
  if (!S_ISREG(info.st_mode)) throw Error(Errc::io, name + ": is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()))
    throw Error(Errc::out_of_memory, name + ": " + std::to_string(size) + " bytes exceed the address space");
  return static_cast<std::size_t>(size);
}

void free_aligned(const std::byte* p) noexcept {
  ::operator delete (const_cast<std::byte*>(p), std::align_val_t{memory_alignment});
}

void read_all(const Descriptor& file, std::byte* to, std::size_t size, const std::string& name) {
  std::size_t done = 0;
  while (done < size) {
    const std::size_t part = std::min(size - done, std::size_t{1} << 30);
    const ssize_t n = ::read(file.get(), to + done, part);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(name, "cannot read", errno);
    throw Error(Errc::io, name + ": ended at byte " + std::to_string(done) + " of " + std::to_string(size) +
                              " while being read (did it shrink?)");
  }
}

}  // namespace

MappedFile::~MappedFile() {
  if (kind_ == Kind::mapped) ::munmap(const_cast<std::byte*>(data_), size_);
  if (kind_ == Kind::owned) free_aligned(data_);
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(kind_, other.kind_);
  std::swap(name_, other.name_);
}

MappedFile MappedFile::open(const std::filesystem::path& path, FileMode mode) {
  MappedFile result;
  result.name_ = path.string();
  const Descriptor file(result.name_);
  const std::size_t size = checked_size(file, result.name_);
  if (size == 0) return result;  // mmap refuses an empty range
  if (mode == FileMode::map) {
    void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (p == MAP_FAILED) fail(result.name_, "cannot map", errno);
    result.data_ = static_cast<const std::byte*>(p);
    result.kind_ = Kind::mapped;
  } else {
    auto* p = static_cast<std::byte*>(::operator new (size, std::align_val_t{memory_alignment}));
    std::unique_ptr<std::byte, void (*)(const std::byte*) noexcept> guard(p, &free_aligned);
    read_all(file, p, size, result.name_);
    result.data_ = guard.release();
    result.kind_ = Kind::owned;
  }
  result.size_ = size;
  return result;
}

Result<MappedFile> MappedFile::try_open(const std::filesystem::path& path, FileMode mode) {
  return try_invoke([&] { return open(path, mode); });
}

MappedFile MappedFile::borrow(std::span<const std::byte> bytes, std::string name) {
  MappedFile result;
  result.data_ = bytes.data();
  result.size_ = bytes.size();
  result.name_ = std::move(name);
  return result;
}

namespace {

// madvise wants whole pages: outward for a prefetch, inward for a release, so that neighbours stay.
void advise(std::span<const std::byte> part, bool outward, int advice) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  auto end = begin + part.size();
  if (outward) {
    begin = begin / page * page;
  } else {
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
  }
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// As numbers: pointers into different objects do not compare.
bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const auto from = reinterpret_cast<std::uintptr_t>(whole.data());
  return !part.empty() && begin >= from && begin - from <= whole.size() &&
         part.size() <= whole.size() - (begin - from);
}

}  // namespace

void MappedFile::prefetch(std::span<const std::byte> part) const noexcept {
  if (mapped() && inside(part, bytes())) advise(part, true, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  if (mapped() && inside(part, bytes())) advise(part, false, MADV_DONTNEED);
}

}  // namespace nibble
