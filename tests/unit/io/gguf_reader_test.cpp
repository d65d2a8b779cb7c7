// SPDX-License-Identifier: MIT
// Files made by the public gguf package (tests/golden/make_gguf.py), read back: every metadata type and
// array, every tensor's shape, place and bytes.
#include <cmath>
#include <limits>
#include <map>
#include <sstream>

#include "io_support.hpp"
#include "nibble/format/formats.hpp"

using namespace io_test;
using nibble::Errc;
using nibble::FileMode;
using nibble::GgufFile;
using nibble::MetadataArray;
using nibble::MetadataStrings;
using nibble::MetadataType;

namespace {

template <class T>
using Limits = std::numeric_limits<T>;

// The listing that make_gguf.py writes: the Python reader's view of a file.
std::string listing(const GgufFile& file) {
  const std::map<MetadataType, std::string> names = {
      {MetadataType::u8, "uint8"},    {MetadataType::i8, "int8"},      {MetadataType::u16, "uint16"},
      {MetadataType::i16, "int16"},   {MetadataType::u32, "uint32"},   {MetadataType::i32, "int32"},
      {MetadataType::f32, "float32"}, {MetadataType::boolean, "bool"}, {MetadataType::string, "string"},
      {MetadataType::array, "array"}, {MetadataType::u64, "uint64"},   {MetadataType::i64, "int64"},
      {MetadataType::f64, "float64"}};
  std::ostringstream out;
  for (const auto& [key, value] : file.metadata()) {
    out << "key " << key << ' ' << names.at(value.type());
    if (value.is_array()) out << ' ' << names.at(value.element_type());
    out << ' ' << value.size() << '\n';
  }
  for (const auto& t : file.tensors()) {
    out << "tensor " << t.name << ' ' << t.type->name << ' ' << file.data_offset() + t.offset << ' '
        << t.bytes.size() << ' ';
    std::ostringstream hash;
    hash << std::hex << fnv1a(t.bytes);
    out << std::string(16 - hash.str().size(), '0') << hash.str();
    for (int d = 0; d < t.rank; ++d) out << ' ' << t.ne[static_cast<std::size_t>(d)];
    out << '\n';
  }
  return out.str();
}

std::string text_of(const std::filesystem::path& path) {
  const Bytes bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
void check_scalar(const GgufFile& file, const std::string& name, T value) {
  INFO(name);
  CHECK(file.get<T>("test.scalar." + name) == value);
}

template <class T>
void check_array(const GgufFile& file, const std::string& name, const std::vector<T>& values) {
  INFO(name);
  CHECK(file.get<std::vector<T>>("test.array." + name) == values);
  const auto view = file.get<MetadataArray<T>>("test.array." + name);
  REQUIRE(view.size() == values.size());
  CHECK(std::vector<T>(view.begin(), view.end()) == values);
  CHECK(view[values.size() - 1] == values.back());
}

}  // namespace

TEST_CASE("a file with everything reads as the public package reads it", "[gguf]") {
  for (const char* name : {"types", "aligned"})
    for (const FileMode mode : {FileMode::map, FileMode::read}) {
      INFO(name);
      const GgufFile file = GgufFile::open(golden(std::string(name) + ".gguf"), {mode, {}});
      CHECK(listing(file) == text_of(golden(std::string(name) + ".txt")));
      CHECK(file.warnings().empty());
      CHECK(file.version() == 3);
    }
  CHECK(GgufFile::open(golden("aligned.gguf")).alignment() == 256);
}

TEST_CASE("version 2 files read like version 3", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("version2.gguf"));
  CHECK(file.version() == 2);
  CHECK(listing(file) == text_of(golden("aligned.txt")));
}

TEST_CASE("a file without tensors", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("no_tensors.gguf"));
  CHECK(file.tensors().empty());
  CHECK(file.get<std::string>("test.text") == "x");
}

