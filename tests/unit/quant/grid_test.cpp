// SPDX-License-Identifier: MIT
// Grids: parameters are what storage keeps, codes are nearest, refit never hurts, search never loses.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "nibble/format/formats.hpp"
#include "nibble/quant/grid.hpp"
#include "support/catch.hpp"

using namespace nibble;
using namespace nibble::quant;

namespace {

std::vector<float> gaussian(std::size_t n, unsigned seed, float mean = 0) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(mean);
  std::vector<float> x(n);
  for (float& v : x) v = normal(rng);
  return x;
}

std::vector<float> weights(std::size_t n, unsigned seed) {
  auto w = gaussian(n, seed);
  for (float& v : w) v = std::exp(v);
  return w;
}

template <class G>
double error(const G& g, const GroupParams& p, std::span<const std::uint8_t> codes, std::span<const float> x,
             std::span<const float> w) {
  double e = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(g.value(p, codes[i]));
    e += static_cast<double>(w[i]) * d * d;
  }
  return e;
}

template <class G>
std::vector<std::uint8_t> nearest(const G& g, const GroupParams& p, std::span<const float> x) {
  std::vector<std::uint8_t> codes(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = g.nearest(p, x[i]);
  return codes;
}

/// What algorithms rely on, for any grid with one level.
template <Grid G>
void check_grid(const G& g, Index cols, unsigned codes_count, unsigned first_code = 0) {
  const auto n = static_cast<std::size_t>(g.group() == 0 ? cols : g.group());
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto x = gaussian(n, seed, seed % 3 == 0 ? 1.5f : 0.0f), w = weights(n, seed + 100);
    GroupParams p;
    g.fit(x, w, {&p, 1});
    const auto codes = nearest(g, p, x);
    for (std::size_t i = 0; i < n; ++i) {  // no other code is nearer
      const float off = std::abs(x[i] - g.value(p, codes[i]));
      for (unsigned c = first_code; c < codes_count; ++c) {
        const float v = g.value(p, static_cast<std::uint8_t>(c));
        if (std::isfinite(v)) REQUIRE(off <= std::abs(x[i] - v) * 1.0001f + 1e-6f);
      }
    }
    const GroupParams better = g.refit(codes, x, w, p);
    CHECK(error(g, better, codes, x, w) <= error(g, p, codes, x, w) * 1.002);  // scales round to storage
    CHECK(g.refit(codes, x, w, better) == better);

    QuantizedTensor t = g.make(2, static_cast<Index>(n));  // what is stored is what value() says
    g.store(t, 1, 0, {&p, 1}, codes);
    std::vector<float> row(n);
    t.decode_row(1, row);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(row[i] == g.value(p, codes[i]));
  }
}

std::vector<QuantSpec> specs() {
  std::vector<QuantSpec> all;
  for (int bits = 1; bits <= 8; ++bits) {
    all.push_back(integer::symmetric(bits, 32));
    if (bits > 1) all.push_back(integer::symmetric_narrow(bits, 32, DType::bf16));
    all.push_back(integer::asymmetric(bits, 32));
    all.push_back(integer::affine_min(bits, 32, DType::f32));
  }
  for (const Codebook c : {Codebook::binary, Codebook::ternary, Codebook::iq4_nl, Codebook::e2m1,
                           Codebook::nf4, Codebook::e4m3, Codebook::e5m2}) {
    QuantSpec s{.bits = nibble::detail::codebook_bits(c), .codebook = c, .group = {GroupKind::group, 32, 1}};
    all.push_back(s);
  }
  all.push_back({.bits = 4,
                 .codebook = Codebook::e2m1,
                 .group = {GroupKind::group, 16, 1},
                 .scale = {DType::f8_e4m3, 0, false, 1}});
  all.push_back({.bits = 4,
                 .codebook = Codebook::e2m1,
                 .group = {GroupKind::group, 32, 1},
                 .scale = {DType::e8m0, 0, false, 1}});
  all.push_back({.bits = 2,
                 .codebook = Codebook::user,
                 .group = {GroupKind::row, 0, 1},
                 .user_codebook = {-1.5f, -0.4f, 0.4f, 1.5f}});
  return all;
}

}  // namespace

TEST_CASE("integer grids satisfy what algorithms rely on", "[grid]") {
  for (const QuantSpec& s : specs())
    for (const Fit fit : {Fit::plain, Fit::search}) {
      INFO(to_string(s) << (fit == Fit::search ? " searched" : " plain"));
      check_grid(IntegerGrid(s, fit), 40, s.codebook == Codebook::ternary ? 3 : 1u << s.bits,
                 s.narrow_range ? 1 : 0);
    }
}

