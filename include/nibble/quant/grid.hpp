// SPDX-License-Identifier: MIT
// Grid: all that an algorithm needs to know of a format. GPTQ, AWQ or a trainer ask for parameters of a
// group (fit, refit), the nearest code and its value, and hand codes back to be stored; they never see a
// bit layout. Algorithms times formats therefore costs n + m.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <span>
#include <vector>

#include "nibble/format/quantized_tensor.hpp"
#include "nibble/quant/scale_search.hpp"

namespace nibble::quant {

/// Parameters of one group: value = scale * (C[code] - zero) - min.
struct GroupParams {
  float scale = 0;
  float zero = 0;
  float min = 0;
  bool operator==(const GroupParams&) const = default;
};

/// Whether parameters come from the format's plain rule or from the weighted search.
enum class Fit : std::uint8_t { plain, search };

/// `group()` consecutive weights of a row share parameters (0: the whole row); `super_group()` weights are
/// fitted and stored together (two-level scales), a multiple of group(); codes stand for vectors of
/// `vector_dim()` weights (1 for every scalar format). Parameters returned are already rounded to storage.
template <class G>
concept Grid = requires(const G& g, std::span<const float> x, std::span<const float> w,
                        std::span<const std::uint8_t> codes, std::span<GroupParams> fitted,
                        std::span<const GroupParams> params, GroupParams p, Index i, MemoryResource* memory,
                        QuantizedTensor& out) {
  { g.group() } -> std::same_as<Index>;
  { g.super_group() } -> std::same_as<Index>;
  { g.vector_dim() } -> std::same_as<Index>;
  { g.fit(x, w, fitted) };
  { g.refit(codes, x, w, p) } -> std::same_as<GroupParams>;
  { g.nearest(p, 0.0f) } -> std::same_as<std::uint8_t>;
  { g.value(p, std::uint8_t{}) } -> std::same_as<float>;
  { g.make(i, i, memory) } -> std::same_as<QuantizedTensor>;
  { g.store(out, i, i, params, codes) };
};

namespace detail {

/// Least squares of x against levels c: scale alone, or scale and minimum.
inline GroupParams least_squares(std::span<const float> c, std::span<const float> x, std::span<const float> w,
                                 bool with_min, GroupParams fallback) noexcept {
  nibble::detail::FitSums<double> s;
  for (std::size_t i = 0; i < x.size(); ++i)
    s.add(w.empty() ? 1.0 : static_cast<double>(w[i]), static_cast<double>(c[i]), static_cast<double>(x[i]));
  const double det = with_min ? s.cc * s.w - s.c * s.c : s.cc;
  if (!(det > 0)) return fallback;
  GroupParams p = fallback;
  p.scale = static_cast<float>((with_min ? s.xc * s.w - s.x * s.c : s.xc) / det);
  if (with_min) p.min = static_cast<float>((s.xc * s.c - s.x * s.cc) / det);
  return std::isfinite(p.scale) && std::isfinite(p.min) ? p : fallback;
}

}  // namespace detail

/// The grid of a QuantSpec that integer groups can store (linear codes or a codebook; one-level scales).
class IntegerGrid {
 public:
  /// Throws as require_storable.
  explicit IntegerGrid(const QuantSpec& spec, Fit fit = Fit::search) : spec_(spec), fit_(fit) {
    require_storable(spec);
    const int count = 1 << spec.bits;
    low_ = spec.codebook == Codebook::linear_signed ? -(count / 2) + (spec.narrow_range ? 1 : 0) : 0;
    high_ = spec.codebook == Codebook::linear_signed ? count / 2 - 1 : count - 1;
    first_ = spec.codebook == Codebook::linear_signed ? -(count / 2) : 0;
    linear_ = spec.codebook == Codebook::linear_signed || spec.codebook == Codebook::linear_unsigned;
    if (!linear_) sort_codebook();
  }

