// SPDX-License-Identifier: MIT
// Codes of a panel as the unit's dot product multiplies them, and activations beside them. Included inside an
// instruction set's namespace, after dot_pairs.hpp or dot_quads.hpp.
#pragma once

template <int Bits, bool Codebook>
struct DotCodes {
  using Dot = typename DotOf<Bits, Codebook>::Type;
  I table;

  explicit DotCodes(const PackedLayout& l) : table(set1_i(0)) {
    if (Codebook) table = signed_bytes ? repeat16(l.codebook) : xor_i(repeat16(l.codebook), every_byte(0x80));
  }
  template <int Quad>
  I quad(const std::uint8_t* lines) const {
    return multiplied(load_quad<Bits, Quad>(lines));
  }
  /// Bytes of codes as the dot product multiplies them.
  I multiplied(I v) const {
    if (Codebook) return lookup_bytes(table, v);
    return Bits == 8 && signed_bytes ? xor_i(v, every_byte(0x80)) : v;
  }
  /// The number that stands for zero among what `quad` gives.
  static std::int32_t zero(const PackedLayout& l) {
    if (Codebook) return signed_bytes ? 0 : 128;
    return Bits == 8 && signed_bytes ? l.zero - 128 : l.zero;
  }
};

/// Four activations in every lane.
static inline I repeat_quad(const std::int8_t* q) {
  std::int32_t bits;
  __builtin_memcpy(&bits, q, 4);
  return set1_i(bits);
}
