// SPDX-License-Identifier: MIT
// AtomicFile under faults: every system call fails in turn, writes are short or interrupted. After each, the
// target is either wholly new or as it was, and no temporary file is left.
#include "nibble/io/atomic_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "faulty_ops.hpp"
#include "io_support.hpp"

using namespace io_test;
using nibble::AtomicFile;
using nibble::Errc;

namespace {

Bytes pattern(std::size_t n, unsigned seed) {
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) % 251);
  return bytes;
}

// Small pieces go through the buffer, large ones past it.
void write_in_pieces(AtomicFile& file, const Bytes& bytes) {
  const std::span<const std::byte> all(bytes);
  const std::size_t sizes[] = {1, 1000, 300'000, 0, 7, 262'144};
  std::size_t at = 0;
  for (std::size_t k = 0; at < all.size(); ++k) {
    const std::size_t n = std::min(sizes[k % std::size(sizes)], all.size() - at);
    file.write(all.subspan(at, n));
    at += n;
  }
}

}  // namespace

TEST_CASE("a committed file is whole, an uncommitted one never was", "[atomic]") {
  const TemporaryDirectory dir;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{262'144}, std::size_t{1'000'000}}) {
    const Bytes bytes = pattern(n, 1);
    AtomicFile file(dir / "file");
    write_in_pieces(file, bytes);
    CHECK(file.size() == n);
    CHECK(dir.entries() == (n == 0 ? 1u : 2u));  // the temporary one, and the target of the round before
    file.commit();
    CHECK(dir.entries() == 1);
    CHECK(read_file(dir / "file") == bytes);
  }
  {
    AtomicFile file(dir / "other");
    file.write(pattern(1000, 2));
  }
  CHECK(dir.entries() == 1);
}

TEST_CASE("the data is on the disk before the name, and the name before commit returns", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  {
    AtomicFile file(dir / "file", ops);
    file.write(pattern(300'000, 1));
    file.write(pattern(10, 1));
    file.commit();
  }
  CHECK(ops.calls() == "create write sync close rename sync_directory ");  // and nothing is removed
}

TEST_CASE("the target keeps its bytes and its mapping until the commit, its permissions after", "[atomic]") {
  const TemporaryDirectory dir;
  const Bytes before = pattern(5000, 1);
  const Bytes after = pattern(9000, 2);
  write_file(dir / "file", before);
  REQUIRE(::chmod((dir / "file").c_str(), 0640) == 0);
  const auto mapped = nibble::MappedFile::open(dir / "file");
  AtomicFile file(dir / "file");
  file.write(after);
  CHECK(read_file(dir / "file") == before);
  file.commit();
  CHECK(read_file(dir / "file") == after);
  CHECK(Bytes(mapped.bytes().begin(), mapped.bytes().end()) == before);
  struct stat info {};
  REQUIRE(::stat((dir / "file").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777u) == 0640u);
}

TEST_CASE("every system call failing in turn leaves the old file or the new, never a mixture", "[atomic]") {
  const Bytes before = pattern(100, 1);
  const Bytes after = pattern(900'000, 2);
  for (const bool existing : {true, false}) {
    std::size_t faults = 0;
    for (int nth = 0;; ++nth) {
      const TemporaryDirectory dir;
      if (existing) write_file(dir / "file", before);
      FaultyOps ops(nth, EIO);
      std::optional<nibble::Error> error;
      try {
        AtomicFile file(dir / "file", ops);
        write_in_pieces(file, after);
        file.commit();
      } catch (const nibble::Error& e) { error = e; }
      INFO("fault " << nth << " in " << ops.failed_call());
      CHECK(ops.open_files() == 0);
      if (!error) {
        CHECK(read_file(dir / "file") == after);
        CHECK(dir.entries() == 1);
        if (ops.failed_call().empty()) break;  // the loop has passed the last call
        continue;
      }
      ++faults;
      require_error(*error, Errc::io, {(dir / "file").string(), "Input/output error"});
      const bool renamed = ops.failed_call() == "sync_directory";
      if (renamed) CHECK(read_file(dir / "file") == after);
      else if (existing) CHECK(read_file(dir / "file") == before);
      CHECK(dir.entries() == (existing || renamed ? 1u : 0u));
    }
    CHECK(faults >= 7);  // create, several writes, sync, close, rename, sync_directory
  }
}

TEST_CASE("a full disk names the target and the byte reached", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  ops.disk_bytes = 500'000;
  AtomicFile file(dir / "file", ops);
  const auto error = error_of([&] {
    const Bytes piece = pattern(300'000, 1);
    for (int i = 0; i < 10; ++i) file.write(piece);
  });
  require_error(error, Errc::io, {(dir / "file").string(), "after byte 300000", "No space left"});
  CHECK(dir.entries() == 0);
  require_error(error_of([&] { file.write(pattern(1, 1)); }), Errc::io, {"closed for writing"});
  require_error(error_of([&] { file.commit(); }), Errc::io, {"closed for writing"});
}

TEST_CASE("short and interrupted writes are continued", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  ops.largest_write = 777;
  ops.interrupt_every = 3;
  const Bytes bytes = pattern(400'000, 3);
  AtomicFile file(dir / "file", ops);
  write_in_pieces(file, bytes);
  file.commit();
  CHECK(read_file(dir / "file") == bytes);
  CHECK(ops.interruptions > 100);
}

TEST_CASE("a write that makes no progress is an error, not a hang", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  ops.largest_write = 0;
  AtomicFile file(dir / "file", ops);
  require_error(error_of([&] { file.write(pattern(300'000, 1)); }), Errc::io, {"No space left"});
  CHECK(dir.entries() == 0);
}

TEST_CASE("a file system that cannot flush directories is no failure", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  ops.directory_errno = EINVAL;
  AtomicFile file(dir / "file", ops);
  file.write(pattern(10, 1));
  file.commit();
  CHECK(read_file(dir / "file") == pattern(10, 1));
}

TEST_CASE("targets that cannot be written", "[atomic]") {
  const TemporaryDirectory dir;
  require_error(error_of([&] { AtomicFile file(dir / "missing/file"); }), Errc::io,
                {"missing/file", "No such file"});
  std::filesystem::create_directory(dir / "folder");
  require_error(error_of([&] { AtomicFile file(dir / "folder"); }), Errc::io,
                {"folder", "not a regular file"});
  require_error(error_of([&] { AtomicFile file(""); }), Errc::io, {"not a regular file"});
  require_error(error_of([&] { AtomicFile file("/dev/null"); }), Errc::io, {"/dev/null"});
  CHECK(dir.entries() == 1);
}

TEST_CASE("a link as target is replaced, what it points to is not", "[atomic]") {
  const TemporaryDirectory dir;
  write_file(dir / "pointed", pattern(10, 1));
  std::filesystem::create_symlink(dir / "pointed", dir / "link");
  AtomicFile file(dir / "link");
  file.write(pattern(20, 2));
  file.commit();
  CHECK(read_file(dir / "pointed") == pattern(10, 1));
  CHECK(read_file(dir / "link") == pattern(20, 2));
  CHECK(!std::filesystem::is_symlink(dir / "link"));
}

TEST_CASE("a temporary name left by a crash is stepped over", "[atomic]") {
  const TemporaryDirectory dir;
  FaultyOps ops;
  ops.taken_names = 5;
  AtomicFile file(dir / "file", ops);
  file.write(pattern(10, 1));
  file.commit();
  CHECK(read_file(dir / "file") == pattern(10, 1));
}
