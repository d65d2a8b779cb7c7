// SPDX-License-Identifier: MIT
// Weight sources and sinks: one interface over files and memory, row-major shapes, and a strict order of
// pieces.
#include "nibble/io/weight_source.hpp"

#include "io_support.hpp"
#include "nibble/io/weight_sink.hpp"

using namespace io_test;
using nibble::Errc;
using nibble::GgufWeightSink;
using nibble::GgufWeightSource;
using nibble::Index;
using nibble::MemoryWeightSink;
using nibble::MemoryWeightSource;

namespace {
std::vector<Index> dims_of(const nibble::StoredTensor& t) { return {t.shape().begin(), t.shape().end()}; }
}  // namespace

TEST_CASE("a GGUF source gives row-major shapes", "[weights]") {
  const auto source = GgufWeightSource::open(golden("types.gguf"));
  const auto matrix = source.require("f32.matrix");
  CHECK(dims_of(matrix) == std::vector<Index>{3, 5});
  CHECK(matrix.rows() == 3);
  CHECK(matrix.cols() == 5);
  CHECK(matrix.gguf_type() == 0);
  CHECK(matrix.bytes.size() == 60);
  const auto rank4 = source.require("f32.rank4");
  CHECK(dims_of(rank4) == std::vector<Index>{2, 3, 4, 5});
  CHECK(rank4.rows() == 24);
  CHECK(rank4.cols() == 5);
  CHECK(rank4.elements() == 120);
  const auto vector = source.require("f32.vector");
  CHECK(vector.rows() == 1);
  CHECK(vector.cols() == 7);
  CHECK(source.require("q4_k.matrix").type->name == "Q4_K");
  CHECK(source.names().size() == source.file().tensors().size());
  CHECK(source.names().front() == "f32.matrix");
  CHECK(!source.find("absent"));
  require_error(error_of([&] { source.require("absent"); }), Errc::malformed,
                {"types.gguf", "'absent'", "missing"});
  CHECK(source.metadata().get<std::string>("general.architecture") == "test");
}

TEST_CASE("a released tensor reads as before", "[weights]") {
  const auto source = GgufWeightSource::open(golden("types.gguf"));
  const auto tensor = source.require("q4_k.matrix");
  const auto hash = fnv1a(tensor.bytes);
  source.release("q4_k.matrix");
  source.release("absent");
  CHECK(fnv1a(tensor.bytes) == hash);
}

TEST_CASE("a memory source lends what it was given", "[weights]") {
  MemoryWeightSource source("mine");
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<Index> dims{2, 3};
  source.add("floats", dims, values);
  const std::vector<Index> blocks{1, 64};
  source.add_owned("blocks", blocks, 2, Bytes(36, std::byte{5}));
  CHECK(source.require("floats").bytes.data() == reinterpret_cast<const std::byte*>(values.data()));
  CHECK(dims_of(source.require("floats")) == dims);
  CHECK(source.require("blocks").bytes[35] == std::byte{5});
  CHECK(source.require("blocks").type->name == "Q4_0");
  CHECK(source.names() == std::vector<std::string_view>{"floats", "blocks"});
  CHECK(source.metadata().size() == 0);
  MemoryWeightSource moved = std::move(source);
  CHECK(moved.require("blocks").bytes[0] == std::byte{5});
  CHECK(moved.require("floats").name == "floats");
  CHECK(moved.names()[1] == "blocks");

  const auto refused = [&](std::vector<Index> d, std::uint32_t type, std::size_t bytes) {
    return error_of([&] { moved.add("t", d, type, Bytes(bytes)); });
  };
  require_error(refused({2, 3}, 0, 20), Errc::invalid_argument, {"mine", "'t'", "20 bytes", "needs 24"});
  require_error(refused({2, 31}, 2, 36), Errc::invalid_argument, {"rows of 31"});
  require_error(refused({2}, 99, 8), Errc::invalid_argument, {"type 99"});
  require_error(refused({1, 1, 1, 1, 1}, 0, 4), Errc::invalid_argument, {"5 dimensions"});
  require_error(refused({Index{1} << 40, Index{1} << 40}, 0, 4), Errc::invalid_argument, {"overflows"});
  require_error(error_of([&] { moved.add("floats", dims, values); }), Errc::invalid_argument,
                {"'floats'", "in use"});
}

