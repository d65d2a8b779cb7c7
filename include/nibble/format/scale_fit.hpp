// SPDX-License-Identifier: MIT
// The search that every scale-based format shares: given weights x and importances w of one group, find the
// stored scale (and minimum) with the least weighted squared error  sum w (x - (s C[q] - m))^2.
//
// Each candidate is refined by closed-form least squares for the codes it implies, and is judged by the
// error of what would be stored, that is after the scale was rounded to its storage type. The format's own
// plain choice is always the first candidate, so a search is never worse than no search.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "nibble/core/float_types.hpp"

namespace nibble {

/// A group's stored parameters: value = scale * C[code] - min.
struct GroupScale {
  float scale = 0;
  float min = 0;
};

/// How parameters are rounded when stored; the result is always finite.
struct HalfStorage {
  GroupScale operator()(GroupScale p) const noexcept {
    return {half::saturated(p.scale), half::saturated(p.min)};
  }
};

/// Linear codes low..high (inclusive), C[q] = q: q = clamp(round(x / scale)).
struct LinearLevels {
  int low, high;
  float nearest(float x, float inverse_scale) const noexcept {
    const float t = std::nearbyintf(x * inverse_scale);  // NaN cannot occur: both are finite by contract
    return std::clamp(t, static_cast<float>(low), static_cast<float>(high));
  }
  /// The most positive and most negative number at scale 1.
  float top() const noexcept { return static_cast<float>(high); }
  float bottom() const noexcept { return static_cast<float>(low); }
};

/// An ascending codebook.
struct CodebookLevels {
  std::span<const float> values;
  float nearest(float x, float inverse_scale) const noexcept { return values[code(x * inverse_scale)]; }
  /// Index of the nearest value; halves go to the lower index.
  std::size_t code(float t) const noexcept {
    std::size_t lo = 0, hi = values.size() - 1;
    while (hi - lo > 1) {
      const std::size_t mid = (lo + hi) / 2;
      (t < values[mid] ? hi : lo) = mid;
    }
    return t - values[lo] <= values[hi] - t ? lo : hi;
  }
  float top() const noexcept { return values.back(); }
  float bottom() const noexcept { return values.front(); }
};

/// 1 / s, or 0 where that is not a finite number (s zero or so small that it stores as zero anyway).
inline float safe_inverse(float s) noexcept {
  const float r = 1.0f / s;
  return std::isfinite(r) ? r : 0.0f;
}

namespace detail {

inline double importance_at(std::span<const float> w, std::size_t i) noexcept {
  return w.empty() ? 1.0 : static_cast<double>(w[i]);
}

/// Sums that decide a group for one choice of levels c: everything least squares needs.
struct FitSums {
  double w = 0, c = 0, cc = 0, x = 0, xc = 0;
  void add(double weight, double level, double value) noexcept {
    w += weight;
    c += weight * level;
    cc += weight * level * level;
    x += weight * value;
    xc += weight * value * level;
  }
};

}  // namespace detail

/// Weighted squared error of storing x with `p` and the nearest levels.
template <class Levels>
double group_error(const Levels& levels, std::span<const float> x, std::span<const float> w,
                   GroupScale p) noexcept {
  const float inverse = safe_inverse(p.scale);
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float c = levels.nearest(x[i] + p.min, inverse);
    const double d = static_cast<double>(x[i]) -
                     (static_cast<double>(p.scale) * static_cast<double>(c) - static_cast<double>(p.min));
    error += detail::importance_at(w, i) * d * d;
  }
  return error;
}

namespace detail {

template <class Levels>
FitSums sums_at(const Levels& levels, std::span<const float> x, std::span<const float> w,
                GroupScale p) noexcept {
  const float inverse = safe_inverse(p.scale);
  FitSums s;
  for (std::size_t i = 0; i < x.size(); ++i)
    s.add(importance_at(w, i), static_cast<double>(levels.nearest(x[i] + p.min, inverse)),
          static_cast<double>(x[i]));
  return s;
}

/// Keeps the best stored parameters seen.
template <class Levels, class Storage>
class BestFit {
 public:
  BestFit(const Levels& levels, std::span<const float> x, std::span<const float> w, Storage storage,
          GroupScale first)
      : levels_(levels),
        x_(x),
        w_(w),
        storage_(storage),
        best_(storage(first)),
        error_(group_error(levels, x, w, best_)) {}

  void offer(GroupScale p) noexcept {
    if (!std::isfinite(p.scale) || !std::isfinite(p.min)) return;
    p = storage_(p);
    const double e = group_error(levels_, x_, w_, p);
    if (e < error_) { error_ = e; best_ = p; }
  }
  GroupScale best() const noexcept { return best_; }
  double error() const noexcept { return error_; }

 private:
  const Levels& levels_;
  std::span<const float> x_, w_;
  Storage storage_;
  GroupScale best_;
  double error_;
};

}  // namespace detail

/// Searches a scale without minimum. `first` is the format's plain choice; every candidate places the
/// largest magnitude at a different point near the end of the range, on either side (the scale's sign is
/// free).
template <class Levels, class Storage>
GroupScale search_scale(const Levels& levels, std::span<const float> x, std::span<const float> w, float first,
                        Storage storage) noexcept {
  detail::BestFit<Levels, Storage> fit(levels, x, w, storage, {first, 0});
  float extreme = 0;
  for (float v : x) if (std::abs(v) > std::abs(extreme)) extreme = v;
  if (extreme == 0) return fit.best();
  const auto refine = [&](float scale) {
    fit.offer({scale, 0});
    const auto s = detail::sums_at(levels, x, w, {scale, 0});
    if (s.cc > 0) fit.offer({static_cast<float>(s.xc / s.cc), 0});
  };
  refine(first);
  constexpr int steps = 9;  // the end of the range from 0.7 to 1.1 of itself, in steps of 5 %
  for (const float end : {levels.bottom(), levels.top()}) {
    if (end == 0) continue;
    for (int i = 0; i < steps; ++i) refine(extreme / (end * (0.7f + 0.05f * static_cast<float>(i))));
  }
  for (int i = 0; i < 2; ++i) refine(fit.best().scale);
  return fit.best();
}

/// Searches scale and minimum together: candidate scales, then the 2x2 least squares
/// [sum w c^2, -sum w c; -sum w c, sum w] (s, m) = (sum w x c, -sum w x).
template <class Levels, class Storage>
GroupScale search_scale_min(const Levels& levels, std::span<const float> x, std::span<const float> w,
                            GroupScale first, Storage storage) noexcept {
  detail::BestFit<Levels, Storage> fit(levels, x, w, storage, first);
  const auto refine = [&](GroupScale p) {
    fit.offer(p);
    const auto s = detail::sums_at(levels, x, w, p);
    const double det = s.cc * s.w - s.c * s.c;
    if (det <= 0) return;
    fit.offer({static_cast<float>((s.xc * s.w - s.x * s.c) / det),
               static_cast<float>((s.xc * s.c - s.x * s.cc) / det)});
  };
  refine(first);
  if (x.empty() || first.scale == 0) return fit.best();
  const float span = levels.top() - levels.bottom();
  for (int i = 0; i < 13; ++i) {  // the range covered from 0.7 to 1.06 of the data's
    const float scale = first.scale * (0.7f + 0.03f * static_cast<float>(i));
    const float slack = (first.scale - scale) * span;
    refine({scale, first.min - slack / 2});
    refine({scale, first.min});
    refine({scale, first.min - slack});
  }
  for (int i = 0; i < 3; ++i) refine(fit.best());
  return fit.best();
}

}  // namespace nibble