TEST_CASE("all scalar types and arrays of them", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  check_scalar<std::uint8_t>(file, "u8", 255);
  check_scalar<std::int8_t>(file, "i8", -128);
  check_scalar<std::uint16_t>(file, "u16", 65535);
  check_scalar<std::int16_t>(file, "i16", -32768);
  check_scalar<std::uint32_t>(file, "u32", Limits<std::uint32_t>::max());
  check_scalar<std::int32_t>(file, "i32", Limits<std::int32_t>::min());
  check_scalar<std::uint64_t>(file, "u64", Limits<std::uint64_t>::max());
  check_scalar<std::int64_t>(file, "i64", Limits<std::int64_t>::min());
  check_scalar<float>(file, "f32", 0.15625f);
  check_scalar<double>(file, "f64", 1e300);
  check_scalar<bool>(file, "bool", true);
  check_scalar<std::string>(file, "string", "naïve 🦙");
  check_scalar<std::string_view>(file, "string", "naïve 🦙");
  CHECK(file.get<std::string>("test.empty_string").empty());

  check_array<std::uint8_t>(file, "u8", {0, 1, 255});
  check_array<std::int8_t>(file, "i8", {-128, 0, 127});
  check_array<std::uint16_t>(file, "u16", {0, 65535});
  check_array<std::int16_t>(file, "i16", {-32768, 32767});
  check_array<std::uint32_t>(file, "u32", {0, Limits<std::uint32_t>::max()});
  check_array<std::int32_t>(file, "i32", {Limits<std::int32_t>::min(), Limits<std::int32_t>::max(), 7});
  check_array<std::uint64_t>(file, "u64", {0, Limits<std::uint64_t>::max()});
  check_array<std::int64_t>(file, "i64", {Limits<std::int64_t>::min(), Limits<std::int64_t>::max()});
  check_array<float>(file, "f32", {0.5f, -1.25f, 3.0f});
  check_array<double>(file, "f64", {1e-300, 2.5});
  check_array<bool>(file, "bool", {true, false, true});

  const std::vector<std::string> strings{"", "a", "▁token", "\n"};
  CHECK(file.get<std::vector<std::string>>("test.array.string") == strings);
  const auto view = file.get<MetadataStrings>("test.array.string");
  CHECK(std::vector<std::string>(view.begin(), view.end()) == strings);
  CHECK(view[2] == "▁token");
}

TEST_CASE("float tensors hold the generator's values", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  const auto& matrix = file.tensor("f32.matrix");
  REQUIRE(matrix.rank == 2);
  CHECK(matrix.ne == std::array<std::int64_t, 4>{5, 3, 1, 1});
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 5; ++c) {
      const auto at = static_cast<std::size_t>(r * 5 + c) * sizeof(float);
      CHECK(nibble::detail::load<float>(matrix.bytes.data() + at) ==
            static_cast<float>((37 * r + 11 * c) % 101 - 50) / 16);
    }
}

TEST_CASE("lookups", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  CHECK(file.find("test.scalar.u8") != nullptr);
  CHECK(file.find("test.scalar.u") == nullptr);
  CHECK(file.find("") == nullptr);
  for (const auto& entry : file.metadata()) CHECK(file.find(entry.key) == &entry.value);
  for (const auto& tensor : file.tensors()) CHECK(file.find_tensor(tensor.name) == &tensor);
  CHECK(file.find_tensor("f32.matri") == nullptr);
  require_error(error_of([&] { file.tensor("f32.matri"); }), Errc::malformed,
                {"types.gguf", "'f32.matri'", "missing"});
  CHECK(file.get_or<int>("absent", 7) == 7);
  CHECK(file.get_or<int>("test.scalar.u8", 7) == 255);
  CHECK(file.metadata().get_optional<int>("absent") == std::nullopt);
  CHECK_THROWS_AS(file.get_or<int>("test.scalar.string", 7), nibble::Error);
}

TEST_CASE("a wrong type or a missing key is an error naming file, key, expected and found", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  const auto get = [&]<class T>(std::type_identity<T>, const char* key) {
    return error_of([&] { file.get<T>(key); });
  };
  require_error(get(std::type_identity<std::uint32_t>{}, "absent"), Errc::malformed,
                {"types.gguf", "'absent'", "expected u32", "missing"});
  require_error(get(std::type_identity<std::uint32_t>{}, "test.scalar.string"), Errc::malformed,
                {"'test.scalar.string'", "expected u32", "found string"});
  require_error(get(std::type_identity<bool>{}, "test.scalar.u8"), Errc::malformed,
                {"expected bool", "found u8 255"});
  require_error(get(std::type_identity<float>{}, "test.scalar.u8"), Errc::malformed,
                {"expected f32", "found u8 255"});
  require_error(get(std::type_identity<int>{}, "test.scalar.f32"), Errc::malformed,
                {"expected i32", "f32 0.15625"});
  require_error(get(std::type_identity<int>{}, "test.scalar.bool"), Errc::malformed,
                {"expected i32", "bool true"});
  require_error(get(std::type_identity<std::string>{}, "test.array.string"), Errc::malformed,
                {"expected string", "array of string [4]"});
  require_error(get(std::type_identity<MetadataStrings>{}, "test.array.u8"), Errc::malformed,
                {"expected array of string", "array of u8 [3]"});
  require_error(get(std::type_identity<std::vector<float>>{}, "test.array.string"), Errc::malformed,
                {"expected array of f32", "array of string [4]"});
  require_error(get(std::type_identity<MetadataArray<std::int32_t>>{}, "test.array.u32"), Errc::malformed,
                {"expected array of i32", "array of u32 [2]"});
}

