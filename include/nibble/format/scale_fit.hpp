// SPDX-License-Identifier: MIT
// The search that every scale-based format shares: given weights x and importances w of one group, find the
// stored scale (and minimum) with the least weighted squared error  sum w (x - (s C[q] - m))^2.
//
// A scan tries scales that place the range of the data a little inside or outside the range of the codes. For
// the codes a candidate implies, the best scale follows in closed form, and so does its error: one pass per
// candidate, in float over data brought to the unit range. The winner is refined and judged in double by the
// error of what would be stored, after rounding to the storage type. The format's own plain choice is always
// the first to be judged, so a search is never worse than no search.
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

/// To the nearest integer, ties to even, for |t| < 2^22; vectorizes at any instruction set level.
inline float round_to_integer(float t) noexcept {
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23: the unit in the last place is 1
  return (t + magic) - magic;
}

/// Groups are scanned eight weights at a time: loops of this constant length vectorize without reordering
/// a sum.
inline constexpr std::size_t scan_lanes = 8;
using ScanLanes = std::array<float, scan_lanes>;

/// Linear codes low..high (inclusive), C[q] = q.
struct LinearLevels {
  int low, high;
  /// The level nearest to t, a number in units of the scale. NaN gives low.
  float nearest(float t) const noexcept {
    const float l = bottom(), h = top();
    t = t > l ? t : l;
    return round_to_integer(t < h ? t : h);
  }
  ScanLanes nearest(const ScanLanes& t) const noexcept {
    ScanLanes c;
    for (std::size_t j = 0; j < scan_lanes; ++j) c[j] = nearest(t[j]);
    return c;
  }
  /// The most positive and most negative number at scale 1.
  float top() const noexcept { return static_cast<float>(high); }
  float bottom() const noexcept { return static_cast<float>(low); }
};

/// An ascending codebook of 2 to 256 numbers. The nearest one is found from a table of equal buckets over
/// its range, then by comparing with the middles between neighbours.
class CodebookLevels {
 public:
  constexpr CodebookLevels() = default;
  constexpr explicit CodebookLevels(std::span<const float> ascending) noexcept : size_(ascending.size()) {
    for (std::size_t i = 0; i < size_; ++i) values_[i] = ascending[i];
    for (std::size_t i = 0; i + 1 < size_; ++i) middles_[i] = values_[i] + (values_[i + 1] - values_[i]) / 2;
    middles_[size_ - 1] = std::numeric_limits<float>::infinity();
    buckets_per_unit_ = static_cast<float>(buckets_.size() - 1) / (top() - bottom());
    for (std::size_t b = 0, code = 0; b < buckets_.size(); ++b) {
      // One bucket low: rounding in the look-up may land one too high.
      const float start = bottom() + (static_cast<float>(b) - 1) / buckets_per_unit_;
      while (start > middles_[code]) ++code;
      buckets_[b] = static_cast<std::uint8_t>(code);
    }
  }
  /// Index of the value nearest to t; halves go to the lower index, NaN to 0.
  std::size_t code(float t) const noexcept {
    const float l = bottom(), h = top(), inside = t > l ? (t < h ? t : h) : l;
    std::size_t c = buckets_[static_cast<std::size_t>((inside - l) * buckets_per_unit_)];
    c += inside > middles_[c] ? 1u : 0u;
    while (inside > middles_[c]) ++c;
    return c;
  }
  float nearest(float t) const noexcept { return values_[code(t)]; }
  ScanLanes nearest(const ScanLanes& t) const noexcept {
    ScanLanes c;
    for (std::size_t j = 0; j < scan_lanes; ++j) c[j] = nearest(t[j]);
    return c;
  }
  float operator[](std::size_t i) const noexcept { return values_[i]; }
  constexpr float top() const noexcept { return values_[size_ - 1]; }
  constexpr float bottom() const noexcept { return values_[0]; }

 private:
  std::size_t size_ = 0;
  float buckets_per_unit_ = 0;
  std::array<float, 256> values_{}, middles_{};
  std::array<std::uint8_t, 256> buckets_{};
};

/// 1 / s, or 0 where that is not a finite number (s zero or so small that it stores as zero anyway).
inline float safe_inverse(float s) noexcept {
  const float r = 1.0f / s;
  return std::isfinite(r) ? r : 0.0f;
}

