// SPDX-License-Identifier: MIT
// GgufWriter: what the public package wrote comes back byte for byte when read and written again, which is
// the proof that others can read what we write; and no fault on the way leaves a damaged file.
#include "nibble/io/gguf_writer.hpp"

#include <cerrno>
#include <numeric>
#include <optional>

#include "faulty_ops.hpp"
#include "io_support.hpp"
#include "nibble/io/weight_sink.hpp"

using namespace io_test;
using nibble::Errc;
using nibble::GgufFile;
using nibble::GgufWeightSource;
using nibble::GgufWriter;
using nibble::Index;
using nibble::MemorySink;

namespace {

GgufWriter copy_of(const GgufWeightSource& source) {
  GgufWriter writer;
  writer.metadata().copy(source.metadata());
  for (const auto name : source.names()) writer.add_tensor(source.require(name));
  return writer;
}

Bytes written(const GgufWriter& writer) {
  MemorySink sink;
  writer.write(sink);
  CHECK(sink.bytes().size() == writer.file_bytes());
  return sink.take();
}

const std::vector<Index> shape{2, 3};  // [rows, cols]
std::vector<float> six() { return {1, 2, 3, 4, 5, 6}; }

}  // namespace

TEST_CASE("files of the public package are rewritten byte for byte", "[gguf][writer]") {
  for (const char* name : {"types.gguf", "aligned.gguf", "no_tensors.gguf"}) {
    INFO(name);
    const auto source = GgufWeightSource::open(golden(name));
    CHECK(written(copy_of(source)) == read_file(golden(name)));
  }
}

TEST_CASE("a file made here equals the one the public package makes of the same content", "[gguf][writer]") {
  GgufWriter writer;
  auto& m = writer.metadata();
  m.set("general.architecture", "llama");
  m.set("general.alignment", std::uint32_t{128});
  m.set("u8", std::uint8_t{255});
  m.set("i64", std::int64_t{-5});
  m.set("f64", 2.5);
  m.set("bool", false);
  m.set_array("floats", std::vector<float>{1.5f, -2});
  const std::vector<std::string_view> tokens{"", "a", "long token", "🦙"};
  m.set_array("tokens", std::span<const std::string_view>(tokens));
  const auto values = six();
  Bytes blocks(72);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i);
  writer.add_tensor("weight", shape, 0, std::as_bytes(std::span(values)));
  writer.add_tensor("blocks", std::vector<Index>{2, 64}, 2, blocks);
  CHECK(written(writer) == read_file(golden("written.gguf")));
}

TEST_CASE("what is set is what is read", "[gguf][writer]") {
  GgufWriter writer;
  auto& m = writer.metadata();
  m.set("general.architecture", "llama");
  m.set("u8", std::uint8_t{255});
  m.set("i64", std::int64_t{-5});
  m.set("f64", 2.5);
  m.set("bool", false);
  m.set("general.alignment", std::uint32_t{128});
  m.set_array("floats", std::vector<float>{1.5f, -2});
  m.set_array("empty", std::vector<std::int32_t>{});
  const std::vector<std::string> tokens{"", "a", "long token", std::string("\0\xff", 2)};
  m.set_array("tokens", std::span<const std::string>(tokens));
  const auto values = six();
  writer.add_tensor("weight", shape, 0, std::as_bytes(std::span(values)));
  writer.add_tensor("empty", std::vector<Index>{0, 5}, 0, std::span<const std::byte>{});
  writer.add_tensor("scalar", std::vector<Index>{}, 0, std::as_bytes(std::span(values).first(1)));

  const Bytes bytes = written(writer);
  const GgufFile file = GgufFile::from_memory(bytes);
  CHECK(file.warnings().empty());
  CHECK(file.version() == 3);
  CHECK(file.alignment() == 128);
  CHECK(file.get<std::string>("general.architecture") == "llama");
  CHECK(file.get<std::uint8_t>("u8") == 255);
  CHECK(file.get<std::int64_t>("i64") == -5);
  CHECK(file.get<double>("f64") == 2.5);
  CHECK(file.get<bool>("bool") == false);
  CHECK(file.get<std::vector<float>>("floats") == std::vector<float>{1.5f, -2});
  CHECK(file.get<std::vector<std::int32_t>>("empty").empty());
  CHECK(file.get<std::vector<std::string>>("tokens") == tokens);
  std::string order;
  for (const auto& entry : file.metadata()) order += std::string(entry.key) + " ";
  CHECK(order == "general.architecture u8 i64 f64 bool general.alignment floats empty tokens ");

  const auto& weight = file.tensor("weight");
  CHECK(weight.ne == std::array<std::int64_t, 4>{3, 2, 1, 1});  // ne order: cols first
  CHECK(std::memcmp(weight.bytes.data(), values.data(), 24) == 0);
  CHECK(file.tensor("empty").bytes.empty());
  CHECK(file.tensor("scalar").rank == 0);
  CHECK(file.tensor("scalar").bytes.size() == 4);
}

