// SPDX-License-Identifier: MIT
// vpexpandb: the bytes of a vector spread to where a mask has ones. Where the unit is built without VBMI2
// (NIBBLE_EMULATED_ISAS, for tests) memory does it. Included inside the instruction set's namespace.
#pragma once

/// The first bytes of `v` in the places of the mask's ones, those of `rest` in the others.
static inline I expand_bytes(I rest, std::uint64_t mask, I v) {
#if !defined(__AVX512VBMI2__)
  alignas(64) std::uint8_t from[64], to[64];
  _mm512_store_si512(from, v);
  _mm512_store_si512(to, rest);
  for (i64 n = 0; mask != 0; mask &= mask - 1, ++n) to[__builtin_ctzll(mask)] = from[n];
  return _mm512_load_si512(to);
#else
  return _mm512_mask_expand_epi8(rest, mask, v);
#endif
}

static inline void expand_line(std::uint64_t mask, const std::uint8_t* stored, std::uint8_t pruned, std::uint8_t* to) {
  store_i(to, expand_bytes(set1_i(pruned * 0x01010101), mask, load_i(stored)));
}
