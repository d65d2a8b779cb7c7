// SPDX-License-Identifier: MIT
// What every block format must satisfy, written once over a format type: run for each entry of AllFormats
// and for formats of a test's or a user's own.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "nibble/format/format_info.hpp"
#include "support/catch.hpp"

namespace nibble::test {

/// A block as doubles decides what its definition says; the float must be that number, rounded once.
template <BlockFormat F>
struct Decoded {
  static constexpr std::size_t n = static_cast<std::size_t>(F::block_size);
  std::array<float, n> values{};
  std::array<std::uint8_t, n> codes{};
  std::array<float, n> scales{}, mins{};  // per sub-group, expanded to one per weight

  explicit Decoded(const typename F::Block& b) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&b);
    format_info<F>().decode(bytes, values.data(), 1);
    if constexpr (AffineFormat<F>) {
      constexpr auto groups = n / static_cast<std::size_t>(F::sub_group);
      std::array<float, groups> s{}, m{};
      format_info<F>().unpack(bytes, codes.data(), s.data(), m.data());
      for (std::size_t i = 0; i < n; ++i) {
        scales[i] = s[i / static_cast<std::size_t>(F::sub_group)];
        mins[i] = m[i / static_cast<std::size_t>(F::sub_group)];
      }
    }
  }
};

template <BlockFormat F>
typename F::Block random_block(std::mt19937& rng) {
  typename F::Block b;
  std::array<std::uint8_t, sizeof(b)> bytes;
  for (auto& v : bytes) v = static_cast<std::uint8_t>(rng());
  std::memcpy(&b, bytes.data(), sizeof(b));
  return b;
}

template <BlockFormat F>
typename F::Block encode(const std::vector<float>& x, const std::vector<float>& importance = {}) {
  typename F::Block b;
  std::memset(&b, 0xA5, sizeof(b));  // an encoder writes every byte
  format_info<F>().encode(x.data(), importance.empty() ? nullptr : importance.data(), reinterpret_cast<std::byte*>(&b), 1);
  return b;
}

/// decode is the affine view of unpack, in double precision and rounded once; codes stay within code_bits.
template <AffineFormat F>
void check_affine_view() {
  std::mt19937 rng(1);
  for (int i = 0; i < 200; ++i) {
    const Decoded<F> d(random_block<F>(rng));
    for (std::size_t k = 0; k < d.n; ++k) {
      REQUIRE(d.codes[k] < (1u << F::code_bits));
      const double exact = static_cast<double>(d.scales[k]) * static_cast<double>(code_value<F>(d.codes[k])) - static_cast<double>(d.mins[k]);
      if (std::isfinite(exact)) REQUIRE(d.values[k] == static_cast<float>(exact));
      else REQUIRE_FALSE(std::isfinite(d.values[k]));
    }
  }
}

/// pack is the inverse of unpack, byte for byte, for blocks whose scales are finite.
template <PackableFormat F>
void check_pack() {
  constexpr auto n = static_cast<std::size_t>(F::block_size), groups = n / static_cast<std::size_t>(F::sub_group);
  std::mt19937 rng(2);
  for (int i = 0; i < 200; ++i) {
    const auto block = random_block<F>(rng);
    std::array<std::uint8_t, n> codes;
    std::array<float, groups> scales, mins;
    const auto& info = format_info<F>();
    info.unpack(reinterpret_cast<const std::byte*>(&block), codes.data(), scales.data(), mins.data());
    bool finite = true;
    for (std::size_t g = 0; g < groups; ++g) finite = finite && std::isfinite(scales[g]) && std::isfinite(mins[g]);
    if (!finite) continue;
    typename F::Block again;
    info.pack(codes.data(), scales.data(), mins.data(), reinterpret_cast<std::byte*>(&again));
    REQUIRE(std::memcmp(&block, &again, sizeof(block)) == 0);
  }
}

/// Groups that break naive quantizers. Named, so that a failure says which.
struct NamedGroup { std::string name; std::vector<float> x; };
inline std::vector<NamedGroup> degenerate_groups(std::size_t n) {
  constexpr float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  std::vector<NamedGroup> g;
  const auto constant = [&](std::string name, float v) { g.push_back({std::move(name), std::vector<float>(n, v)}); };
  const auto outlier = [&](std::string name, float rest, float v) {
    constant(std::move(name), rest);
    g.back().x[n / 2] = v;
  };
  constant("all zero", 0.0f);
  constant("all negative zero", -0.0f);
  constant("constant positive", 0.3f);
  constant("constant negative", -0.3f);
  constant("subnormal", 1e-40f);
  constant("negative subnormal", -3e-39f);
  constant("smallest subnormal", tiny);
  constant("half underflow", 1e-8f);
  constant("65504", 65504.0f);
  constant("1e38", 1e38f);
  constant("largest float", huge);
  constant("most negative float", -huge);
  outlier("one huge outlier", 0.01f, 1000.0f);
  outlier("one outlier among zeros", 0.0f, -7.0f);
  outlier("largest float among zeros", 0.0f, huge);
  outlier("smallest subnormal among zeros", 0.0f, tiny);
  outlier("subnormal among ones", 1.0f, tiny);
  outlier("opposite extremes", huge, -huge);
  g.push_back({"signed zeros", std::vector<float>(n)});
  for (std::size_t i = 0; i < n; i += 2) g.back().x[i] = -0.0f;
  g.push_back({"zeros and ones", std::vector<float>(n)});
  for (std::size_t i = 0; i < n; i += 3) g.back().x[i] = 1.0f;
  return g;
}

