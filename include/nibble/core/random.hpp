// SPDX-License-Identifier: MIT
// Counter-based random numbers: the n-th draw of a seed is a pure function of (seed, n), so results do
// not depend on threads, platforms or neighbours. SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
#pragma once

#include <cmath>
#include <cstdint>

namespace nibble {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed = 0, std::uint64_t counter = 0) noexcept
      : seed_(seed), counter_(counter) {}

  /// The draw at position `n` of stream `seed`.
  static constexpr std::uint64_t at(std::uint64_t seed, std::uint64_t n) noexcept {
    return mix(mix(seed) + 0x9E3779B97F4A7C15ull * (n + 1));
  }
  constexpr std::uint64_t next() noexcept { return at(seed_, counter_++); }
  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  constexpr double uniform(double lo, double hi) noexcept { return lo + (hi - lo) * uniform(); }
  /// Standard normal (Box-Muller; consumes two draws).
  double normal() noexcept {
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }
  constexpr std::uint64_t counter() const noexcept { return counter_; }

 private:
  static constexpr std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  std::uint64_t seed_, counter_;
};

}  // namespace nibble