/// Weighted squared error of storing x with `p` and the nearest levels.
template <class Levels>
double group_error(const Levels& levels, std::span<const float> x, std::span<const float> w,
                   GroupScale p) noexcept {
  const float inverse = safe_inverse(p.scale);
  const auto scale = static_cast<double>(p.scale), min = static_cast<double>(p.min);
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float c = levels.nearest((x[i] + p.min) * inverse);
    const double d = static_cast<double>(x[i]) - (scale * static_cast<double>(c) - min);
    error += (w.empty() ? 1.0 : static_cast<double>(w[i])) * d * d;
  }
  return error;
}

namespace detail {

/// Weighted sums over levels c and values x that least squares needs.
template <class Real>
struct FitSums {
  Real w = 0, c = 0, cc = 0, x = 0, xc = 0;
  void add(Real weight, Real level, Real value) noexcept {
    w += weight;
    c += weight * level;
    cc += weight * level * level;
    x += weight * value;
    xc += weight * value * level;
  }
  /// Least squares of x = scale * c - min, and how much of sum w x^2 it explains (more is better).
  Real scale() const noexcept { return xc / cc; }
  Real explained() const noexcept { return cc > 0 ? xc * xc / cc : Real{0}; }
  Real determinant() const noexcept { return cc * w - c * c; }
  Real scale_with_min() const noexcept { return (xc * w - x * c) / determinant(); }
  Real min_with_scale() const noexcept { return (xc * c - x * cc) / determinant(); }
  Real explained_with_min() const noexcept {
    return determinant() > 0 ? scale_with_min() * xc - min_with_scale() * x : Real{0};
  }
};

/// The group brought to the unit range for scanning: u = (x + shift) * norm, importance * w_norm.
struct ScanView {
  std::span<const float> x, w;
  float shift = 0, norm = 1, w_norm = 1;

  ScanView(std::span<const float> values, std::span<const float> weights, float to_add, float range) noexcept
      : x(values), w(weights), shift(to_add), norm(safe_inverse(range)) {
    float top = 0;
    for (float v : w) top = v > top ? v : top;
    w_norm = safe_inverse(top);
  }

  /// Sums for the codes that scale `scale` and minimum `offset`, in units of u, imply.
  template <class Levels>
  FitSums<float> sums(const Levels& levels, float scale, float offset) const noexcept {
    const float inverse = 1 / scale;
    ScanLanes sw{}, sc{}, scc{}, sx{}, sxc{};
    for (std::size_t i = 0; i < x.size(); i += scan_lanes) {
      ScanLanes u{}, weight{}, t;
      load(i, u, weight);
      for (std::size_t j = 0; j < scan_lanes; ++j) t[j] = (u[j] + offset) * inverse;
      const ScanLanes c = levels.nearest(t);
      for (std::size_t j = 0; j < scan_lanes; ++j) {
        const float wc = weight[j] * c[j], wu = weight[j] * u[j];
        sw[j] += weight[j];
        sc[j] += wc;
        scc[j] += wc * c[j];
        sx[j] += wu;
        sxc[j] += wu * c[j];
      }
    }
    return {total(sw), total(sc), total(scc), total(sx), total(sxc)};
  }

 private:
  /// Eight values and weights from i on; past the end the weight is 0.
  void load(std::size_t i, ScanLanes& u, ScanLanes& weight) const noexcept {
    if (i + scan_lanes <= x.size()) {
      for (std::size_t j = 0; j < scan_lanes; ++j) u[j] = (x[i + j] + shift) * norm;
      if (w.empty()) weight.fill(1);
      else for (std::size_t j = 0; j < scan_lanes; ++j) weight[j] = w[i + j] * w_norm;
      return;
    }
    for (std::size_t j = 0; i + j < x.size(); ++j) {
      u[j] = (x[i + j] + shift) * norm;
      weight[j] = w.empty() ? 1.0f : w[i + j] * w_norm;
    }
  }
  static float total(const ScanLanes& s) noexcept {
    float t = 0;
    for (float v : s) t += v;
    return t;
  }
};

/// Sums in double for codes implied by stored parameters.
template <class Levels>
FitSums<double> exact_sums(const Levels& levels, std::span<const float> x, std::span<const float> w,
                           GroupScale p) noexcept {
  const float inverse = safe_inverse(p.scale);
  FitSums<double> s;
  for (std::size_t i = 0; i < x.size(); ++i)
    s.add(w.empty() ? 1.0 : static_cast<double>(w[i]),
          static_cast<double>(levels.nearest((x[i] + p.min) * inverse)), static_cast<double>(x[i]));
  return s;
}

/// Keeps the best stored parameters seen.
template <class Levels, class Storage>
class BestFit {
 public:
  BestFit(const Levels& levels, std::span<const float> x, std::span<const float> w, Storage storage,
          GroupScale first) noexcept
      : levels_(levels), x_(x), w_(w), storage_(storage), best_(storage(first)),
        error_(group_error(levels, x, w, best_)) {}