TEST_CASE("setting a key again keeps its place, erasing removes it", "[gguf][writer]") {
  nibble::MetadataBuilder m;
  m.set("a", 1);
  m.set("b", 2);
  m.set("c", 3);
  m.set("a", "text now");
  CHECK(m.erase("b"));
  CHECK(!m.erase("b"));
  m.set("c", 4);
  m.set("d", 5);
  const nibble::Metadata built = m.build();
  REQUIRE(built.size() == 3);
  CHECK(built.entries()[0].key == "a");
  CHECK(built.get<std::string>("a") == "text now");
  CHECK(built.get<int>("c") == 4);
  CHECK(built.entries()[2].key == "d");
  CHECK(m.contains("d"));
  CHECK(!m.contains("b"));
  const nibble::Metadata moved = [&] { return m.build("elsewhere"); }();
  CHECK(moved.get<int>("d") == 5);
  require_error(error_of([&] { moved.get<int>("x"); }), Errc::malformed, {"elsewhere", "'x'"});
  for (const std::string& bad : {std::string(), std::string("\xff"), std::string(65536, 'k')})
    CHECK(error_of([&] { m.set(bad, 1); }).code() == Errc::invalid_argument);
}

TEST_CASE("a tensor that breaks the format is refused when it is added", "[gguf][writer]") {
  const auto values = six();
  const auto bytes = std::as_bytes(std::span(values));
  GgufWriter writer;
  writer.add_tensor("taken", shape, 0, bytes);
  const auto add = [&](const std::string& name, std::vector<Index> dims, std::uint32_t type) {
    return error_of([&] { writer.add_tensor(name, dims, type, [](nibble::ByteSink&) {}); });
  };
  require_error(add("", {1}, 0), Errc::invalid_argument, {"1 to 63 bytes"});
  require_error(add(std::string(64, 'n'), {1}, 0), Errc::invalid_argument, {"1 to 63 bytes"});
  require_error(add("\xff", {1}, 0), Errc::invalid_argument, {"UTF-8"});
  require_error(add("taken", {1}, 0), Errc::invalid_argument, {"'taken'", "in use"});
  require_error(add("t", {1, 1, 1, 1, 1}, 0), Errc::invalid_argument, {"5 dimensions"});
  require_error(add("t", {-1}, 0), Errc::invalid_argument, {"-1"});
  require_error(add("t", {32, 31}, 2), Errc::invalid_argument, {"rows of 31", "Q4_0"});
  require_error(add("t", {Index{1} << 40, Index{1} << 40}, 0), Errc::invalid_argument, {"overflows"});
  require_error(add("t", {1}, 4), Errc::invalid_argument, {"type 4"});
  require_error(error_of([&] { writer.add_tensor("t", shape, 0, bytes.first(20)); }), Errc::invalid_argument,
                {"'t'", "20 bytes", "needs 24"});
  CHECK(writer.tensors().size() == 1);  // nothing half added
  CHECK(GgufFile::from_memory(written(writer)).tensors().size() == 1);
}

TEST_CASE("a bad alignment is refused before anything is written", "[gguf][writer]") {
  for (const std::uint32_t n : {0u, 3u, 1u << 31}) {
    GgufWriter writer;
    writer.metadata().set("general.alignment", n);
    MemorySink sink;
    require_error(error_of([&] { writer.write(sink); }), Errc::invalid_argument,
                  {"general.alignment", std::to_string(n)});
    CHECK(sink.bytes().empty());
  }
  GgufWriter writer;
  writer.metadata().set("general.alignment", std::uint64_t{32});
  MemorySink sink;
  CHECK(error_of([&] { writer.write(sink); }).code() == Errc::invalid_argument);
}

