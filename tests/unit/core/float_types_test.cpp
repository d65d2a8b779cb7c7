// SPDX-License-Identifier: MIT
// Narrow floats against ml_dtypes and numpy: every code widened, every 16-bit float narrowed (as hashes),
// and every midpoint with its two neighbours, the overflow edge and NaN one by one.
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "nibble/core/dtype.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

class Fnv {
 public:
  void add(std::uint32_t word) {
    for (int i = 0; i < 4; ++i) hash_ = (hash_ ^ (word >> (8 * i) & 0xFF)) * 0x100000001B3u;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

template <class T>
constexpr std::uint32_t code_count = std::is_same_v<T, fp4_e2m1> ? 16 : 1u << (8 * sizeof(T));

template <class T>
T at(std::uint32_t code) { return T::from_bits(static_cast<decltype(T::bits)>(code)); }

/// The code a float becomes, every NaN as 0xFFFF. FP4 has no NaN.
template <class T>
std::uint32_t narrow(float f) {
  const T t(f);
  if constexpr (!std::is_same_v<T, fp4_e2m1>)
    if (std::isnan(static_cast<float>(t))) return 0xFFFF;
  return t.bits;
}

template <class Check>
void for_each_line(const std::string& kind, const std::string& type, Check&& check) {
  std::ifstream in(std::string(NIBBLE_GOLDEN_DIR) + "/float_types.txt");
  REQUIRE(in.good());
  int found = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string k, t;
    words >> k >> t;
    if (k != kind || t != type) continue;
    ++found;
    check(words);
  }
  REQUIRE(found > 0);
}

std::uint64_t hash_in(const std::string& kind, const std::string& type) {
  std::uint64_t h = 0;
  for_each_line(kind, type, [&](std::istringstream& s) { s >> std::hex >> h; });
  return h;
}

}  // namespace

TEMPLATE_TEST_CASE("narrow floats agree with ml_dtypes on every code and every 16-bit float", "[float_types]",
                   half, bfloat16, fp8_e4m3, fp8_e5m2, fp4_e2m1, e8m0) {
  const std::string name(to_string(dtype_of<TestType>));
  Fnv widened;
  for (std::uint32_t c = 0; c < code_count<TestType>; ++c) {
    const float f = at<TestType>(c);
    widened.add(std::isnan(f) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(f));
  }
  CHECK(widened.value() == hash_in("decode", name));

  Fnv narrowed;
  for (std::uint32_t c = 0; c < 65536; ++c) narrowed.add(narrow<TestType>(at<half>(c)));
  for (std::uint32_t c = 0; c < 65536; ++c) narrowed.add(narrow<TestType>(at<bfloat16>(c)));
  CHECK(narrowed.value() == hash_in("encode16", name));
}

TEMPLATE_TEST_CASE("ties, their neighbours, overflow and NaN narrow as ml_dtypes does", "[float_types]", half,
                   bfloat16, fp8_e4m3, fp8_e5m2, fp4_e2m1, e8m0) {
  for_each_line("tie", std::string(to_string(dtype_of<TestType>)), [](std::istringstream& s) {
    std::uint32_t bits = 0, code = 0;
    s >> std::hex >> bits >> code;
    const auto f = std::bit_cast<float>(bits);
    INFO("from " << f << " (" << std::hex << bits << ")");
    CHECK(narrow<TestType>(f) == code);
  });
}

TEMPLATE_TEST_CASE("widening then narrowing is the identity", "[float_types]", half, bfloat16, fp8_e4m3,
                   fp8_e5m2, fp4_e2m1, e8m0) {
  for (std::uint32_t c = 0; c < code_count<TestType>; ++c) {
    const TestType t = at<TestType>(c);
    const float f = t;
    if (std::isnan(f)) {
      REQUIRE(std::isnan(static_cast<float>(TestType(f))));
      if constexpr (!std::is_same_v<TestType, e8m0>)
        REQUIRE(std::signbit(f) == std::signbit(static_cast<float>(TestType(f))));
    } else {
      REQUIRE(TestType(f).bits == t.bits);
    }
  }
}

TEMPLATE_TEST_CASE("saturated conversion stops at the largest finite number and keeps NaN", "[float_types]",
                   half, bfloat16, fp8_e4m3, fp8_e5m2, fp4_e2m1) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (float f : {inf, std::numeric_limits<float>::max(), TestType::max()}) {
    CHECK(static_cast<float>(TestType::saturated(f)) == TestType::max());
    CHECK(static_cast<float>(TestType::saturated(-f)) == -TestType::max());
  }
  CHECK(static_cast<float>(TestType::saturated(1.5f)) == 1.5f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if constexpr (!std::is_same_v<TestType, fp4_e2m1>)
    CHECK(std::isnan(static_cast<float>(TestType::saturated(nan))));
  else CHECK(std::signbit(static_cast<float>(TestType::saturated(nan))));
}

TEST_CASE("e8m0 saturates to the ends of its range", "[float_types]") {
  CHECK(e8m0::saturated(0.0f).bits == 0);
  CHECK(e8m0::saturated(-1.0f).bits == 0);
  CHECK(e8m0::saturated(std::numeric_limits<float>::infinity()).bits == 0xFE);
  CHECK(e8m0::saturated(std::numeric_limits<float>::quiet_NaN()).bits == 0xFF);
}

TEST_CASE("conversions are constant expressions", "[float_types]") {
  STATIC_REQUIRE(half(1.0f).bits == 0x3C00);
  STATIC_REQUIRE(half(65520.0f).bits == 0x7C00);
  STATIC_REQUIRE(half(5.9604645e-8f).bits == 1);
  STATIC_REQUIRE(static_cast<float>(half::from_bits(1)) == 5.9604645e-8f);
  STATIC_REQUIRE(bfloat16(1.00390625f).bits == 0x3F80);
  STATIC_REQUIRE(fp8_e4m3(464.0f).bits == 0x7E);
  STATIC_REQUIRE(static_cast<float>(fp4_e2m1(5.0f)) == 4.0f);
  STATIC_REQUIRE(static_cast<float>(e8m0::from_bits(127)) == 1.0f);
}

TEST_CASE("dtypes know their names and sizes", "[dtype]") {
  for (std::size_t i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<DType>(i);
    CHECK(find_dtype(to_string(t)) == t);
    visit_dtype(t, [&]<class T>(std::type_identity<T>) {
      CHECK(dtype_of<T> == t);
      CHECK(sizeof(T) == size_of(t));
    });
  }
  CHECK_FALSE(find_dtype("q4_0"));
  CHECK(bits_of(DType::f4_e2m1) == 4);
  CHECK(is_floating(DType::e8m0));
  CHECK_FALSE(is_floating(DType::boolean));
}
