// SPDX-License-Identifier: MIT
// A quad of one row's codes as the bytes of a word, for any width known at run time: what codes.hpp does with
// vectors. `lines` is the row's place in the first line of its half chunk.
#pragma once

static inline std::uint32_t line_word(const std::uint8_t* lines, i64 line) {
  std::uint32_t w;
  __builtin_memcpy(&w, lines + line * 64, 4);
  return w;
}

static inline std::uint32_t quad_word(int bits, const std::uint8_t* lines, i64 quad) {
  if (bits == 8) return line_word(lines, quad);
  std::uint32_t word = 0;
  int at = 0;
  for (int plane = 4; plane > 0; plane /= 2) {
    if ((bits & plane) == 0) continue;
    const i64 quads = 8 / plane;
    const std::uint32_t mask = ((1u << plane) - 1u) * 0x01010101u;
    word |= (line_word(lines, quad / quads) >> (quad % quads * plane) & mask) << at;
    lines += plane * 64;
    at += plane;
  }
  return word;
}