TEST_CASE("stored bytes", "[weights]") {
  const auto bytes = [](std::uint32_t type, std::vector<Index> dims) {
    return nibble::stored_bytes(*nibble::find_gguf_type(type), dims);
  };
  CHECK(bytes(0, {}) == 4);
  CHECK(bytes(0, {3, 5}) == 60);
  CHECK(bytes(12, {2, 512}) == 576);
  CHECK(bytes(2, {0, 32}) == 0);
  CHECK(bytes(2, {5, 0}) == 0);
  CHECK_THROWS_AS(bytes(0, {0, Index{1} << 40, Index{1} << 40}), nibble::Error);
}

TEST_CASE("both sinks take a model piece by piece and give the same tensors", "[weights]") {
  const TemporaryDirectory dir;
  const auto source = GgufWeightSource::open(golden("types.gguf"));
  nibble::MetadataBuilder metadata;
  metadata.copy(source.metadata());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{50}, std::size_t{100'000}}) {
    GgufWeightSink file_sink(dir / "out.gguf", metadata);
    MemoryWeightSink memory_sink(metadata);
    for (nibble::WeightSink* sink : std::initializer_list<nibble::WeightSink*>{&file_sink, &memory_sink}) {
      for (const auto name : source.names()) {
        const auto t = source.require(name);
        sink->declare(std::string(name), t.shape(), t.gguf_type());
      }
      for (const auto name : source.names()) {
        const auto all = source.require(name).bytes;
        for (std::size_t i = 0; i < all.size(); i += piece)
          sink->put(name, all.subspan(i, std::min(piece, all.size() - i)));
      }
      sink->finish();
    }
    CHECK(read_file(dir / "out.gguf") == read_file(golden("types.gguf")));
    const MemoryWeightSource memory = memory_sink.take();
    REQUIRE(memory.names() == source.names());
    for (const auto name : source.names()) {
      CHECK(dims_of(memory.require(name)) == dims_of(source.require(name)));
      CHECK(fnv1a(memory.require(name).bytes) == fnv1a(source.require(name).bytes));
    }
    CHECK(memory.metadata().size() == source.metadata().size());
  }
  CHECK(dir.entries() == 1);
}

TEST_CASE("sinks refuse wrong order, wrong counts and unfinished models", "[weights]") {
  const TemporaryDirectory dir;
  const std::vector<Index> two{2};
  const std::vector<Index> none{0};
  const Bytes eight(8);
  const auto check = [&](nibble::WeightSink& sink) {
    sink.declare("nothing", none, 0);
    sink.declare("a", two, 0);
    sink.declare("b", two, 0);
    sink.declare("last", none, 0);
    require_error(error_of([&] { sink.declare("a", two, 0); }), Errc::invalid_argument, {"'a'", "in use"});
    require_error(error_of([&] { sink.put("b", eight); }), Errc::invalid_argument, {"'b'", "'a' is due"});
    sink.put("a", std::span(eight).first(4));
    require_error(error_of([&] { sink.put("a", eight); }), Errc::invalid_argument,
                  {"'a'", "12 bytes", "needs 8"});
    require_error(error_of([&] { sink.finish(); }), Errc::invalid_argument, {"'a'", "4 of 8"});
    sink.put("a", std::span(eight).first(4));
    require_error(error_of([&] { sink.declare("c", two, 0); }), Errc::invalid_argument,
                  {"'c'", "after the first"});
    require_error(error_of([&] { sink.finish(); }), Errc::invalid_argument, {"'b'", "0 of 8"});
    sink.put("b", eight);
    require_error(error_of([&] { sink.put("b", eight); }), Errc::invalid_argument, {"'b'", "after the last"});
    sink.finish();
    require_error(error_of([&] { sink.put("b", eight); }), Errc::invalid_argument, {"after finish"});
    require_error(error_of([&] { sink.finish(); }), Errc::invalid_argument, {"called before"});
  };
  GgufWeightSink file_sink(dir / "out.gguf", {});
  check(file_sink);
  CHECK(nibble::GgufFile::open(dir / "out.gguf").tensors().size() == 4);
  MemoryWeightSink memory_sink;
  CHECK(error_of([&] { memory_sink.take(); }).code() == Errc::invalid_argument);
  check(memory_sink);
  CHECK(memory_sink.take().names().size() == 4);
}

TEST_CASE("an unfinished file sink leaves nothing", "[weights]") {
  const TemporaryDirectory dir;
  {
    GgufWeightSink sink(dir / "out.gguf", {});
    sink.declare("a", std::vector<Index>{2}, 0);
    sink.put("a", Bytes(8));
  }
  CHECK(dir.entries() == 0);
}
