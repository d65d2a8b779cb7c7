// SPDX-License-Identifier: MIT
// Files that break the GGUF format, one way at a time. Every one must give a typed error that names the file,
// the place and the numbers; none may read out of bounds (the bytes are exact heap blocks) or allocate more
// than the file holds.
#include <chrono>
#include <limits>

#include "io_support.hpp"

using namespace io_test;
using nibble::Errc;
using nibble::GgufFile;
using Type = nibble::MetadataType;

namespace {

constexpr std::uint32_t id(Type t) { return static_cast<std::uint32_t>(t); }
constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

// Two F32 tensors of 8 and 4 elements; `second` changes the second one.
struct Two {
  std::vector<std::int64_t> ne{4};
  std::uint32_t type = 0;
  std::uint64_t offset = 32;
  std::size_t data = 64;
  Raw raw() const {
    Raw r;
    r.header(2, 0).tensor("first", {8}, 0, 0).tensor("second", ne, type, offset).pad().data(data);
    return r;
  }
};

}  // namespace

TEST_CASE("the hostile files differ from a good one in one field only", "[gguf]") {
  const Raw raw = Two{}.raw();
  const GgufFile file = GgufFile::from_memory(raw.bytes);
  CHECK(file.tensors().size() == 2);
  CHECK(file.tensor("second").bytes.size() == 16);
  CHECK(file.warnings().empty());
}

TEST_CASE("a file shorter than its header is refused at every length", "[gguf]") {
  const Raw whole = Raw{}.header(0, 0);
  for (std::size_t n = 0; n < 24; ++n) {
    Raw cut;
    cut.bytes.assign(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(n));
    refuse(cut, Errc::malformed, {"ends at byte " + std::to_string(n)});
  }
  CHECK(GgufFile::from_memory(whole.bytes).metadata().size() == 0);
}

TEST_CASE("magic and version", "[gguf]") {
  refuse(Raw{}.text("GGUX").num(3u).num(0ll).num(0ll), Errc::malformed, {"not a GGUF file"});
  refuse(Raw{}.text("version https://git-lfs.github.com/spec/v1\n"), Errc::malformed, {"not a GGUF file"});
  refuse(Raw{}.header(0, 0, 1), Errc::unsupported, {"version 1 is obsolete"});
  for (const std::uint32_t v : {0u, 4u, 99u, 0xFFFFFFFFu})
    refuse(Raw{}.header(0, 0, v), Errc::unsupported, {"version " + std::to_string(v)});
}

TEST_CASE("a file of the other byte order is named as such, not as a strange version", "[gguf]") {
  for (const std::uint32_t version : {1u, 2u, 3u}) {
    const auto error = parse_error(Raw{}.header(0, 0, __builtin_bswap32(version)));
    require_error(error, Errc::unsupported, {"wrong byte order", "big-endian"});
    CHECK(std::string(error.what()).find("50331648") == std::string::npos);
  }
  refuse(Raw{}.text("FUGG").num(__builtin_bswap32(3u)).num(0ll).num(0ll), Errc::unsupported,
         {"wrong byte order"});
  const auto made = GgufFile::try_open(golden("big_endian.gguf"));
  REQUIRE(!made);
  require_error(made.error(), Errc::unsupported, {"big_endian.gguf", "wrong byte order"});
}

TEST_CASE("counts that the file cannot hold", "[gguf]") {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();  // 2^63 as unsigned
  for (const std::int64_t n : {std::int64_t{-1}, least}) {
    refuse(Raw{}.header(n, 0), Errc::malformed, {"claims " + std::to_string(n) + " tensors"});
    refuse(Raw{}.header(0, n), Errc::malformed, {"claims " + std::to_string(n) + " metadata keys"});
  }
  for (const std::int64_t n : {std::int64_t{1} << 32, huge, std::int64_t{100}}) {
    refuse(Raw{}.header(n, 0).data(200), Errc::malformed,
           {"claims " + std::to_string(n) + " tensors", "remain"});
    refuse(Raw{}.header(0, n).data(200), Errc::malformed, {"claims " + std::to_string(n) + " metadata keys"});
  }
}

