// SPDX-License-Identifier: MIT
// QuantSpec: one plain description of any scalar-quantized matrix, able to state every published layout we
// know (GGUF blocks, AWQ, GPTQ with act-order, compressed-tensors, FP8 blocks, MX, NVFP4, NF4, SpQR, 2:4):
//
//   offset none        value = t * s_g * C[q]
//   offset int_zero    value = t * s_g * (C[q] - z_g)
//   offset float_min   value = t * s_g * C[q] - m_g          (also two_level_min)
//
// t is an optional per-tensor factor, s_g the scale of the weight's group, possibly an integer times the
// scale of a super-group. Outliers and sparsity stand beside the codes. What a spec can say is more than
// QuantizedTensor stores today; storing says so readably where it cannot.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "nibble/core/checked.hpp"
#include "nibble/core/dtype.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// What number a code stands for before scaling.
enum class Codebook : std::uint8_t {
  linear_unsigned,  ///< C[q] = q
  linear_signed,    ///< C[q] = q - 2^(bits-1)
  binary,           ///< 1 bit: -1, +1
  ternary,          ///< 2 bits: -1, 0, +1 (code 3 unused)
  iq4_nl,           ///< 4 bits, the GGUF non-linear table
  e2m1,             ///< 4 bits, FP4
  nf4,              ///< 4 bits, quantiles of a normal distribution
  e4m3,             ///< 8 bits, FP8
  e5m2,             ///< 8 bits, FP8
  pair,             ///< a codebook or its shifted copy, chosen by one bit per group
  user              ///< 4 bits or fewer, `user_codebook`
};

/// Which weights share a scale.
enum class GroupKind : std::uint8_t {
  group,   ///< 1 x cols: `cols` consecutive weights of a row, the last group may be shorter
  row,     ///< a whole row (output channel)
  block,   ///< rows x cols tiles, as DeepSeek's 128 x 128
  tensor   ///< the whole matrix
};

enum class OffsetKind : std::uint8_t { none, int_zero, float_min, two_level_min };
enum class Sparsity : std::uint8_t { none, two_of_four, bitmap };

/// Where a tensor's numbers come from; informative, never interpreted.
enum class Origin : std::uint8_t { nibble, gguf, awq, gptq, compressed_tensors, bitsandbytes, fp8, other };

struct GroupShape {
  GroupKind kind = GroupKind::group;
  Index cols = 128;  ///< of a group or block
  Index rows = 1;    ///< of a block
  bool operator==(const GroupShape&) const = default;
};

/// One level: a number of `dtype` per group. Two levels: a `sub_bits`-bit integer per group, times a number
/// of `dtype` per `super_group` groups.
struct ScaleSpec {
  DType dtype = DType::f16;
  int sub_bits = 0;  ///< 0: one level
  bool sub_signed = false;
  Index super_group = 1;
  constexpr bool two_level() const noexcept { return sub_bits != 0; }
  bool operator==(const ScaleSpec&) const = default;
};

struct QuantSpec {
  int bits = 4;
  Codebook codebook = Codebook::linear_signed;
  bool narrow_range = false;                   ///< linear_signed without its most negative code
  GroupShape group{};
  ScaleSpec scale{};
  OffsetKind offset = OffsetKind::none;
  DType offset_dtype = DType::f16;             ///< of float minima; integer zeros take `bits` bits
  bool tensor_scale = false;                   ///< one more factor, f32, per tensor (multiplied)
  bool column_permutation = false;             ///< columns are stored in another order (act-order, g_idx)
  double outlier_fraction = 0;                 ///< of weights kept apart: row, 16-bit column, 16-bit value
  Sparsity sparsity = Sparsity::none;
  Origin origin = Origin::nibble;
  std::array<float, 16> user_codebook{};       ///< for Codebook::user, ascending, 2^bits entries

  bool operator==(const QuantSpec&) const = default;

