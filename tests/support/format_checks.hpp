// SPDX-License-Identifier: MIT
// What every block format must satisfy, written once over FormatInfo: run for each entry of the list and
// for formats of a test's or a user's own.
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

using Bytes = std::vector<std::byte>;
using Values = std::vector<float>;

inline std::size_t length(const FormatInfo& f) { return static_cast<std::size_t>(f.block_size); }

/// A block decoded, and unpacked with its scales and minima repeated for every weight.
struct Decoded {
  Values values, scales, mins;
  std::vector<std::uint8_t> codes;

  Decoded(const FormatInfo& f, const Bytes& block)
      : values(length(f)), scales(length(f)), mins(length(f)), codes(length(f)) {
    f.decode(block.data(), values.data(), 1);
    if (f.dense) return;
    Values s(static_cast<std::size_t>(f.sub_groups())), m(s.size());
    f.unpack(block.data(), codes.data(), s.data(), m.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      scales[i] = s[i / static_cast<std::size_t>(f.sub_group)];
      mins[i] = m[i / static_cast<std::size_t>(f.sub_group)];
    }
  }
};

inline double level(const FormatInfo& f, unsigned code) {
  return f.codebook != nullptr ? f.codebook[code] : static_cast<int>(code) - f.zero;
}

inline Bytes random_block(const FormatInfo& f, std::mt19937& rng) {
  Bytes b(static_cast<std::size_t>(f.block_bytes));
  for (auto& v : b) v = static_cast<std::byte>(rng());
  return b;
}

inline Bytes encode(const FormatInfo& f, const Values& x, const Values& importance = {}) {
  Bytes b(static_cast<std::size_t>(f.block_bytes), std::byte{0xA5});  // an encoder writes every byte
  f.encode(x.data(), importance.empty() ? nullptr : importance.data(), b.data(), 1);
  return b;
}

/// decode is the affine view of unpack, rounded once; codes stay within code_bits.
inline void check_affine_view(const FormatInfo& f) {
  if (f.dense) return;
  std::mt19937 rng(1);
  for (int i = 0; i < 200; ++i) {
    const Decoded d(f, random_block(f, rng));
    for (std::size_t k = 0; k < d.values.size(); ++k) {
      REQUIRE(d.codes[k] < (1u << f.code_bits));
      const double exact =
          static_cast<double>(d.scales[k]) * level(f, d.codes[k]) - static_cast<double>(d.mins[k]);
      if (std::isfinite(exact)) REQUIRE(d.values[k] == static_cast<float>(exact));
      else REQUIRE_FALSE(std::isfinite(d.values[k]));
    }
  }
}

/// pack is the inverse of unpack, byte for byte, for blocks whose scales are finite.
inline void check_pack(const FormatInfo& f) {
  if (f.pack == nullptr) return;
  std::mt19937 rng(2);
  int checked = 0;
  for (int i = 0; i < 200; ++i) {
    const Bytes block = random_block(f, rng);
    std::vector<std::uint8_t> codes(length(f));
    Values scales(static_cast<std::size_t>(f.sub_groups())), mins(scales.size());
    f.unpack(block.data(), codes.data(), scales.data(), mins.data());
    bool finite = true;
    for (std::size_t g = 0; g < scales.size(); ++g)
      finite = finite && std::isfinite(scales[g]) && std::isfinite(mins[g]);
    if (!finite) continue;
    Bytes again(block.size());
    f.pack(codes.data(), scales.data(), mins.data(), again.data());
    REQUIRE(block == again);
    ++checked;
  }
  CHECK(checked > 100);
}

/// Groups that break naive quantizers. Named, so that a failure says which.
struct NamedGroup { std::string name; Values x; };
inline std::vector<NamedGroup> degenerate_groups(std::size_t n) {
  constexpr float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  std::vector<NamedGroup> g;
  const auto constant = [&](std::string name, float v) { g.push_back({std::move(name), Values(n, v)}); };
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
  constant("signed zeros", 0.0f);
  for (std::size_t i = 0; i < n; i += 2) g.back().x[i] = -0.0f;
  constant("zeros and ones", 0.0f);
  for (std::size_t i = 0; i < n; i += 3) g.back().x[i] = 1.0f;
  return g;
}

