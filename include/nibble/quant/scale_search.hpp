// SPDX-License-Identifier: MIT
// Scale search for integer grids, on top of format/scale_fit.hpp: the integer zero point joins the search.
// As there, candidates are judged by the weighted error of what would be stored, and the plain choice is the
// first of them, so the result is never worse.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "nibble/format/scale_fit.hpp"

namespace nibble::quant {

namespace detail {

/// Magnitudes beyond this saturate, so that no rounding of a scale turns a value infinite.
inline constexpr float largest_weight = 1.5e38f;

struct Range { float low = 0, high = 0, extreme = 0; };
inline Range range_of(std::span<const float> x) noexcept {
  Range r;
  if (!x.empty()) r.low = r.high = std::clamp(x[0], -largest_weight, largest_weight);
  for (float v : x) {
    v = std::clamp(v, -largest_weight, largest_weight);
    r.low = std::min(r.low, v);
    r.high = std::max(r.high, v);
    if (std::abs(v) > std::abs(r.extreme)) r.extreme = v;
  }
  return r;
}

}  // namespace detail

/// value = scale * (code - zero), codes and zero in 0..top.
struct ScaleZero {
  GroupScale scale;
  int zero = 0;
};

/// Searches scale and integer zero together: shrunken ranges, each with the zero that follows from its lower
/// end, its middle or its upper end, and one step of the zero to either side of the best.
template <class Storage>
ScaleZero search_scale_zero(int top, std::span<const float> x, std::span<const float> w, ScaleZero first,
                            Storage storage) noexcept {
  const detail::Range range = detail::range_of(x);
  ScaleZero best = first;
  double error = group_error(LinearLevels{-first.zero, top - first.zero}, x, w, first.scale);
  const auto refine = [&](float scale, float zero) {
    const int z = static_cast<int>(std::clamp(std::nearbyintf(zero), 0.0f, static_cast<float>(top)));
    const LinearLevels levels{-z, top - z};
    const auto offer = [&](float s) {
      if (!std::isfinite(s)) return;
      const GroupScale p = storage({s, 0});
      const double e = group_error(levels, x, w, p);
      if (e < error) { error = e; best = {p, z}; }
    };
    offer(scale);
    const auto sums = nibble::detail::sums_at(levels, x, w, storage({scale, 0}));
    if (sums.cc > 0) offer(static_cast<float>(sums.xc / sums.cc));
  };
  for (const float cover : {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 1.06f}) {
    const float scale = first.scale.scale * cover;
    const float from_low = -range.low * safe_inverse(scale);
    const float outside = static_cast<float>(top) * (1 / cover - 1);  // codes that no longer fit
    for (const float share : {0.0f, 0.5f, 1.0f}) refine(scale, from_low - share * outside);
  }
  for (const int step : {-1, 1}) refine(best.scale.scale, static_cast<float>(best.zero + step));
  refine(best.scale.scale, static_cast<float>(best.zero));
  return best;
}

}  // namespace nibble::quant