  /// Throws Error{invalid_argument} naming the first rule this spec breaks.
  void validate() const;
  /// Groups in a row of `cols` weights.
  constexpr Index groups_per_row(Index cols) const noexcept {
    const bool split = group.kind == GroupKind::group || group.kind == GroupKind::block;
    return split ? checked::ceil_div(cols, group.cols) : (cols > 0 ? 1 : 0);
  }
  /// Rows of the matrix of scales.
  constexpr Index group_rows(Index rows) const noexcept {
    if (group.kind == GroupKind::tensor) return rows > 0 ? 1 : 0;
    return group.kind == GroupKind::block ? checked::ceil_div(rows, group.rows) : rows;
  }
  /// Weights per group along a row of `cols`.
  constexpr Index group_cols(Index cols) const noexcept {
    return group.kind == GroupKind::row || group.kind == GroupKind::tensor ? cols : group.cols;
  }
  /// Stored bits per weight of a rows x cols matrix, everything counted except a permutation's few bytes per
  /// tensor; planes are taken as densely packed.
  double bits_per_weight(Index rows, Index cols) const noexcept;
};

namespace detail {

/// Quantiles of a standard normal, scaled to [-1, 1], with an exact zero (QLoRA, arXiv 2305.14314, appendix
/// E).
inline constexpr std::array<float, 16> nf4_values{
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
    -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
    0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
    0.7229568362236023f, 1.0f};

inline constexpr std::array<float, 16> iq4_nl_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};

constexpr int codebook_bits(Codebook c) noexcept {  // 0: any
  switch (c) {
    case Codebook::binary: return 1;
    case Codebook::ternary: return 2;
    case Codebook::iq4_nl: case Codebook::e2m1: case Codebook::nf4: return 4;
    case Codebook::e4m3: case Codebook::e5m2: return 8;
    default: return 0;
  }
}

}  // namespace detail

constexpr std::string_view to_string(Codebook c) noexcept {
  constexpr std::array<std::string_view, 11> names{
      "unsigned", "signed", "binary", "ternary", "iq4_nl", "e2m1", "nf4", "e4m3", "e5m2", "pair", "user"};
  return names[static_cast<std::size_t>(c)];
}
constexpr std::string_view to_string(OffsetKind k) noexcept {
  constexpr std::array<std::string_view, 4> names{"none", "int_zero", "float_min", "two_level_min"};
  return names[static_cast<std::size_t>(k)];
}
constexpr std::string_view to_string(Origin o) noexcept {
  constexpr std::array<std::string_view, 8> names{"nibble", "gguf", "awq", "gptq", "compressed_tensors",
                                                  "bitsandbytes", "fp8", "other"};
  return names[static_cast<std::size_t>(o)];
}

/// C[code] of a spec; Codebook::pair has no single table and gives 0.
constexpr float codebook_value(const QuantSpec& spec, std::uint8_t code) noexcept {
  switch (spec.codebook) {
    case Codebook::linear_unsigned: return static_cast<float>(code);
    case Codebook::linear_signed: return static_cast<float>(code - (1 << (spec.bits - 1)));
    case Codebook::binary: return code == 0 ? -1.0f : 1.0f;
    case Codebook::ternary: return static_cast<float>(code) - 1.0f;
    case Codebook::iq4_nl: return detail::iq4_nl_values[code & 15];
    case Codebook::e2m1: return fp4_e2m1::from_bits(code);
    case Codebook::nf4: return detail::nf4_values[code & 15];
    case Codebook::e4m3: return fp8_e4m3::from_bits(code);
    case Codebook::e5m2: return fp8_e5m2::from_bits(code);
    case Codebook::user: return spec.user_codebook[code & 15];
    case Codebook::pair: break;
  }
  return 0;
}

/// "int4 signed g128 scale f16", "int4 unsigned g256/32 scale f16 x u6 two_level_min", ...
inline std::string to_string(const QuantSpec& s) {
  std::string t = "int" + std::to_string(s.bits) + " " + std::string(to_string(s.codebook));
  if (s.narrow_range) t += " narrow";
  switch (s.group.kind) {
    case GroupKind::group: t += " g" + std::to_string(s.group.cols); break;
    case GroupKind::row: t += " row"; break;
    case GroupKind::block:
      t += " b" + std::to_string(s.group.rows) + "x" + std::to_string(s.group.cols);
      break;
    case GroupKind::tensor: t += " tensor"; break;
  }
  t += " scale " + std::string(to_string(s.scale.dtype));
  if (s.scale.two_level())
    t += std::string(s.scale.sub_signed ? " x i" : " x u") + std::to_string(s.scale.sub_bits) + " per " +
         std::to_string(s.scale.super_group);
  if (s.offset != OffsetKind::none) t += " " + std::string(to_string(s.offset));
  if (s.tensor_scale) t += " tensor_scale";
  if (s.column_permutation) t += " permuted";
  if (s.outlier_fraction > 0) t += " outliers";
  if (s.sparsity == Sparsity::two_of_four) t += " 2:4";
  if (s.sparsity == Sparsity::bitmap) t += " bitmap";
  return t;
}

