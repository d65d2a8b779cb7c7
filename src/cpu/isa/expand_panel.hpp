// SPDX-License-Identifier: MIT
// Dense panels from bitmap panels: what goes before every kernel that has no way of its own to read them. Included
// inside an instruction set's namespace, after panel_access.hpp and the unit's `expand_line`: the 64 bytes of a line,
// where the mask has ones the next of `stored`, elsewhere `pruned`.
#pragma once

/// Quads q and q + 1 of a chunk into its lines; returns where the next ones are stored.
static inline const std::uint8_t* expand_two_quads(const PackedLayout& l, const std::uint8_t* masks, i64 quad,
                                                   const std::uint8_t* stored, std::uint8_t* lines) {
  alignas(64) std::uint8_t quads[2][2][64];  // of 4 bits, of which a line holds two
  for (i64 i = 0; i < 2; ++i) {
    std::uint64_t mask[2];
    __builtin_memcpy(mask, masks + (quad + i) * 16, 16);
    const i64 low = __builtin_popcountll(mask[0]), high = __builtin_popcountll(mask[1]);
    if (l.bits == 8) {
      std::uint8_t* line = lines + (quad + i) * line_bytes;
      expand_line(mask[0], stored, l.pruned, line);
      expand_line(mask[1], stored + low, l.pruned, line + l.chunk_bytes / 2);
      stored += low + high;
      continue;
    }
    alignas(64) std::uint8_t codes[2][64];
    for (i64 k = 0; k < 64; ++k) {
      codes[0][k] = stored[k] & 15;
      codes[1][k] = static_cast<std::uint8_t>(stored[k] >> 4);
    }
    for (i64 half = 0; half < 2; ++half) expand_line(mask[half], codes[half], l.pruned, quads[half][i]);
    stored += low > high ? low : high;
  }
  for (i64 half = 0; l.bits == 4 && half < 2; ++half) {
    std::uint8_t* line = lines + half * (l.chunk_bytes / 2) + quad / 2 * line_bytes;
    for (i64 k = 0; k < line_bytes; ++k)
      line[k] = static_cast<std::uint8_t>(quads[half][0][k] | quads[half][1][k] << 4);
  }
  return stored;
}

void expand_panel(const PackedLayout& l, const std::uint8_t* panel, std::uint8_t* out) {
  ChunkCursor at = first_chunk(out);
  const std::uint8_t* header = panel;
  for (i64 chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    if (const i64 bytes = heads_bytes(l, chunk); bytes > 0) {
      header = align_heads(panel);
      panel = header + bytes;
    }
    if (at.index == 0) {
      __builtin_memcpy(out + (at.record - out), header, static_cast<std::size_t>(l.header_bytes));
      header += l.header_bytes;
    }
    std::uint8_t* lines = out + (codes_of(l, at) - out);
    const std::uint8_t* stored = panel + mask_bytes;
    for (i64 quad = 0; quad < 8; quad += 2) stored = expand_two_quads(l, panel, quad, stored, lines);
    panel = stored;
  }
}