  const QuantSpec& spec() const noexcept { return spec_; }
  Index group() const noexcept {
    return spec_.group.kind == GroupKind::group || spec_.group.kind == GroupKind::block ? spec_.group.cols
                                                                                        : 0;
  }
  Index super_group() const noexcept { return group(); }
  Index vector_dim() const noexcept { return 1; }

  /// One GroupParams per group() weights of x; with group() == 0, x is one group.
  void fit(std::span<const float> x, std::span<const float> w, std::span<GroupParams> out) const {
    const std::size_t width = group() == 0 ? x.size() : static_cast<std::size_t>(group());
    for (std::size_t g = 0; g < out.size(); ++g) {
      const std::size_t begin = std::min(x.size(), g * width), n = std::min(width, x.size() - begin);
      out[g] = fit_group(x.subspan(begin, n), w.empty() ? w : w.subspan(begin, n));
    }
  }

  /// Best parameters for codes that stay as they are (the integer zero stays too).
  GroupParams refit(std::span<const std::uint8_t> codes, std::span<const float> x, std::span<const float> w,
                    GroupParams old) const {
    std::vector<float> c(codes.size());
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = codebook_value(spec_, codes[i]) - old.zero;
    return rounded(detail::least_squares(c, x, w, spec_.offset == OffsetKind::float_min, old));
  }

  std::uint8_t nearest(const GroupParams& p, float x) const noexcept {
    const float t = (x + p.min) * safe_inverse(p.scale);
    if (!linear_) return code_of_[codebook_.code(t)];
    const int zero = static_cast<int>(p.zero);
    const float q = LinearLevels{low_ - zero, high_ - zero}.nearest(t);
    return static_cast<std::uint8_t>(static_cast<int>(q) + zero - first_);
  }
  float value(const GroupParams& p, std::uint8_t code) const noexcept {
    return p.scale * (codebook_value(spec_, code) - p.zero) - p.min;
  }

  QuantizedTensor make(Index rows, Index cols, MemoryResource* memory = default_memory()) const {
    return {spec_, rows, cols, memory};
  }
  /// Writes codes from column `first_col` (the start of a group) on, with the parameters of their groups.
  void store(QuantizedTensor& out, Index row, Index first_col, std::span<const GroupParams> params,
             std::span<const std::uint8_t> codes) const noexcept {
    out.set_codes(row, first_col, codes);
    const Index g0 = group() == 0 ? 0 : first_col / group();
    for (std::size_t g = 0; g < params.size(); ++g) {
      out.set_scale(row, g0 + static_cast<Index>(g), params[g].scale);
      out.set_offset(row, g0 + static_cast<Index>(g),
                     spec_.offset == OffsetKind::int_zero ? params[g].zero : params[g].min);
    }
  }

  /// Parameters of any set of weights that share them (a tile, a tensor), by the plain rule or the search.
  GroupParams fit_group(std::span<const float> x, std::span<const float> w) const {
    const GroupParams plain = plain_group(x);
    if (fit_ == Fit::plain || std::abs(detail::range_of(x).extreme) >= detail::largest_weight) return plain;
    if (spec_.offset == OffsetKind::int_zero) {
      const auto best =
          search_scale_zero(high_, x, w, {{plain.scale, 0}, static_cast<int>(plain.zero)}, storage());
      return {best.scale.scale, static_cast<float>(best.zero), 0};
    }
    const auto search = [&](const auto& levels) {
      return spec_.offset == OffsetKind::float_min
                 ? search_scale_min(levels, x, w, {plain.scale, plain.min}, storage())
                 : search_scale(levels, x, w, plain.scale, storage());
    };
    const GroupScale best = linear_ ? search(LinearLevels{low_, high_}) : search(codebook_);
    return {best.scale, 0, best.min};
  }

