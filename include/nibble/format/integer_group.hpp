// SPDX-License-Identifier: MIT
// Integer groups: the portable storage of a QuantSpec with one-level scales. Three planes,
//
//   codes    [rows][ceil(cols * bits / 8)] bytes: code k of a row at bits k*bits .. of a little-endian bit
//            stream, LSB first; every row starts on a byte
//   scales   [group rows][groups]  of the spec's scale type, little endian
//   offsets  [group rows][groups]  u8 integer zeros, or minima of the spec's offset type
//
// and specs for the usual schemes. Codes of 3, 5, 6 and 7 bits lose nothing to padding.
#pragma once

#include <cstring>
#include <span>

#include "nibble/format/quant_spec.hpp"

namespace nibble {

/// Code `index` of a packed row.
constexpr std::uint8_t read_code(const std::uint8_t* row, int bits, Index index) noexcept {
  const auto bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(bits);
  const std::size_t byte = bit / 8, shift = bit % 8;
  unsigned v = row[byte];
  if (shift + static_cast<std::size_t>(bits) > 8) v |= static_cast<unsigned>(row[byte + 1]) << 8;
  return static_cast<std::uint8_t>(v >> shift & ((1u << bits) - 1));
}

/// Replaces code `index` of a packed row.
constexpr void write_code(std::uint8_t* row, int bits, Index index, std::uint8_t code) noexcept {
  const auto bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(bits);
  const std::size_t byte = bit / 8, shift = bit % 8;
  const unsigned mask = ((1u << bits) - 1) << shift, v = static_cast<unsigned>(code) << shift & mask;
  row[byte] = static_cast<std::uint8_t>((row[byte] & ~mask) | v);
  if (mask > 0xFF) row[byte + 1] = static_cast<std::uint8_t>((row[byte + 1] & ~(mask >> 8)) | v >> 8);
}

/// A number of `type` (one of the scale types) at `p`, as float.
inline float load_number(DType type, const std::uint8_t* p) noexcept {
  const auto word = [&] { return static_cast<std::uint16_t>(p[0] | p[1] << 8); };
  switch (type) {
    case DType::f16: return half::from_bits(word());
    case DType::bf16: return bfloat16::from_bits(word());
    case DType::f8_e4m3: return fp8_e4m3::from_bits(*p);
    case DType::f8_e5m2: return fp8_e5m2::from_bits(*p);
    case DType::e8m0: return e8m0::from_bits(*p);
    default: break;
  }
  return std::bit_cast<float>(word() | static_cast<std::uint32_t>(p[2]) << 16 |
                              static_cast<std::uint32_t>(p[3]) << 24);
}

/// The nearest finite number of `type`, as float: what storing `v` keeps of it.
inline float round_to(DType type, float v) noexcept {
  switch (type) {
    case DType::f16: return half::saturated(v);
    case DType::bf16: return bfloat16::saturated(v);
    case DType::f8_e4m3: return fp8_e4m3::saturated(v);
    case DType::f8_e5m2: return fp8_e5m2::saturated(v);
    case DType::e8m0: return e8m0::saturated(v);
    default: return v;
  }
}

/// Stores `v`, saturating, as a number of `type` at `p`.
inline void store_number(DType type, float v, std::uint8_t* p) noexcept {
  std::uint32_t u = 0;
  switch (type) {
    case DType::f16: u = half::saturated(v).bits; break;
    case DType::bf16: u = bfloat16::saturated(v).bits; break;
    case DType::f8_e4m3: u = fp8_e4m3::saturated(v).bits; break;
    case DType::f8_e5m2: u = fp8_e5m2::saturated(v).bits; break;
    case DType::e8m0: u = e8m0::saturated(v).bits; break;
    default: u = std::bit_cast<std::uint32_t>(v); break;
  }
  for (std::size_t i = 0; i < size_of(type); ++i) p[i] = static_cast<std::uint8_t>(u >> (8 * i));
}

/// Whether today's planes can hold `spec`; throws Error{unsupported} naming what they cannot.
inline void require_storable(const QuantSpec& spec) {
  spec.validate();
  const char* missing = spec.scale.two_level()                ? "two-level scales"
                        : spec.column_permutation             ? "a column permutation"
                        : spec.outlier_fraction > 0           ? "an outlier side-car"
                        : spec.sparsity != Sparsity::none     ? "a sparsity mask"
                        : spec.codebook == Codebook::pair     ? "codebook pairs"
                                                              : nullptr;
  if (missing != nullptr)
    throw Error(Errc::unsupported,
                "integer groups do not store " + std::string(missing) + " (\"" + to_string(spec) + "\")");
}

/// Where the planes of a rows x cols matrix lie in one buffer, in bytes; each plane starts at 64 bytes.
struct PlaneLayout {
  Index code_row_bytes = 0;
  std::size_t code_bytes = 0, scale_bytes = 0, offset_bytes = 0;
  std::size_t scale_start = 0, offset_start = 0, total = 0;
};

/// Throws Error{malformed} when a size overflows, Error{unsupported} as require_storable.
inline PlaneLayout plane_layout(const QuantSpec& spec, Index rows, Index cols) {
  require_storable(spec);
  NIBBLE_EXPECTS(rows >= 0 && cols >= 0, "negative matrix shape " + to_string(Extents<2>{rows, cols}));
  PlaneLayout p;
  p.code_row_bytes = checked::ceil_div(checked::mul(cols, Index{spec.bits}, "row bits"), Index{8});
  p.code_bytes =
      checked::mul(static_cast<std::size_t>(rows), static_cast<std::size_t>(p.code_row_bytes), "code bytes");
  const Index groups = checked::mul(spec.group_rows(rows), spec.groups_per_row(cols), "groups");
  p.scale_bytes = checked::mul(static_cast<std::size_t>(groups), size_of(spec.scale.dtype), "scale bytes");
  if (spec.offset == OffsetKind::int_zero) p.offset_bytes = static_cast<std::size_t>(groups);
  if (spec.offset == OffsetKind::float_min)
    p.offset_bytes =
        checked::mul(static_cast<std::size_t>(groups), size_of(spec.offset_dtype), "offset bytes");
  p.scale_start = checked::round_up(p.code_bytes, std::size_t{64}, "code bytes");
  p.offset_start = checked::round_up(checked::add(p.scale_start, p.scale_bytes, "scale bytes"),
                                     std::size_t{64}, "scale bytes");
  p.total = checked::add(p.offset_start, p.offset_bytes, "quantized bytes");
  return p;
}

/// The usual integer schemes, with groups of `group` columns (0: one scale per row) and scales of `scale`.
namespace integer {

inline QuantSpec with_group(QuantSpec spec, Index group, DType scale) {
  spec.group = group == 0 ? GroupShape{GroupKind::row, 0, 1} : GroupShape{GroupKind::group, group, 1};
  spec.scale.dtype = scale;
  spec.offset_dtype = scale;
  return spec;
}
/// Codes -2^(bits-1) .. 2^(bits-1)-1; the scale may be negative, so that the extreme weight is a code.
inline QuantSpec symmetric(int bits, Index group, DType scale = DType::f16) {
  return with_group({.bits = bits, .codebook = Codebook::linear_signed}, group, scale);
}
/// Codes -(2^(bits-1)-1) .. 2^(bits-1)-1; 2 bits or more.
inline QuantSpec symmetric_narrow(int bits, Index group, DType scale = DType::f16) {
  return with_group({.bits = bits, .codebook = Codebook::linear_signed, .narrow_range = true}, group, scale);
}
/// Codes 0 .. 2^bits-1 with an integer zero per group, as AWQ and GPTQ store them.
inline QuantSpec asymmetric(int bits, Index group, DType scale = DType::f16) {
  return with_group({.bits = bits, .codebook = Codebook::linear_unsigned, .offset = OffsetKind::int_zero},
                    group, scale);
}
/// Codes 0 .. 2^bits-1 with a real minimum per group.
inline QuantSpec affine_min(int bits, Index group, DType scale = DType::f16) {
  return with_group({.bits = bits, .codebook = Codebook::linear_unsigned, .offset = OffsetKind::float_min},
                    group, scale);
}

}  // namespace integer

}  // namespace nibble
