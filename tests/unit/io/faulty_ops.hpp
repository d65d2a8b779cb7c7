// SPDX-License-Identifier: MIT
// The operating system's file calls, failing on demand: the nth call, a full disk, short and interrupted
// writes.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <string>

#include "nibble/io/atomic_file.hpp"

namespace io_test {

class FaultyOps final : public nibble::FileOps {
 public:
  FaultyOps() = default;
  /// Call number `nth` (from 0; close counts, remove does not) fails with `code`.
  FaultyOps(int nth, int code) : countdown_(nth), code_(code) {}

  std::size_t disk_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t largest_write = std::numeric_limits<std::size_t>::max();
  int interrupt_every = 0;
  int interruptions = 0;
  int directory_errno = 0;
  int taken_names = 0;

  /// Every call so far, with repeated ones once: "create write sync ".
  const std::string& calls() const { return log_; }
  const std::string& failed_call() const { return failed_call_; }
  int open_files() const { return open_files_; }

  int create(const char* path, unsigned mode) override {
    note("create");
    if (taken_names > 0) {
      --taken_names;
      errno = EEXIST;
      return -1;
    }
    if (fails("create")) return -1;
    const int file = FileOps::create(path, mode);
    if (file >= 0) ++open_files_;
    return file;
  }
  std::ptrdiff_t write(int file, const std::byte* data, std::size_t size) override {
    note("write");
    if (interrupt_every > 0 && ++calls_ % interrupt_every == 0) {
      ++interruptions;
      errno = EINTR;
      return -1;
    }
    if (fails("write")) return -1;
    if (largest_write == 0) return 0;
    const std::size_t n = std::min({size, largest_write, disk_bytes});
    if (n == 0 && size > 0) {
      errno = ENOSPC;
      return -1;
    }
    const std::ptrdiff_t done = FileOps::write(file, data, n);
    if (done > 0) disk_bytes -= static_cast<std::size_t>(done);
    return done;
  }
  int sync(int file) override {
    note("sync");
    return fails("sync") ? -1 : FileOps::sync(file);
  }
  int close(int file) override {
    note("close");
    --open_files_;
    const int result = FileOps::close(file);  // a failing close closes all the same
    return fails("close") ? -1 : result;
  }
  int rename(const char* from, const char* to) override {
    note("rename");
    return fails("rename") ? -1 : FileOps::rename(from, to);
  }
  int remove(const char* path) override {
    note("remove");
    return FileOps::remove(path);
  }
  int sync_directory(const char* path) override {
    note("sync_directory");
    if (directory_errno != 0) {
      errno = directory_errno;
      return -1;
    }
    return fails("sync_directory") ? -1 : FileOps::sync_directory(path);
  }

 private:
  void note(const std::string& call) {
    if (!log_.ends_with(" " + call + " ") && log_ != call + " ") log_ += call + " ";
  }
  bool fails(const char* call) {
    if (countdown_ < 0 || countdown_-- > 0) return false;
    failed_call_ = call;
    errno = code_;
    return true;
  }
  int countdown_ = -1;
  int code_ = EIO;
  int calls_ = 0;
  int open_files_ = 0;
  std::string failed_call_;
  std::string log_;
};

}  // namespace io_test