  /// Weighted squared error of storing x with parameters p and the nearest codes.
  double error(std::span<const float> x, std::span<const float> w, const GroupParams& p) const noexcept {
    double e = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = static_cast<double>(x[i]) - static_cast<double>(value(p, nearest(p, x[i])));
      e += (w.empty() ? 1.0 : static_cast<double>(w[i])) * d * d;
    }
    return e;
  }

 private:
  float top() const noexcept { return linear_ ? static_cast<float>(high_) : codebook_.top(); }
  float bottom() const noexcept { return linear_ ? static_cast<float>(low_) : codebook_.bottom(); }

  /// What the spec keeps of a scale and a minimum.
  struct Storage {
    DType scale, min;
    bool has_min;
    GroupScale operator()(GroupScale p) const noexcept {
      return {round_to(scale, p.scale), has_min ? round_to(min, p.min) : 0.0f};
    }
  };
  Storage storage() const noexcept {
    return {spec_.scale.dtype, spec_.offset_dtype, spec_.offset == OffsetKind::float_min};
  }
  GroupParams rounded(GroupParams p) const noexcept {
    const GroupScale r = storage()({p.scale, p.min});
    return {r.scale, p.zero, r.min};
  }

  /// Round-to-nearest parameters: the range of the data on the range of the codes.
  GroupParams plain_group(std::span<const float> x) const noexcept {
    detail::Range r = detail::range_of(x);
    GroupParams p;
    const double steps = static_cast<double>(top()) - static_cast<double>(bottom());
    if (spec_.offset == OffsetKind::float_min) {
      p.scale = static_cast<float>((static_cast<double>(r.high) - static_cast<double>(r.low)) / steps);
      p.min = p.scale * bottom() - r.low;
      return rounded(p);
    }
    if (spec_.offset == OffsetKind::int_zero) {  // zero must be a code, so the range reaches it
      r.low = std::min(r.low, 0.0f);
      r.high = std::max(r.high, 0.0f);
      p.scale = static_cast<float>((static_cast<double>(r.high) - static_cast<double>(r.low)) / steps);
      p = rounded(p);
      p.zero = LinearLevels{0, high_}.nearest(-r.low * safe_inverse(p.scale));
      return p;
    }
    if (spec_.codebook == Codebook::linear_unsigned) {
      p.scale = (std::abs(r.low) > r.high ? r.low : r.high) / top();
      return rounded(p);
    }
    const bool positive = bottom() == -top() || spec_.scale.dtype == DType::e8m0;  // e8m0 has no sign
    if (positive) p.scale = std::abs(r.extreme) / std::min(top(), -bottom());
    else p.scale = r.extreme / (-bottom() > top() ? bottom() : top());
    return rounded(p);
  }

  void sort_codebook() {
    for (int c = 0; c < (1 << spec_.bits); ++c) {
      if (spec_.codebook == Codebook::ternary && c == 3) continue;
      const float v = codebook_value(spec_, static_cast<std::uint8_t>(c));
      if (std::isfinite(v)) code_of_.push_back(static_cast<std::uint8_t>(c));
    }
    const auto by_value = [&](std::uint8_t a, std::uint8_t b) {
      return codebook_value(spec_, a) < codebook_value(spec_, b);
    };
    std::stable_sort(code_of_.begin(), code_of_.end(), by_value);
    const auto same = [&](std::uint8_t a, std::uint8_t b) {
      return codebook_value(spec_, a) == codebook_value(spec_, b);
    };
    code_of_.erase(std::unique(code_of_.begin(), code_of_.end(), same), code_of_.end());
    std::vector<float> values;
    for (const std::uint8_t c : code_of_) values.push_back(codebook_value(spec_, c));
    codebook_ = CodebookLevels(values);
  }

  QuantSpec spec_;
  Fit fit_;
  int low_ = 0, high_ = 0, first_ = 0;  ///< linear codes as numbers; code = number - first_
  bool linear_ = true;
  CodebookLevels codebook_;
  std::vector<std::uint8_t> code_of_;   ///< of each value of the codebook
};

