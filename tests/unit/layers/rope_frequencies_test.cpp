// SPDX-License-Identifier: MIT
// Rotary frequency tables: the plain rule, each scaling rule against figures worked out apart, bad arguments.
#include "nibble/layers/rope.hpp"

#include <limits>
#include <map>
#include <vector>

#include "nibble/core/error.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

RopeSpec llama3(Index head_dim, double base, double factor) {
  return {.dimensions = head_dim,
          .base = base,
          .scaling = {.kind = RopeScaling::Kind::llama3,
                      .factor = factor,
                      .low_freq_factor = 1.0,
                      .high_freq_factor = 4.0,
                      .original_context = 8192}};
}

/// Frequency of each pair over its unscaled one.
std::vector<double> ratios(const RopeSpec& spec) {
  RopeSpec plain = spec;
  plain.scaling = {};
  const Vector<float> scaled = layers::rope_frequencies(spec), base = layers::rope_frequencies(plain);
  std::vector<double> r;
  for (Index i = 0; i < scaled.size(); ++i) r.push_back(double(scaled(i)) / double(base(i)));
  return r;
}

}  // namespace

TEST_CASE("frequencies fall geometrically from one radian a token") {
  const Vector<float> f = layers::rope_frequencies({.dimensions = 8, .base = 10000.0});
  REQUIRE(f.size() == 4);
  CHECK(f(0) == 1.0f);
  CHECK(f(1) == 0.1f);
  CHECK(f(2) == 0.01f);
  CHECK(f(3) == 0.001f);
}

TEST_CASE("llama3 scaling keeps short waves, stretches long ones and ramps between") {
  SECTION("head of 64, theta 5e5, factor 32 (Llama 3.2 1B)") {
    const auto r = ratios(llama3(64, 5e5, 32));
    const std::map<std::size_t, double> ramp = {{15, 0.605573}, {16, 0.303743}, {17, 0.103448}};
    for (std::size_t i = 0; i < r.size(); ++i) {
      INFO("pair " << i);
      const double want = i <= 14 ? 1.0 : ramp.contains(i) ? ramp.at(i) : 1.0 / 32;
      CHECK(r[i] == Approx(want).margin(6e-7).epsilon(0));
    }
  }
  SECTION("head of 128, theta 5e5, factor 8 (Llama 3.1)") {
    const auto r = ratios(llama3(128, 5e5, 8));
    for (std::size_t i = 0; i <= 28; ++i) CHECK(r[i] == 1.0);
    CHECK(r[29] == Approx(0.828168).margin(6e-7).epsilon(0));
    CHECK(r[32] == Approx(0.371122).margin(6e-7).epsilon(0));
    CHECK(r[34] == Approx(0.190211).margin(6e-7).epsilon(0));
    for (std::size_t i = 35; i < r.size(); ++i) CHECK(r[i] == 1.0 / 8);
    for (std::size_t i = 1; i < r.size(); ++i) CHECK(r[i] <= r[i - 1]);
  }
}

TEST_CASE("linear scaling divides every frequency, divisors each its own") {
  RopeSpec spec{
      .dimensions = 6, .base = 1000.0, .scaling = {.kind = RopeScaling::Kind::linear, .factor = 4.0}};
  for (const double r : ratios(spec)) CHECK(r == 0.25);
  const std::vector<float> divisors = {1.0f, 2.0f, 8.0f};
  spec.scaling = {};
  const Vector<float> plain = layers::rope_frequencies(spec);
  const Vector<float> divided = layers::rope_frequencies(spec, VectorView<const float>(divisors));
  for (Index i = 0; i < 3; ++i) CHECK(divided(i) == plain(i) / divisors[static_cast<std::size_t>(i)]);
}

TEST_CASE("impossible rotary arguments are refused") {
  const auto refused = [](const RopeSpec& spec, VectorView<const float> divisors = {}) {
    CHECK_THROWS_AS(layers::rope_frequencies(spec, divisors), Error);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Index d : {Index{-2}, Index{0}, Index{7}}) refused({.dimensions = d});
  for (const double b : {0.0, -1.0, nan}) refused({.dimensions = 8, .base = b});
  for (const double f : {0.0, -8.0, nan}) {
    refused({.dimensions = 8, .scaling = {.kind = RopeScaling::Kind::linear, .factor = f}});
    refused(llama3(8, 1e4, f));
  }
  RopeSpec equal = llama3(8, 1e4, 8);
  equal.scaling.low_freq_factor = equal.scaling.high_freq_factor;
  refused(equal);
  const std::vector<float> few = {1.0f, 2.0f, 3.0f}, zero = {1.0f, 0.0f, 1.0f, 1.0f};
  refused({.dimensions = 8}, VectorView<const float>(few));
  refused({.dimensions = 8}, VectorView<const float>(zero));
}
