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

/// Searches scale and integer zero together: ranges a little smaller or larger than the data's, each with the
/// zero that follows from keeping its lower end, its middle or its upper end; then one step of the zero to
/// either side of the best.
template <class Storage>
ScaleZero search_scale_zero(int top, std::span<const float> x, std::span<const float> w, ScaleZero first,
                            Storage storage) noexcept {
  const auto levels_of = [top](int zero) { return LinearLevels{-zero, top - zero}; };
  ScaleZero best = first;
  double error = group_error(levels_of(first.zero), x, w, first.scale);
  const auto refine = [&](float scale, int zero) {
    const LinearLevels levels = levels_of(std::clamp(zero, 0, top));
    nibble::detail::BestFit fit(levels, x, w, storage, {scale, 0});
    fit.refine({scale, 0}, false);
    if (fit.error() < error) {
      error = fit.error();
      best = {fit.best(), -levels.low};
    }
  };
  const detail::Range range = detail::range_of(x);
  const float width = first.scale.scale * static_cast<float>(top), low = -range.low * safe_inverse(width);
  const nibble::detail::ScanView scan(x, w, 0, width);  // the data lie within -low .. 1 - low
  if (scan.norm == 0 || !std::isfinite(width)) return best;
  float most = 0, scale = 0;
  int zero = first.zero;
  for (const float cover : nibble::detail::covers) {
    const float step = cover / static_cast<float>(top);
    for (const float share : {0.0f, 0.5f, 1.0f}) {
      const float at = std::clamp((low - share * (1 - cover)) / step, 0.0f, static_cast<float>(top));
      const int z = static_cast<int>(round_to_integer(at));
      const auto s = scan.sums(levels_of(z), step, 0);
      if (s.explained() > most) {
        most = s.explained();
        scale = s.scale();
        zero = z;
      }
    }
  }
  if (most > 0) refine(scale * width, zero);
  for (const int step : {-1, 0, 1}) refine(best.scale.scale, best.zero + step);
  return best;
}

}  // namespace nibble::quant