  /// Judges p and what least squares makes of its codes.
  void refine(GroupScale p, bool with_min) noexcept {
    if (!offer(p)) return;
    const auto s = exact_sums(levels_, x_, w_, storage_(p));
    if (with_min && s.determinant() > 0)
      offer({static_cast<float>(s.scale_with_min()), static_cast<float>(s.min_with_scale())});
    else if (!with_min && s.cc > 0)
      offer({static_cast<float>(s.scale()), 0});
  }
  GroupScale best() const noexcept { return best_; }
  double error() const noexcept { return error_; }

 private:
  bool offer(GroupScale p) noexcept {
    if (!std::isfinite(p.scale) || !std::isfinite(p.min)) return false;
    p = storage_(p);
    const double e = group_error(levels_, x_, w_, p);
    if (e < error_) { error_ = e; best_ = p; }
    return true;
  }

  const Levels& levels_;
  std::span<const float> x_, w_;
  Storage storage_;
  GroupScale best_;
  double error_;
};

/// How much of the codes' range the data covers, per candidate.
inline constexpr std::array<float, 10> covers{1.0f,  0.7f,  0.75f, 0.8f,  0.84f,
                                              0.88f, 0.92f, 0.96f, 1.04f, 1.1f};

}  // namespace detail

/// Searches a scale without minimum. `first` is the format's plain choice; candidates place the largest
/// magnitude near either end of the codes (the scale's sign is free).
template <class Levels, class Storage>
GroupScale search_scale(const Levels& levels, std::span<const float> x, std::span<const float> w, float first,
                        Storage storage) noexcept {
  detail::BestFit<Levels, Storage> fit(levels, x, w, storage, {first, 0});
  float extreme = 0;
  for (float v : x) extreme = std::abs(v) > std::abs(extreme) ? v : extreme;
  const bool symmetric = levels.bottom() == -levels.top();  // both ends say the same: scales stay positive
  const float unit = symmetric ? std::abs(extreme) : extreme;
  const detail::ScanView scan(x, w, 0, unit);  // the extreme becomes 1
  if (scan.norm == 0) return fit.best();
  float most = 0, scale = 0;
  for (const float end : {levels.bottom(), levels.top()}) {
    if (end == 0 || (symmetric && end < 0)) continue;
    for (const float cover : detail::covers) {
      const auto s = scan.sums(levels, 1 / (end * cover), 0);
      if (s.explained() > most) {
        most = s.explained();
        scale = s.scale();
      }
    }
  }
  fit.refine({first, 0}, false);
  if (most > 0) fit.refine({scale * unit, 0}, false);
  fit.refine(fit.best(), false);
  return fit.best();
}

/// Searches scale and minimum together.
template <class Levels, class Storage>
GroupScale search_scale_min(const Levels& levels, std::span<const float> x, std::span<const float> w,
                            GroupScale first, Storage storage) noexcept {
  detail::BestFit<Levels, Storage> fit(levels, x, w, storage, first);
  const float bottom = levels.bottom(), span = levels.top() - bottom, range = first.scale * span;
  const detail::ScanView scan(x, w, first.min - first.scale * bottom, range);  // the data become 0..1
  if (scan.norm == 0 || !std::isfinite(range)) return fit.best();
  float most = 0;
  GroupScale chosen = first;
  for (const float cover : detail::covers) {
    const float scale = cover / span;
    for (const float share : {0.0f, 0.5f, 1.0f}) {  // of what no longer fits, how much is cut off below
      const auto s = scan.sums(levels, scale, scale * bottom - share * (1 - cover));
      if (s.explained_with_min() > most) {
        most = s.explained_with_min();
        chosen = {s.scale_with_min() * range, s.min_with_scale() * range + scan.shift};
      }
    }
  }
  fit.refine(first, true);
  fit.refine(chosen, true);
  for (int i = 0; i < 2; ++i) fit.refine(fit.best(), true);
  return fit.best();
}

}  // namespace nibble
