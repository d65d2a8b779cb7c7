// SPDX-License-Identifier: MIT
// Rotary frequencies of a head as a table: base^(-2i/d) for pair i of d features, stretched by the
// model's scaling rule. The Rope op only ever sees the table.
#pragma once

#include <cmath>
#include <string>

#include "nibble/core/tensor.hpp"
#include "nibble/ops/rope.hpp"

namespace nibble {

/// How rotary frequencies are stretched beyond the trained context.
struct RopeScaling {
  enum class Kind {
    none,
    linear,  ///< every frequency divided by `factor` (position interpolation, Chen et al. 2023)
    llama3   ///< high frequencies kept, low ones divided by `factor`, a smooth ramp between (Llama 3.1)
  } kind = Kind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;    ///< llama3
  double high_freq_factor = 4.0;   ///< llama3
  double original_context = 8192;  ///< llama3: tokens of the original training context
};

struct RopeSpec {
  Rope::Pairs pairs = Rope::Pairs::halves;
  Index dimensions = 0;   ///< rotated features of a head, even
  double base = 10000.0;  ///< theta
  RopeScaling scaling{};
};

namespace layers {

/// One frequency of the llama3 rule: wavelengths below original/high are kept, those above original/low
/// divided by `factor`, with a linear ramp in between.
inline double llama3_frequency(double frequency, const RopeScaling& s) {
  const double wavelength = 6.283185307179586 / frequency;
  if (wavelength < s.original_context / s.high_freq_factor) return frequency;
  if (wavelength > s.original_context / s.low_freq_factor) return frequency / s.factor;
  const double ramp = (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - ramp) * frequency / s.factor + ramp * frequency;
}

/// Radians per position, [dimensions / 2]. `divisors`, when not empty, holds one more divisor per pair, as
/// some files store them. Throws Error{invalid_argument} on an odd dimension or impossible scaling.
inline Vector<float> rope_frequencies(const RopeSpec& spec, VectorView<const float> divisors = {}) {
  const RopeScaling& s = spec.scaling;
  NIBBLE_EXPECTS(spec.dimensions > 0 && spec.dimensions % 2 == 0,
                 "rotary dimension " + std::to_string(spec.dimensions) + " is not a positive even number");
  NIBBLE_EXPECTS(std::isfinite(spec.base) && spec.base > 0, "rotary base must be a positive number");
  NIBBLE_EXPECTS(std::isfinite(s.factor) && s.factor > 0, "rotary scaling factor must be a positive number");
  NIBBLE_EXPECTS(s.kind != RopeScaling::Kind::llama3 ||
                     (s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor && s.original_context > 0),
                 "llama3 rotary scaling needs 0 < low_freq_factor < high_freq_factor and a positive context");
  const Index half = spec.dimensions / 2;
  NIBBLE_EXPECTS(divisors.empty() || divisors.size() == half,
                 "rotary divisors: " + std::to_string(divisors.size()) + " for " + std::to_string(half) + " pairs");
  Vector<float> table({half});
  for (Index i = 0; i < half; ++i) {
    double f = std::pow(spec.base, -2.0 * double(i) / double(spec.dimensions));
    if (s.kind == RopeScaling::Kind::linear) f /= s.factor;
    if (s.kind == RopeScaling::Kind::llama3) f = llama3_frequency(f, s);
    if (!divisors.empty()) {
      NIBBLE_EXPECTS(divisors[i] > 0 && std::isfinite(divisors[i]), "rotary divisors must be positive numbers");
      f /= double(divisors[i]);
    }
    table(i) = float(f);
  }
  return table;
}

}  // namespace layers
}  // namespace nibble