TEST_CASE("integers convert where the value fits, and only there", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  CHECK(file.get<std::int64_t>("test.scalar.u8") == 255);
  CHECK(file.get<std::uint16_t>("test.scalar.u8") == 255);
  CHECK(file.get<std::int32_t>("test.scalar.i16") == -32768);
  CHECK(file.get<std::int64_t>("test.scalar.u32") == 4294967295);
  CHECK_THROWS_AS(file.get<std::int8_t>("test.scalar.u8"), nibble::Error);
  CHECK_THROWS_AS(file.get<std::uint64_t>("test.scalar.i8"), nibble::Error);
  CHECK_THROWS_AS(file.get<std::int32_t>("test.scalar.u32"), nibble::Error);
  CHECK_THROWS_AS(file.get<std::int64_t>("test.scalar.u64"), nibble::Error);
  CHECK_THROWS_AS(file.get<std::uint64_t>("test.scalar.i64"), nibble::Error);
  CHECK(file.get<std::vector<std::int64_t>>("test.array.u32") == std::vector<std::int64_t>{0, 4294967295});
  CHECK_THROWS_AS(file.get<std::vector<std::uint8_t>>("test.array.u32"), nibble::Error);
  CHECK(file.get<double>("test.scalar.f32") == 0.15625);
  CHECK_THROWS_AS(file.get<float>("test.scalar.f64"), nibble::Error);  // 1e300
  CHECK(file.get<std::vector<float>>("test.array.f64") == std::vector<float>{0.0f, 2.5f});
}

TEST_CASE("values as text", "[gguf]") {
  const GgufFile file = GgufFile::open(golden("types.gguf"));
  const auto text = [&](const char* key, std::size_t n, std::size_t bytes) {
    return file.find(key)->to_text(n, bytes);
  };
  CHECK(text("test.scalar.i64", 8, 80) == "-9223372036854775808");
  CHECK(text("test.scalar.bool", 8, 80) == "true");
  CHECK(text("test.scalar.string", 8, 0) == "naïve 🦙");
  CHECK(text("test.scalar.string", 8, 9) == "naïve ...");  // never half a character
  CHECK(text("test.array.u8", 8, 80) == "[0, 1, 255]");
  CHECK(text("test.array.u8", 2, 80) == "[0, 1, ... 3 in all]");
  CHECK(text("test.array.string", 2, 80) == "[\"\", \"a\", ... 4 in all]");
}

TEST_CASE("moving a file keeps its views", "[gguf]") {
  for (const FileMode mode : {FileMode::map, FileMode::read}) {
    GgufFile first = GgufFile::open(golden("types.gguf"), {mode, {}});
    const auto strings = first.get<MetadataStrings>("test.array.string");
    const auto bytes = first.tensor("q4_k.matrix").bytes;
    const std::uint64_t hash = fnv1a(bytes);
    const GgufFile second = std::move(first);
    CHECK(strings[2] == "▁token");
    CHECK(fnv1a(bytes) == hash);
    CHECK(second.tensor("q4_k.matrix").bytes.data() == bytes.data());
    CHECK(listing(second) == text_of(golden("types.txt")));
  }
}

TEST_CASE("the type table agrees with the decodable formats", "[gguf]") {
  int seen = 0;
  for (const nibble::FormatInfo* format : nibble::all_formats()) {
    if (format->gguf_type == nibble::no_gguf_type) continue;
    INFO(format->name);
    const auto* type = nibble::find_gguf_type(format->gguf_type);
    REQUIRE(type != nullptr);
    CHECK(nibble::find_gguf_type(format->name) == type);  // the names agree, up to case
    CHECK(static_cast<nibble::Index>(type->block_size) == format->block_size);
    CHECK(static_cast<nibble::Index>(type->block_bytes) == format->block_bytes);
    ++seen;
  }
  CHECK(seen >= 15);
}

TEST_CASE("type lookups by id and by name", "[gguf]") {
  int known = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const auto* type = nibble::find_gguf_type(id);
    CHECK((type == nullptr || nibble::retired_gguf_type(id).empty()));
    if (!type) continue;
    ++known;
    CHECK(type->id == id);
    CHECK(nibble::find_gguf_type(type->name) == type);
  }
  CHECK(known == 35);
  CHECK(nibble::find_gguf_type("q4_k") == nibble::find_gguf_type(12));
  CHECK(nibble::find_gguf_type("Q4_2") == nullptr);
  CHECK(nibble::find_gguf_type("") == nullptr);
  CHECK(nibble::retired_gguf_type(4) == "Q4_2");
}

TEST_CASE("UTF-8 check of names", "[gguf]") {
  const auto accepted = [](std::string_view key) {
    Raw raw;
    raw.header(0, 1).key(key, 0).num(std::uint8_t{1});
    return GgufFile::try_from_memory(raw.bytes).has_value();
  };
  for (const std::string_view good :
       {"a", "é", "€", "🦙", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\x7f"})
    CHECK(accepted(good));
  for (const std::string_view bad :
       {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf8\x88\x80\x80\x80", "é\xc3"})
    CHECK(!accepted(bad));
}
