// SPDX-License-Identifier: MIT
// Scheme: what a user asks for ("4 bits, asymmetric, groups of 128"), in the field's words. It becomes a
// QuantSpec, which says how the result is stored.
#pragma once

#include "nibble/format/integer_group.hpp"

namespace nibble::quant {

enum class Symmetry : std::uint8_t {
  full_range,  ///< codes -2^(b-1) .. 2^(b-1)-1, the scale's sign is free: the better symmetric choice
  narrow,      ///< codes -(2^(b-1)-1) .. 2^(b-1)-1
  asymmetric,  ///< codes 0 .. 2^b-1 and an integer zero
  float_min    ///< codes 0 .. 2^b-1 and a real minimum
};

enum class Granularity : std::uint8_t { group, channel, block, tensor };

struct Scheme {
  int bits = 4;
  Symmetry symmetry = Symmetry::full_range;
  Granularity granularity = Granularity::group;
  Index group = 128;            ///< columns per group, or columns and rows of a block
  DType scale = DType::f16;     ///< of scales and minima

  /// The storage of this scheme. Throws Error{invalid_argument} on values out of range.
  QuantSpec spec() const {
    QuantSpec s;
    s.bits = bits;
    s.narrow_range = symmetry == Symmetry::narrow;
    s.scale.dtype = s.offset_dtype = scale;
    if (symmetry == Symmetry::asymmetric || symmetry == Symmetry::float_min) {
      s.codebook = Codebook::linear_unsigned;
      s.offset = symmetry == Symmetry::asymmetric ? OffsetKind::int_zero : OffsetKind::float_min;
    }
    switch (granularity) {
      case Granularity::group: s.group = {GroupKind::group, group, 1}; break;
      case Granularity::channel: s.group = {GroupKind::row, 0, 1}; break;
      case Granularity::block: s.group = {GroupKind::block, group, group}; break;
      case Granularity::tensor: s.group = {GroupKind::tensor, 0, 1}; break;
    }
    s.validate();
    return s;
  }
};

}  // namespace nibble::quant