TEST_CASE("stated limits are enforced and can be raised", "[gguf]") {
  Raw raw;
  raw.header(0, 3);
  for (const char* name : {"a", "b", "c"}) raw.key(name, id(Type::u8)).num(std::uint8_t{1});
  nibble::GgufLimits limits;
  limits.keys = 2;
  const auto refused = GgufFile::try_from_memory(raw.bytes, limits);
  REQUIRE(!refused);
  require_error(refused.error(), Errc::out_of_memory, {"3 metadata keys", "limit of 2"});
  limits.keys = 3;
  CHECK(GgufFile::from_memory(raw.bytes, limits).metadata().size() == 3);

  const Raw text = file_with_value(id(Type::string), Raw{}.string("12345"));
  limits.string_bytes = 4;
  REQUIRE(!GgufFile::try_from_memory(text.bytes, limits));
  limits.string_bytes = 5;
  CHECK(GgufFile::from_memory(text.bytes, limits).get<std::string>("k") == "12345");

  const Raw array = file_with_value(id(Type::array), Raw{}.num(id(Type::u8)).num(std::uint64_t{3}).data(3));
  limits.array_elements = 2;
  REQUIRE(!GgufFile::try_from_memory(array.bytes, limits));
  limits.tensors = 1;
  REQUIRE(!GgufFile::try_from_memory(Two{}.raw().bytes, limits));
}