/// Finite results, all-zero groups exactly zero, and zero weights exactly zero where a code stands for zero.
inline void check_degenerate(const FormatInfo& f) {
  const std::size_t n = length(f);
  const std::vector<Values> importances{
      {}, Values(n, 1.0f), Values(n, 0.0f), Values(n, 1e30f), Values(n, 1e-40f)};
  for (const auto& [name, x] : degenerate_groups(n)) {
    bool all_zero = true;
    for (float v : x) all_zero = all_zero && v == 0;
    for (const auto& w : importances) {
      INFO(f.name << ": " << name << ", importance " << (w.empty() ? -1.0f : w[0]));
      const Decoded d(f, encode(f, x, w));
      for (std::size_t i = 0; i < n; ++i) {
        REQUIRE(std::isfinite(d.values[i]));
        if (all_zero || (!f.has_min && f.codebook == nullptr && x[i] == 0)) REQUIRE(d.values[i] == 0);
      }
    }
  }
}

/// Weighted squared error of a block, in double.
inline double block_error(const FormatInfo& f, const Bytes& b, const Values& x, const Values& w = {}) {
  const Decoded d(f, b);
  double e = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(x[i]) - static_cast<double>(d.values[i]);
    e += (w.empty() ? 1.0 : static_cast<double>(w[i])) * t * t;
  }
  return e;
}

/// Every weight sits on the code nearest to it, hence within half a step of it inside the range. The plain
/// encoders choose codes before the scale is rounded to 11 (half) or 8 (bfloat16) bits; that moves the value
/// of code C by at most |C| * scale * `rounding` (|C| * 2^-25 where a half is subnormal), once for the value
/// and once for the choice.
inline void check_nearest_codes(const FormatInfo& f, double rounding) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 100; ++round) {
    Values x(length(f)), w(length(f));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = normal(rng) * (round % 3 == 0 ? 1e-3f : 1.0f) + (round % 4 == 0 ? 2.0f : 0.0f);
      if (round % 10 == 9 && !f.dense) x[i] *= 4e5f;  // most scales saturate: codes follow what is stored
      w[i] = std::exp(normal(rng));
    }
    for (const bool weighted : {false, true}) {
      const Decoded d(f, encode(f, x, weighted ? w : Values{}));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = static_cast<double>(x[i]),
                     off = std::abs(exact - static_cast<double>(d.values[i]));
        if (f.dense) { REQUIRE(off <= std::abs(exact) * rounding); continue; }
        const double scale = static_cast<double>(d.scales[i]), min = static_cast<double>(d.mins[i]);
        double nearest = std::numeric_limits<double>::infinity(), largest = 0;
        for (unsigned c = 0; c < (1u << f.code_bits); ++c) {
          largest = std::max(largest, std::abs(level(f, c)));
          nearest = std::min(nearest, std::abs(exact - (scale * level(f, c) - min)));
        }
        REQUIRE(off <= nearest + 2 * (std::max(rounding * std::abs(scale), 0x1p-25) * largest +
                                      rounding * std::abs(min)));
      }
    }
  }
}

/// Importance never makes the weighted error larger, for any block; and where the format searches at all,
/// it makes the sum smaller.
inline void check_importance(const FormatInfo& f, bool gains) {
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  double plain = 0, weighted = 0;
  for (int round = 0; round < 200; ++round) {
    Values x(length(f)), w(length(f));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = normal(rng) + (round % 5 == 0 ? 1.0f : 0.0f);
      w[i] = std::exp(2 * normal(rng));
    }
    if (round % 7 == 0) x.front() = 12;
    if (round % 11 == 0) w.back() = 0;
    const double a = block_error(f, encode(f, x), x, w), b = block_error(f, encode(f, x, w), x, w);
    REQUIRE(b <= a * (1 + 1e-5));  // the search compares in double, the decoded values are floats
    plain += a;
    weighted += b;
  }
  if (gains) CHECK(weighted < 0.97 * plain);
}

/// Everything above. `rounding`: relative rounding of what the format stores as a scale.
inline void check_format(const FormatInfo& f, double rounding = 0x1p-11) {
  INFO("format " << f.name);
  check_affine_view(f);
  check_pack(f);
  if (!f.has_encode()) return;
  check_degenerate(f);
  check_nearest_codes(f, rounding);
  check_importance(f, f.pack != nullptr && f.code_bits < 8);
}

}  // namespace nibble::test