/// The grid of a one-level block format (q4_0 .. q8_0, iq4_nl, or a user's own): block_size == sub_group.
template <PackableFormat F>
class BlockGrid {
  static_assert(F::block_size == F::sub_group,
                "two-level formats need a grid that fits a super-group at once");

 public:
  Index group() const noexcept { return F::block_size; }
  Index super_group() const noexcept { return F::block_size; }
  Index vector_dim() const noexcept { return 1; }

  /// Scales of the format's own encoder (the search when w is given), one per block of x.
  void fit(std::span<const float> x, std::span<const float> w, std::span<GroupParams> out) const
    requires EncodableFormat<F>
  {
    NIBBLE_EXPECTS(x.size() == out.size() * n,
                   std::string(F::name) + " fits whole blocks of " + std::to_string(n));
    for (std::size_t g = 0; g < out.size(); ++g) {
      typename F::Block b;
      F::encode(ConstFloats<F::block_size>(x.subspan(g * n, n)), b, w.empty() ? w : w.subspan(g * n, n));
      std::array<std::uint8_t, n> codes;
      std::array<float, 1> scale, min;
      F::unpack(b, codes, scale, min);
      out[g] = {scale[0], 0, min[0]};
    }
  }
  GroupParams refit(std::span<const std::uint8_t> codes, std::span<const float> x, std::span<const float> w,
                    GroupParams old) const {
    std::array<float, n> c;
    NIBBLE_EXPECTS(codes.size() <= n, "more codes than a block holds");
    for (std::size_t i = 0; i < codes.size(); ++i) c[i] = code_value<F>(codes[i]);
    return rounded(
        detail::least_squares(std::span<const float>(c).first(codes.size()), x, w, F::has_min, old));
  }
  std::uint8_t nearest(const GroupParams& p, float x) const noexcept {
    const float t = (x + p.min) * safe_inverse(p.scale);
    if constexpr (requires { F::codebook[0]; }) {
      return static_cast<std::uint8_t>(levels_.code(t));
    } else {
      constexpr LinearLevels levels{-F::zero, (1 << F::code_bits) - 1 - F::zero};
      return static_cast<std::uint8_t>(static_cast<int>(levels.nearest(t)) + F::zero);
    }
  }
  float value(const GroupParams& p, std::uint8_t code) const noexcept {
    return p.scale * code_value<F>(code) - p.min;
  }

  QuantizedTensor make(Index rows, Index cols, MemoryResource* memory = default_memory()) const {
    return {format_info<F>(), rows, cols, memory};
  }
  void store(QuantizedTensor& out, Index row, Index first_col, std::span<const GroupParams> params,
             std::span<const std::uint8_t> codes) const {
    NIBBLE_EXPECTS(codes.size() == params.size() * n && first_col % F::block_size == 0,
                   "blocks are stored whole");
    auto* blocks = reinterpret_cast<typename F::Block*>(out.row_data(row).data()) + first_col / F::block_size;
    for (std::size_t g = 0; g < params.size(); ++g)
      F::pack(ConstCodes<F::block_size>(codes.subspan(g * n, n)), ConstFloats<1>(&params[g].scale, 1),
              ConstFloats<1>(&params[g].min, 1), blocks[g]);
  }

 private:
  static constexpr auto n = static_cast<std::size_t>(F::block_size);

  /// What the format keeps of a scale and a minimum.
  static GroupParams rounded(GroupParams p) noexcept {
    typename F::Block b{};
    std::array<std::uint8_t, n> codes{};
    std::array<float, 1> scale{p.scale}, min{p.min};
    F::pack(codes, scale, min, b);
    F::unpack(b, codes, scale, min);
    return {scale[0], 0, min[0]};
  }
  static constexpr auto levels_ = [] {
    std::array<float, std::size_t{1} << F::code_bits> v{};
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = code_value<F>(static_cast<std::uint8_t>(i));
    return CodebookLevels(v);
  }();
};

}  // namespace nibble::quant