/// Whether every weight of value zero keeps it: no minimum, and a code that stands for exactly zero.
template <BlockFormat F>
constexpr bool has_exact_zero() {
  if constexpr (AffineFormat<F>) return !F::has_min && requires { F::zero; };
  else return true;
}

/// Finite results, all-zero groups exactly zero, and zero weights exactly zero where the format has a zero.
template <EncodableFormat F>
void check_degenerate() {
  constexpr auto n = static_cast<std::size_t>(F::block_size);
  const std::vector<std::vector<float>> importances{{}, std::vector<float>(n, 1.0f), std::vector<float>(n, 0.0f),
                                                    std::vector<float>(n, 1e30f)};
  for (const auto& [name, x] : degenerate_groups(n)) {
    bool all_zero = true;
    for (float v : x) all_zero = all_zero && v == 0;
    for (const auto& w : importances) {
      INFO(F::name << ": " << name << ", importance " << (w.empty() ? -1.0f : w[0]));
      const Decoded<F> d(encode<F>(x, w));
      for (std::size_t i = 0; i < n; ++i) {
        REQUIRE(std::isfinite(d.values[i]));
        if (all_zero || (has_exact_zero<F>() && x[i] == 0)) REQUIRE(d.values[i] == 0);
      }
    }
  }
}

/// Weighted squared error of a block, in double.
template <BlockFormat F>
double block_error(const typename F::Block& b, const std::vector<float>& x, const std::vector<float>& w = {}) {
  const Decoded<F> d(b);
  double e = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(x[i]) - static_cast<double>(d.values[i]);
    e += (w.empty() ? 1.0 : static_cast<double>(w[i])) * t * t;
  }
  return e;
}

/// Every weight sits on a code nearest to it for the stored scale. The plain encoders choose codes before
/// the scale is rounded to 11 or 8 bits, which moves code C by at most |C| * scale * 2^-8 (bfloat16) or 2^-11.
template <EncodableFormat F>
void check_nearest_codes(float scale_rounding) {
  constexpr auto n = static_cast<std::size_t>(F::block_size);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 100; ++round) {
    std::vector<float> x(n), w(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = normal(rng) * (round % 3 == 0 ? 1e-3f : 1.0f) + (round % 4 == 0 ? 2.0f : 0.0f);
      w[i] = std::exp(normal(rng));
    }
    for (const bool weighted : {false, true}) {
      const Decoded<F> d(encode<F>(x, weighted ? w : std::vector<float>{}));
      for (std::size_t i = 0; i < n; ++i) {
        if constexpr (AffineFormat<F>) {
          double nearest = std::numeric_limits<double>::infinity(), largest = 0;
          for (unsigned c = 0; c < (1u << F::code_bits); ++c) {
            const double level = static_cast<double>(code_value<F>(static_cast<std::uint8_t>(c)));
            largest = std::max(largest, std::abs(level));
            nearest = std::min(nearest, std::abs(static_cast<double>(x[i]) - (static_cast<double>(d.scales[i]) * level - static_cast<double>(d.mins[i]))));
          }
          const double slack = std::abs(static_cast<double>(d.scales[i])) * largest * static_cast<double>(scale_rounding) +
                               std::abs(static_cast<double>(d.mins[i])) * static_cast<double>(scale_rounding);
          REQUIRE(std::abs(static_cast<double>(x[i]) - static_cast<double>(d.values[i])) <= nearest + slack * 2);
        } else {
          REQUIRE(std::abs(x[i] - d.values[i]) <= std::abs(x[i]) * scale_rounding * 0.5f);
        }
      }
    }
  }
}

/// Importance never makes the weighted error larger, for any block; and where the format searches at all,
/// it makes the sum smaller.
template <EncodableFormat F>
void check_importance(bool searches) {
  constexpr auto n = static_cast<std::size_t>(F::block_size);
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  double plain = 0, weighted = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> x(n), w(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = normal(rng) + (round % 5 == 0 ? 1.0f : 0.0f);
      w[i] = std::exp(2 * normal(rng));
    }
    if (round % 7 == 0) x[0] = 12;
    if (round % 11 == 0) w[1] = 0;
    const double a = block_error<F>(encode<F>(x), x, w), b = block_error<F>(encode<F>(x, w), x, w);
    REQUIRE(b <= a * (1 + 1e-5));  // the search compares in double, the decoded values are floats
    plain += a;
    weighted += b;
  }
  if (searches) CHECK(weighted < 0.97 * plain);
}

}  // namespace nibble::test