TEST_CASE("keys: length, encoding, duplicates", "[gguf]") {
  const auto with_key_length = [](std::uint64_t n) {
    return Raw{}.header(0, 1).num(n).text("kkkk").data(16);
  };
  for (const std::uint64_t n : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{21}})
    refuse(with_key_length(n), Errc::malformed,
           {"a metadata key at byte 24 claims " + std::to_string(n) + " bytes"});
  refuse(with_key_length(0), Errc::malformed, {"byte 24", "empty"});

  for (const std::string_view bad :
       {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xe2\x82"})
    refuse(Raw{}.header(0, 1).key(bad, id(Type::u8)).num(std::uint8_t{1}).data(8), Errc::malformed,
           {"not UTF-8", "byte 24"});

  Raw twice;
  twice.header(0, 3);
  for (const char* name : {"same", "other", "same"}) twice.key(name, id(Type::u8)).num(std::uint8_t{1});
  refuse(twice, Errc::malformed, {"metadata key 'same' occurs twice"});
  refuse(Raw{}.header(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).pad().data(64), Errc::malformed,
         {"tensor 't' occurs twice"});

  const std::string longest(65535, 'k');
  const auto sized = [&](const std::string& name) {
    return Raw{}.header(0, 1).key(name, id(Type::u8)).num(std::uint8_t{1});
  };
  CHECK(GgufFile::from_memory(sized(longest).bytes).get<int>(longest) == 1);
  refuse(sized(longest + "k"), Errc::out_of_memory, {"65536 bytes", "limit of 65535"});
}

TEST_CASE("values: types, strings, booleans", "[gguf]") {
  for (const std::uint32_t type : {13u, 99u, 0xFFFFFFFFu}) {
    refuse(file_with_value(type, Raw{}.data(16)), Errc::malformed,
           {"key 'k'", "unknown type " + std::to_string(type)});
    refuse(file_with_value(id(Type::array), Raw{}.num(type).num(std::uint64_t{1}).data(16)), Errc::malformed,
           {"key 'k'", "unknown type " + std::to_string(type)});
  }
  for (const std::uint64_t n : {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{9}})
    refuse(file_with_value(id(Type::string), Raw{}.num(n).data(8)), Errc::malformed,
           {"key 'k'", "claims " + std::to_string(n) + " bytes", "only 8 remain"});
  for (const int b : {2, 255}) {
    refuse(file_with_value(id(Type::boolean), Raw{}.num(static_cast<std::uint8_t>(b))), Errc::malformed,
           {"key 'k'", "bool at byte 37 is " + std::to_string(b)});
    Raw array;
    array.num(id(Type::boolean)).num(std::uint64_t{2}).num(std::uint8_t{1}).num(static_cast<std::uint8_t>(b));
    refuse(file_with_value(id(Type::array), array), Errc::malformed,
           {"bool at byte 50 is " + std::to_string(b)});
  }
}

TEST_CASE("a value cut anywhere is refused", "[gguf]") {
  std::vector<Raw> files;
  for (std::uint32_t t = 0; t <= 12; ++t) {
    if (t == id(Type::array)) continue;
    const std::size_t size = nibble::metadata_type_bytes(static_cast<Type>(t));
    const Raw value = t == id(Type::string) ? Raw{}.string("text") : Raw{}.data(size, std::byte{1});
    files.push_back(file_with_value(t, value));
    Raw array;
    array.num(t).num(std::uint64_t{2});
    for (int i = 0; i < 2; ++i) array.raw(value.bytes.data(), value.bytes.size());
    files.push_back(file_with_value(id(Type::array), array));
  }
  for (const Raw& whole : files) {
    REQUIRE(GgufFile::try_from_memory(whole.bytes));
    for (std::size_t n = 24; n < whole.bytes.size(); ++n) {
      Raw cut;
      cut.bytes.assign(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      INFO("cut to " << n << " of " << whole.bytes.size());
      CHECK(parse_error(cut).code() == Errc::malformed);
    }
  }
}

TEST_CASE("arrays: nested, and longer than the file", "[gguf]") {
  Raw nested;
  nested.num(id(Type::array))
      .num(std::uint64_t{1})
      .num(id(Type::u8))
      .num(std::uint64_t{1})
      .num(std::uint8_t{1});
  refuse(file_with_value(id(Type::array), nested), Errc::unsupported, {"key 'k'", "array of arrays"});
  Raw deep;  // a hundred thousand levels must not cost a stack
  for (int i = 0; i < 100'000; ++i) deep.num(id(Type::array)).num(std::uint64_t{1});
  refuse(file_with_value(id(Type::array), deep), Errc::unsupported, {"array of arrays"});

  for (const Type element : {Type::u8, Type::f32, Type::f64, Type::boolean, Type::string})
    for (const std::uint64_t n :
         {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{1} << 61, std::uint64_t{1} << 62})
      refuse(file_with_value(id(Type::array), Raw{}.num(id(element)).num(n).data(64, std::byte{0})),
             Errc::malformed,
             {"key 'k'",
              "claims " + std::to_string(n) + " elements of " + std::string(nibble::to_string(element))});
}

TEST_CASE("alignment", "[gguf]") {
  const auto with = [](Type type, auto value) {
    return Raw{}.header(0, 1).key("general.alignment", id(type)).num(value);
  };
  for (const std::uint32_t n : {0u, 3u, 48u, 1u << 31})
    refuse(with(Type::u32, n), Errc::malformed, {"general.alignment' is " + std::to_string(n)});
  refuse(with(Type::u64, std::uint64_t{32}), Errc::malformed,
         {"general.alignment", "expected u32", "u64 32"});
  refuse(with(Type::i32, std::int32_t{32}), Errc::malformed, {"general.alignment", "expected u32", "i32 32"});
  refuse(Raw{}.header(0, 1).key("general.alignment", id(Type::string)).string("32"), Errc::malformed,
         {"general.alignment", "found string"});
  for (const std::uint32_t n : {1u, 2u, 8u, 64u, 4096u})
    CHECK(GgufFile::from_memory(with(Type::u32, n).bytes).alignment() == n);
}

TEST_CASE("tensor shapes", "[gguf]") {
  const auto shaped = [](std::vector<std::int64_t> ne, std::uint32_t type = 0) {
    Two two;
    two.ne = std::move(ne);
    two.type = type;
    return two.raw();
  };
  refuse(shaped({1, 1, 1, 1, 1}), Errc::malformed, {"tensor 'second'", "5 dimensions"});
  refuse(Raw{}.header(1, 0).string("t").num(0xFFFFFFFFu).data(64), Errc::malformed,
         {"4294967295 dimensions"});
  refuse(shaped({-1}), Errc::malformed, {"tensor 'second'", "dimension 0 is -1"});
  refuse(shaped({4, std::numeric_limits<std::int64_t>::min()}), Errc::malformed,
         {"dimension 1 is -9223372036854775808"});

  constexpr std::int64_t wrap = (std::int64_t{1} << 42) + 1;
  const std::vector<std::vector<std::int64_t>> too_many = {
      {wrap, wrap},
      {huge, 2},
      {2, huge},
      {std::int64_t{1} << 32, std::int64_t{1} << 31, 2},
      {std::int64_t{1} << 16, std::int64_t{1} << 16, std::int64_t{1} << 16, std::int64_t{1} << 16},
      {0, wrap, wrap},
      {wrap, 0, wrap}};  // a zero must not hide the overflow
  for (const auto& ne : too_many)
    refuse(shaped(ne), Errc::malformed, {"tensor 'second'", "elements overflows"});
  for (const std::vector<std::int64_t>& ne : {std::vector{huge}, {huge, 0}, {0, huge}})  // 4 bytes each
    refuse(shaped(ne), Errc::malformed, {"tensor 'second'", "size of a tensor overflows"});
  refuse(shaped({wrap}), Errc::malformed, {"tensor 'second'", "outside the file"});

  for (const std::uint32_t type : {2u, 8u, 12u, 20u}) {  // Q4_0, Q8_0, Q4_K, IQ4_NL
    const auto* info = nibble::find_gguf_type(type);
    const auto block = static_cast<std::int64_t>(info->block_size);
    for (const std::int64_t n : {std::int64_t{1}, block - 1, block + 1, block / 2})
      refuse(shaped({n, block}, type), Errc::malformed,
             {"tensor 'second'", std::to_string(n), std::string(info->name)});
  }
}

TEST_CASE("tensors of no elements load as empty", "[gguf]") {
  for (const std::vector<std::int64_t>& ne :
       std::vector<std::vector<std::int64_t>>{{0}, {4, 0}, {0, 4}, {0, huge / 8}}) {
    Two two;
    two.ne = ne;
    two.data = 32;
    const Raw raw = two.raw();
    const GgufFile file = GgufFile::from_memory(raw.bytes);
    CHECK(file.tensor("second").elements() == 0);
    CHECK(file.tensor("second").bytes.empty());
  }
}

TEST_CASE("tensor types: unknown and retired", "[gguf]") {
  const auto typed = [](std::uint32_t type) {
    Two two;
    two.type = type;
    return two.raw();
  };
  const std::vector<std::pair<std::uint32_t, const char*>> retired = {
      {4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
      {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};
  for (const auto& [type, name] : retired)
    refuse(typed(type), Errc::unsupported, {"tensor 'second'", "retired type " + std::to_string(type), name});
  for (const std::uint32_t type : {43u, 77u, 1000u, 0xFFFFFFFFu})
    refuse(typed(type), Errc::unsupported, {"tensor 'second'", "unknown type " + std::to_string(type)});
}

TEST_CASE("tensor names", "[gguf]") {
  const auto named = [](std::string_view name) {
    return Raw{}.header(1, 0).tensor(name, {1}, 0, 0).pad().data(32);
  };
  refuse(named(""), Errc::malformed, {"name of tensor 0", "empty"});
  refuse(named("\xc3("), Errc::malformed, {"not UTF-8"});
  refuse(named(std::string(1025, 'n')), Errc::out_of_memory, {"1025 bytes"});
  refuse(Raw{}.header(1, 0).num(~std::uint64_t{0}).data(64), Errc::malformed,
         {"name of tensor 0 at byte 24 claims"});
  CHECK(GgufFile::from_memory(named(std::string(63, 'n')).bytes).warnings().empty());
  const Raw long_name = named(std::string(64, 'n'));
  const GgufFile file = GgufFile::from_memory(long_name.bytes);
  REQUIRE(file.warnings().size() == 1);
  CHECK(file.warnings()[0].find("64 bytes") != std::string::npos);
}

TEST_CASE("tensor offsets", "[gguf]") {
  const auto at = [](std::uint64_t offset, std::size_t data = 256) {
    Two two;
    two.offset = offset;
    two.data = data;
    return two.raw();
  };
  refuse(at(33), Errc::malformed, {"tensor 'second'", "offset 33", "not aligned to 32"});
  refuse(at(48), Errc::malformed, {"not aligned"});
  refuse(at(0), Errc::malformed, {"tensor 'second'", "overlaps", "offset 32 is due"});
  refuse(at(64), Errc::malformed, {"tensor 'second'", "gap", "offset 32 is due"});
  for (const std::uint64_t offset : {std::uint64_t{256}, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0} - 31, ~std::uint64_t{0} - 15, ~std::uint64_t{0}})
    refuse(at(offset), Errc::malformed,
           {"tensor 'second'", "offset " + std::to_string(offset), "outside the file's 256 bytes"});
}

TEST_CASE("a file cut at any point names the first tensor out of range", "[gguf]") {
  Raw whole;
  constexpr std::size_t count = 20;
  constexpr std::size_t each = 96;  // bytes, a multiple of the alignment: the last tensor ends the file
  whole.header(count, 1).key("k", id(Type::string)).string("value");
  for (std::size_t i = 0; i < count; ++i)
    whole.tensor("blk." + std::to_string(i) + ".weight", {24}, 0, i * each);
  whole.pad();
  const std::size_t data_at = whole.bytes.size();
  whole.data(count * each);
  REQUIRE(GgufFile::try_from_memory(whole.bytes));

  std::vector<std::size_t> cuts{whole.bytes.size() - 1};
  for (std::size_t i = 0; i < 64; ++i) cuts.push_back(i * whole.bytes.size() / 64);
  for (const std::size_t n : cuts) {
    Raw cut;
    cut.bytes.assign(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(n));
    INFO("cut to " << n << " of " << whole.bytes.size());
    const auto error = parse_error(cut);
    INFO("message: " << error.what());
    CHECK(error.code() == Errc::malformed);
    if (n < data_at) continue;  // the header itself is cut
    const std::size_t first = (n - data_at) / each;
    CHECK(std::string(error.what()).find("tensor 'blk." + std::to_string(first) + ".weight'") !=
          std::string::npos);
    CHECK(std::string(error.what()).find("outside the file") != std::string::npos);
  }
}

TEST_CASE("trailing bytes are allowed and reported", "[gguf]") {
  for (const std::size_t extra : {std::size_t{1}, std::size_t{1000}}) {
    const Raw raw = Two{}.raw().data(extra);
    const GgufFile file = GgufFile::from_memory(raw.bytes);
    REQUIRE(file.warnings().size() == 1);
    CHECK(file.warnings()[0].find(std::to_string(extra) + " bytes follow") != std::string::npos);
  }
  // Padding after the last tensor is no trailing data, and its absence no truncation.
  Two unpadded;
  unpadded.data = 48;
  const Raw raw = unpadded.raw();
  CHECK(GgufFile::from_memory(raw.bytes).warnings().empty());
}

TEST_CASE("a part of a split model is refused with the reason", "[gguf]") {
  const auto split = [](std::uint16_t n) {
    return Raw{}.header(0, 1).key("split.count", id(Type::u16)).num(n);
  };
  refuse(split(2), Errc::unsupported, {"one of 2 parts", "merge"});
  CHECK(GgufFile::from_memory(split(1).bytes).metadata().size() == 1);
  CHECK(GgufFile::from_memory(split(0).bytes).metadata().size() == 1);
  refuse(Raw{}.header(0, 1).key("split.count", id(Type::string)).string("2"), Errc::malformed,
         {"split.count"});
}

TEST_CASE("every byte of a file set to hostile values gives a file or an error", "[gguf]") {
  Bytes bytes = read_file(golden("types.gguf"));
  const std::size_t header = GgufFile::from_memory(bytes).data_offset();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < header; ++i) {
    const std::byte old = bytes[i];
    for (const int v : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      bytes[i] = static_cast<std::byte>(v);
      if (!GgufFile::try_from_memory(bytes)) ++refused;
    }
    bytes[i] = old;
  }
  CHECK(refused > header);
}

TEST_CASE("many keys, tensors and equal prefixes cost near-linear time", "[gguf]") {
  // Duplicate checks that compare all pairs would need minutes here; the bound is loose on purpose.
  const std::string prefix(100, 'p');
  Raw raw;
  constexpr std::int64_t keys = 60'000;
  raw.header(keys, keys);
  for (std::int64_t i = 0; i < keys; ++i)
    raw.key(prefix + std::to_string(i), id(Type::u8)).num(std::uint8_t{1});
  for (std::int64_t i = 0; i < keys; ++i) raw.tensor(prefix + std::to_string(i), {0}, 0, 0);
  raw.pad();
  const auto start = std::chrono::steady_clock::now();
  const GgufFile file = GgufFile::from_memory(raw.bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(file.tensors().size() == static_cast<std::size_t>(keys));
  CHECK(took.count() < 20);
}
