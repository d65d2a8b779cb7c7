// SPDX-License-Identifier: MIT
#include "nibble/eval/divergence.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/core/random.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(Random& random, std::size_t n, double spread) {
  std::vector<float> row(n);
  for (float& x : row) x = float(spread * random.normal());
  return row;
}

}  // namespace

TEST_CASE("KL divergence equals its closed form") {
  // p = (0.75, 0.25), q = (0.5, 0.5): 0.75 ln 1.5 + 0.25 ln 0.5
  const std::vector<float> p{std::log(3.0f), 0}, q{7, 7};
  CHECK(kl_divergence(p, q) == Approx(0.75 * std::log(1.5) + 0.25 * std::log(0.5)).epsilon(1e-7));
  // The other way round is another number: 0.5 ln(2/3) + 0.5 ln 2
  CHECK(kl_divergence(q, p) == Approx(0.5 * std::log(2 / 3.0) + 0.5 * std::log(2.0)).epsilon(1e-7));
  // Against a uniform distribution: log n - entropy
  Random random(5);
  const std::vector<float> row = random_row(random, 500, 2);
  double entropy = 0;
  const double total = log_sum_exp(row);
  for (const float x : row) entropy -= std::exp(double(x) - total) * (double(x) - total);
  CHECK(kl_divergence(row, std::vector<float>(500, 0.0f)) == Approx(std::log(500.0) - entropy).epsilon(1e-13));
}

TEST_CASE("KL divergence: identity, sign, shift and masks") {
  Random random(6);
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> p = random_row(random, 64, 5), q = random_row(random, 64, 5);
    CHECK(kl_divergence(p, p) == 0.0);
    CHECK(kl_divergence(p, q) > 0);
    std::vector<float> nearly = p;
    nearly[3] = std::nextafter(nearly[3], 100.0f);
    CHECK(kl_divergence(p, nearly) >= 0);
    std::vector<float> shifted = q;
    for (float& x : shifted) x += 4096.0f;  // rounds the row itself, so compare with the rounded row moved back
    std::vector<float> back = shifted;
    for (float& x : back) x -= 4096.0f;
    CHECK(kl_divergence(p, shifted) == Approx(kl_divergence(p, back)).epsilon(1e-11));
  }
  CHECK(kl_divergence(std::vector<float>{0, -inf, 0}, std::vector<float>{0, 5, 0}) ==
        Approx(std::log((2 + std::exp(5.0)) / 2)).epsilon(1e-12));
  CHECK(kl_divergence(std::vector<float>{0, -inf}, std::vector<float>{0, -inf}) == 0.0);
  CHECK(kl_divergence(std::vector<float>{0, 0}, std::vector<float>{0, -inf}) == double(inf));
  CHECK(kl_divergence(std::vector<float>{3e38f, 0}, std::vector<float>{-3e38f, 0}) > 1e38);
  CHECK_THROWS_AS(kl_divergence(std::vector<float>{0, std::nanf("")}, std::vector<float>{0, 0}), Error);
  CHECK_THROWS_AS(kl_divergence(std::vector<float>{0, 0}, std::vector<float>{inf, 0}), Error);
  CHECK_THROWS_AS(kl_divergence(std::vector<float>{-inf, -inf}, std::vector<float>{0, 0}), Error);
  CHECK_THROWS_AS(kl_divergence(std::vector<float>{0, 0, 0}, std::vector<float>{0, 0}), Error);
}

TEST_CASE("log probability of a token") {
  const std::vector<float> row{std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  CHECK(log_probability(row, 2) == Approx(std::log(5 / 8.0)).epsilon(1e-7));
  CHECK_THROWS_AS(log_probability(row, 3), Error);
  CHECK_THROWS_AS(log_probability(row, -1), Error);
}

TEST_CASE("running mean and standard error") {
  RunningMean m;
  CHECK(m.mean() == 0);
  CHECK(m.standard_error() == 0);
  m.add(5);
  CHECK(m.standard_error() == 0);
  RunningMean four;
  for (const double x : {1.0, 2.0, 3.0, 6.0}) four.add(x);
  CHECK(four.mean() == 3);
  CHECK(four.standard_error() == Approx(std::sqrt(14.0 / 3 / 4)).epsilon(1e-15));
  // A large offset does not drown the spread.
  RunningMean moved;
  for (const double x : {1.0, 2.0, 3.0, 6.0}) moved.add(x + 1e9);
  CHECK(moved.standard_error() == Approx(four.standard_error()).epsilon(1e-6));
}