TEST_CASE("block grids satisfy what algorithms rely on", "[grid]") {
  check_grid(BlockGrid<Q4_0>{}, 32, 16);
  check_grid(BlockGrid<Q4_1>{}, 32, 16);
  check_grid(BlockGrid<Q5_0>{}, 32, 32);
  check_grid(BlockGrid<Q5_1>{}, 32, 32);
  check_grid(BlockGrid<Q8_0>{}, 32, 256);
  check_grid(BlockGrid<IQ4_NL>{}, 32, 16);
  CHECK_THROWS_AS(BlockGrid<Q4_0>{}.fit(std::vector<float>(31), {}, std::span<GroupParams>()), Error);
}

TEST_CASE("a search never has more weighted error than the plain rule, group by group",
          "[grid][scale_search]") {
  for (const QuantSpec& s : specs()) {
    INFO(to_string(s));
    const IntegerGrid plain(s, Fit::plain), search(s, Fit::search);
    double sum_plain = 0, sum_search = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
      auto x = gaussian(37, seed, seed % 4 == 0 ? 0.7f : 0.0f);
      const auto w = weights(37, seed + 1000);
      if (seed % 9 == 0) x[5] = 25;
      const double a = plain.error(x, w, plain.fit_group(x, w)),
                   b = search.error(x, w, search.fit_group(x, w));
      REQUIRE(b <= a);
      sum_plain += a;
      sum_search += b;
    }
    if (s.bits <= 4) CHECK(sum_search < 0.98 * sum_plain);
  }
}

TEST_CASE("symmetric 4-bit groups reach the known error on Gaussian weights", "[grid][scale_search]") {
  // Relative RMSE of group 128 with half scales: 0.118 for absmax/7, 0.104 for the full range, 0.097
  // searched.
  const auto rmse = [](const IntegerGrid& g) {
    double e = 0, power = 0;
    for (unsigned seed = 0; seed < 400; ++seed) {
      const auto x = gaussian(128, seed);
      e += g.error(x, {}, g.fit_group(x, {}));
      for (float v : x) power += static_cast<double>(v) * static_cast<double>(v);
    }
    return std::sqrt(e / power);
  };
  CHECK(rmse(IntegerGrid(integer::symmetric_narrow(4, 128), Fit::plain)) == Approx(0.118).margin(0.002));
  CHECK(rmse(IntegerGrid(integer::symmetric(4, 128), Fit::plain)) == Approx(0.1037).margin(0.002));
  CHECK(rmse(IntegerGrid(integer::symmetric(4, 128), Fit::search)) < 0.0975);
  CHECK(rmse(IntegerGrid(integer::asymmetric(4, 128), Fit::search)) < 0.096);
  QuantSpec codebook = integer::symmetric(4, 128);
  codebook.codebook = Codebook::iq4_nl;
  CHECK(rmse(IntegerGrid(codebook, Fit::search)) < 0.0885);
}

TEST_CASE("exact grid points are found exactly", "[grid]") {
  for (const QuantSpec& s :
       {integer::symmetric(4, 64), integer::asymmetric(4, 64), integer::affine_min(4, 64)}) {
    INFO(to_string(s));
    const IntegerGrid g(s);
    std::vector<float> x(64);
    for (std::size_t i = 0; i < 64; ++i) x[i] = 0.125f * static_cast<float>(static_cast<int>(i % 16) - 8);
    CHECK(g.error(x, {}, g.fit_group(x, {})) == 0);
  }
}

TEST_CASE("symmetric grids and scales without a sign stay positive", "[grid][scale_search]") {
  for (const QuantSpec& s : specs()) {
    const bool unsigned_scale = s.scale.dtype == DType::e8m0;
    const bool symmetric = s.narrow_range || s.codebook == Codebook::e2m1 || s.codebook == Codebook::nf4 ||
                           s.codebook == Codebook::binary || s.codebook == Codebook::ternary;
    if (!unsigned_scale && !symmetric) continue;
    for (const Fit fit : {Fit::plain, Fit::search})
      for (unsigned seed = 0; seed < 50; ++seed) {
        INFO(to_string(s) << ", seed " << seed);
        const auto x = gaussian(32, seed);
        const IntegerGrid g(s, fit);
        const GroupParams p = g.fit_group(x, {});
        REQUIRE(p.scale > 0);
        double power = 0;
        for (float v : x) power += static_cast<double>(v) * static_cast<double>(v);
        if (fit == Fit::search || s.bits > 1)
          REQUIRE(g.error(x, {}, p) < power);  // better than storing zeros, for either sign of the extreme
      }
  }
}
