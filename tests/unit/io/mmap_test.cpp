// SPDX-License-Identifier: MIT
// MappedFile: the same bytes by every road, and the system's refusals as errors.
#include "nibble/io/mmap.hpp"

#include <sys/stat.h>

#include "io_support.hpp"

using namespace io_test;
using nibble::Errc;
using nibble::FileMode;
using nibble::MappedFile;

TEST_CASE("mapped and read files hold the same bytes", "[mmap]") {
  const Bytes expected = read_file(golden("types.gguf"));
  for (const FileMode mode : {FileMode::map, FileMode::read}) {
    const MappedFile file = MappedFile::open(golden("types.gguf"), mode);
    CHECK(file.mapped() == (mode == FileMode::map));
    CHECK(file.name() == golden("types.gguf").string());
    CHECK(Bytes(file.bytes().begin(), file.bytes().end()) == expected);
    CHECK(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % 64 == 0);
  }
}

TEST_CASE("an empty file is an empty span", "[mmap]") {
  const TemporaryDirectory dir;
  write_file(dir / "empty", {});
  for (const FileMode mode : {FileMode::map, FileMode::read})
    CHECK(MappedFile::open(dir / "empty", mode).size() == 0);
}

TEST_CASE("what cannot be opened is an io error with path and reason", "[mmap]") {
  const TemporaryDirectory dir;
  for (const FileMode mode : {FileMode::map, FileMode::read}) {
    const auto missing = MappedFile::try_open(dir / "missing.gguf", mode);
    REQUIRE(!missing);
    require_error(missing.error(), Errc::io, {(dir / "missing.gguf").string(), "No such file"});
    const auto folder = MappedFile::try_open(dir / "", mode);
    REQUIRE(!folder);
    require_error(folder.error(), Errc::io, {"is a directory"});
    if (!std::filesystem::exists(dir / "fifo")) REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
    const auto fifo = MappedFile::try_open(dir / "fifo", mode);  // must not wait for a writer
    REQUIRE(!fifo);
    require_error(fifo.error(), Errc::io, {"not a regular file"});
  }
}

TEST_CASE("a file read into memory does not change with the file", "[mmap]") {
  const TemporaryDirectory dir;
  const Bytes bytes(10'000, std::byte{7});
  write_file(dir / "file", bytes);
  const MappedFile file = MappedFile::open(dir / "file", FileMode::read);
  write_file(dir / "file", {});  // shrinks to nothing: a mapping would fault now
  CHECK(Bytes(file.bytes().begin(), file.bytes().end()) == bytes);
}

TEST_CASE("released and prefetched pages read as before", "[mmap]") {
  const TemporaryDirectory dir;
  Bytes bytes(100'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  write_file(dir / "file", bytes);
  const MappedFile file = MappedFile::open(dir / "file");
  for (const auto& [at, n] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 100'000}, {1, 5000}, {99'999, 1}, {50, 0}}) {
    file.release(file.bytes().subspan(at, n));
    file.prefetch(file.bytes().subspan(at, n));
    CHECK(std::equal(bytes.begin(), bytes.end(), file.bytes().begin()));
  }
  file.release(std::span<const std::byte>(bytes));  // not ours: nothing happens
  CHECK(bytes[12'345] == static_cast<std::byte>(12'345u * 7u % 256u));
}

TEST_CASE("moved files keep their bytes, borrowed ones their name", "[mmap]") {
  MappedFile a = MappedFile::open(golden("types.gguf"));
  const auto* data = a.bytes().data();
  MappedFile b = std::move(a);
  CHECK(b.bytes().data() == data);
  MappedFile c;
  c = std::move(b);
  CHECK(c.bytes().data() == data);
  const Bytes lent(10);
  c = MappedFile::borrow(lent, "lent");
  CHECK(c.name() == "lent");
  CHECK(!c.mapped());
}
