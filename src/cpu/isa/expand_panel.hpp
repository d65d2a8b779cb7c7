// SPDX-License-Identifier: MIT
// Dense panels from bitmap panels: what goes before every kernel that has no way of its own to read them. Included
// inside an instruction set's namespace, after panel_access.hpp and the unit's `expand_line`: the 64 bytes of a line,
// where the mask has ones the next of `stored`, elsewhere `pruned`.
#pragma once

static inline i64 stored_bytes(i64 bits, std::uint64_t mask) {
  const i64 n = __builtin_popcountll(mask);
  return bits == 8 ? n : (n + 1) / 2;
}

/// Four lines, quads q and q + 1 of both halves, into the chunk's lines; returns where the next ones are stored.
static inline const std::uint8_t* expand_two_quads(const PackedLayout& l, const std::uint8_t* masks, i64 quad,
                                                   const std::uint8_t* stored, std::uint8_t* lines) {
  alignas(64) std::uint8_t quads[4][64];
  for (i64 i = 0; i < 4; ++i) {
    std::uint64_t mask;
    __builtin_memcpy(&mask, masks + (quad * 2 + i) * 8, 8);
    if (l.bits == 8) {
      expand_line(mask, stored, l.pruned, lines + i % 2 * (l.chunk_bytes / 2) + (quad + i / 2) * line_bytes);
    } else {
      alignas(64) std::uint8_t codes[64];
      for (i64 k = 0; k < 32; ++k) {
        codes[2 * k] = stored[k] & 15;
        codes[2 * k + 1] = static_cast<std::uint8_t>(stored[k] >> 4);
      }
      expand_line(mask, codes, l.pruned, quads[i]);
    }
    stored += stored_bytes(l.bits, mask);
  }
  if (l.bits == 8) return stored;
  for (i64 half = 0; half < 2; ++half) {  // a line of 4 bits holds two quads
    std::uint8_t* line = lines + half * (l.chunk_bytes / 2) + quad / 2 * line_bytes;
    for (i64 k = 0; k < line_bytes; ++k)
      line[k] = static_cast<std::uint8_t>(quads[half][k] | quads[2 + half][k] << 4);
  }
  return stored;
}

void expand_panel(const PackedLayout& l, const std::uint8_t* panel, std::uint8_t* out) {
  const i64 records = (l.chunks + l.chunks_per_record - 1) / l.chunks_per_record;
  const std::uint8_t* masks = panel + records * l.header_bytes;
  ChunkCursor at = first_chunk(out);
  for (i64 chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    if (at.index == 0) {
      __builtin_memcpy(out + (at.record - out), panel, static_cast<std::size_t>(l.header_bytes));
      panel += l.header_bytes;
    }
    std::uint8_t* lines = out + (codes_of(l, at) - out);
    const std::uint8_t* stored = masks + mask_bytes;
    for (i64 quad = 0; quad < 8; quad += 2) stored = expand_two_quads(l, masks, quad, stored, lines);
    masks = stored;
  }
}