inline void QuantSpec::validate() const {
  const auto what = [&] { return " (in \"" + to_string(*this) + "\")"; };
  NIBBLE_EXPECTS(bits >= 1 && bits <= 8, "a quantized weight has 1 to 8 bits, not " + std::to_string(bits));
  const int needed = detail::codebook_bits(codebook);
  NIBBLE_EXPECTS(needed == 0 || needed == bits, "codebook " + std::string(to_string(codebook)) + " has " +
                                                    std::to_string(needed) + "-bit codes" + what());
  NIBBLE_EXPECTS(codebook != Codebook::user || bits <= 4, "a user codebook has at most 16 entries" + what());
  if (codebook == Codebook::user)
    for (std::size_t i = 1; i < std::size_t{1} << bits; ++i)
      NIBBLE_EXPECTS(user_codebook[i - 1] < user_codebook[i],
                     "a user codebook is finite and ascending" + what());
  NIBBLE_EXPECTS(!narrow_range || (codebook == Codebook::linear_signed && bits >= 2),
                 "a narrow range needs signed linear codes of 2 bits or more" + what());
  NIBBLE_EXPECTS(group.kind == GroupKind::row || group.kind == GroupKind::tensor || group.cols >= 1,
                 "a group has at least one column" + what());
  NIBBLE_EXPECTS(group.kind != GroupKind::block || group.rows >= 1, "a block has at least one row" + what());
  NIBBLE_EXPECTS(
      is_floating(scale.dtype) && scale.dtype != DType::f64 && scale.dtype != DType::f4_e2m1,
      "scales are f32, f16, bf16, f8 or e8m0, not " + std::string(to_string(scale.dtype)) + what());
  NIBBLE_EXPECTS(scale.sub_bits >= 0 && scale.sub_bits <= 8 && scale.super_group >= 1,
                 "sub-scales have up to 8 bits and super-groups at least one group" + what());
  NIBBLE_EXPECTS(scale.two_level() || scale.super_group == 1,
                 "a super-group needs two-level scales" + what());
  NIBBLE_EXPECTS(offset != OffsetKind::int_zero || codebook == Codebook::linear_unsigned,
                 "an integer zero needs unsigned linear codes" + what());
  NIBBLE_EXPECTS(offset != OffsetKind::two_level_min || scale.two_level(),
                 "two-level minima need two-level scales" + what());
  NIBBLE_EXPECTS(offset == OffsetKind::none || offset == OffsetKind::int_zero || is_floating(offset_dtype),
                 "float minima need a floating type" + what());
  NIBBLE_EXPECTS(outlier_fraction >= 0 && outlier_fraction <= 1, "an outlier fraction lies in 0..1" + what());
}

inline double QuantSpec::bits_per_weight(Index rows, Index cols) const noexcept {
  if (rows <= 0 || cols <= 0) return 0;
  const double weights = static_cast<double>(rows) * static_cast<double>(cols);
  const double groups = static_cast<double>(group_rows(rows)) * static_cast<double>(groups_per_row(cols));
  double kept = 1, mask = 0;
  if (sparsity == Sparsity::two_of_four) { kept = 0.5; mask = 1; }
  if (sparsity == Sparsity::bitmap) mask = 1;
  double per_group = scale.two_level()
                         ? scale.sub_bits + bits_of(scale.dtype) / static_cast<double>(scale.super_group)
                         : bits_of(scale.dtype);
  if (offset == OffsetKind::int_zero) per_group += bits;
  if (offset == OffsetKind::float_min) per_group += bits_of(offset_dtype);
  if (offset == OffsetKind::two_level_min)
    per_group += scale.sub_bits + bits_of(offset_dtype) / static_cast<double>(scale.super_group);
  double outliers = 0;  // compressed rows: 16-bit column and value each, one 32-bit start per row
  if (outlier_fraction > 0) outliers = 32 * outlier_fraction + 32.0 / static_cast<double>(cols);
  return kept * bits + mask + per_group * groups / weights + (tensor_scale ? 32 / weights : 0) + outliers;
}

}  // namespace nibble