TEST_CASE("producers are called in order, one tensor at a time, and counted", "[gguf][writer]") {
  const TemporaryDirectory dir;
  std::vector<int> calls;
  const auto producing = [&](int number, std::size_t floats) {
    return [&calls, number, floats](nibble::ByteSink& sink) {
      calls.push_back(number);
      for (std::size_t i = 0; i < floats; ++i) {  // in pieces
        const auto value = static_cast<float>(i);
        sink.write(std::as_bytes(std::span(&value, 1)));
      }
    };
  };
  GgufWriter good;
  good.add_tensor("a", shape, 0, producing(0, 6));
  good.add_tensor("b", shape, 0, producing(1, 6));
  good.write(dir / "good.gguf");
  CHECK(calls == std::vector<int>{0, 1});
  const GgufFile file = GgufFile::open(dir / "good.gguf");
  CHECK(nibble::detail::load<float>(file.tensor("b").bytes.data() + 20) == 5.0f);

  for (const std::size_t floats : {std::size_t{5}, std::size_t{7}, std::size_t{0}}) {
    GgufWriter wrong;
    wrong.add_tensor("a", shape, 0, producing(0, 6));
    wrong.add_tensor("b", shape, 0, producing(1, floats));
    const char* how = floats > 6 ? "4 bytes more than its shape needs" : "of 24 bytes were given";
    require_error(error_of([&] { wrong.write(dir / "wrong.gguf"); }), Errc::internal, {"tensor 'b'", how});
  }
  GgufWriter throwing;
  throwing.add_tensor("a", shape, 0,
                      [](nibble::ByteSink&) { throw std::runtime_error("the producer's own"); });
  CHECK_THROWS_WITH(throwing.write(dir / "wrong.gguf"), "the producer's own");
  CHECK(dir.entries() == 1);
}

TEST_CASE("the output may replace the mapped source", "[gguf][writer]") {
  const TemporaryDirectory dir;
  const Bytes original = read_file(golden("types.gguf"));
  write_file(dir / "model.gguf", original);
  const auto source = GgufWeightSource::open(dir / "model.gguf");
  GgufWriter writer = copy_of(source);
  writer.metadata().set("added", "by us");
  writer.write(dir / "model.gguf");
  CHECK(fnv1a(source.require("q4_k.matrix").bytes) == 0x2aac03b0c27305e8u);  // the mapping is the old file
  const auto replaced = GgufWeightSource::open(dir / "model.gguf");
  CHECK(replaced.metadata().get<std::string>("added") == "by us");
  for (const auto name : source.names())
    CHECK(fnv1a(replaced.require(name).bytes) == fnv1a(source.require(name).bytes));
}

TEST_CASE("cancelling stops between pieces and leaves nothing", "[gguf][writer]") {
  const TemporaryDirectory dir;
  const auto values = six();
  for (int when = 0; when <= 3; ++when) {
    std::stop_source stop;
    int produced = 0;
    GgufWriter writer;
    for (int i = 0; i < 3; ++i)
      writer.add_tensor("t" + std::to_string(i), shape, 0, [&](nibble::ByteSink& sink) {
        if (++produced == when) stop.request_stop();
        sink.write(std::as_bytes(std::span(values)));
      });
    if (when == 0) stop.request_stop();
    nibble::GgufWriteOptions options;
    options.stop = stop.get_token();
    require_error(error_of([&] { writer.write(dir / "out.gguf", options); }), Errc::cancelled, {"cancelled"});
    CHECK(produced == when);
    CHECK(dir.entries() == 0);
  }
}

TEST_CASE("progress counts up to the whole", "[gguf][writer]") {
  const auto source = GgufWeightSource::open(golden("types.gguf"));
  std::vector<long long> done;
  long long total = 0;
  std::string names;
  nibble::GgufWriteOptions options;
  options.progress = [&](long long d, long long t, std::string_view name) {
    done.push_back(d);
    total = t;
    names += std::string(name) + " ";
  };
  MemorySink sink;
  copy_of(source).write(sink, options);
  REQUIRE(done.size() == source.names().size());
  CHECK(std::is_sorted(done.begin(), done.end()));
  CHECK(done.back() == total);
  CHECK(names.starts_with("f32.matrix f32.vector "));
}

TEST_CASE("every failing system call leaves the old model or the new one", "[gguf][writer]") {
  const Bytes old = read_file(golden("aligned.gguf"));
  const Bytes expected = read_file(golden("types.gguf"));
  const auto source = GgufWeightSource::open(golden("types.gguf"));
  const GgufWriter writer = copy_of(source);
  int faults = 0;
  for (int nth = 0; nth < 100; ++nth) {
    const TemporaryDirectory dir;
    write_file(dir / "model.gguf", old);
    FaultyOps ops(nth, ENOSPC);
    nibble::GgufWriteOptions options;
    options.files = &ops;
    bool failed = false;
    try {
      writer.write(dir / "model.gguf", options);
    } catch (const nibble::Error& e) {
      failed = true;
      require_error(e, Errc::io, {"model.gguf", "No space left"});
    }
    INFO("fault " << nth << " in " << ops.failed_call());
    CHECK(dir.entries() == 1);
    CHECK(read_file(dir / "model.gguf") ==
          (!failed || ops.failed_call() == "sync_directory" ? expected : old));
    if (ops.failed_call().empty()) break;
    ++faults;
  }
  CHECK(faults >= 5);
}
