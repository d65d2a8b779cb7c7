// SPDX-License-Identifier: MIT
// dot_small on bitmap panels (cpu/sparse_layout.hpp): a line's stored weights are spread in a register, the pruned
// ones get their code, and all else is dot_small's, so that the results have the same bits. Included inside an
// instruction set's namespace, after dot_small.hpp; the unit has `expand_bytes`.
#pragma once

/// Less than for dense panels, and into L1: the stored weights are loaded across lines, which leaves the core less time
/// to wait for L2, and the distance is in bytes of which each holds more weights. Measured.
constexpr i64 bitmap_prefetch_bytes = 2560;

/// The quads of one chunk, each read once in the order in which they are stored, which is dot_half's.
template <int Bits>
struct BitmapLines {
  static_assert(panel_vectors == 2, "a mask is of a vector's 16 rows");
  const std::uint8_t *masks, *stored;
  I pruned, both;  ///< 4 bits: the bytes of a quad

  template <int Quad, int Half, bool Codebook>
  I quad(const DotCodes<Bits, Codebook>& codes) {
    std::uint64_t mask[2];
    __builtin_memcpy(mask, masks + Quad * 16, 16);
    const i64 n = __builtin_popcountll(mask[Half]);
    if (Bits == 8) {
      const I next = load_i(stored);
      stored += n;
      return codes.multiplied(expand_bytes(pruned, mask[Half], next));
    }
    if (Half == 0) {
      const i64 high = __builtin_popcountll(mask[1]);
      both = load_i(stored);
      stored += n > high ? n : high;
    }
    const I next = and_i(shift_bytes<Half * 4>(both), every_byte(15));
    return codes.multiplied(expand_bytes(pruned, mask[Half], next));
  }
};

template <int Bits, bool Codebook, int M, int Sets>
static void dot_bitmap(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& rows, i64 row, float* c) {
  const DotCodes<Bits, Codebook> codes(l);
  const std::int32_t zero = codes.zero(l);
  const bool min = l.min.kind != ParameterKind::none;
  const PackedLayout heads = heads_layout(l);
  SmallInput<Sets> x(rows, row);
  F y[panel_vectors][M];
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = set1(0.0f);
  ScaleBatch batch;
  static_assert(scale_batch == batch_chunks, "headers are read a batch at a time");
  BitmapLines<Bits> quads{panel, nullptr, every_byte(l.pruned), set1_i(0)};
  ChunkCursor at = first_chunk(panel);
  const std::uint8_t* ahead = panel + bitmap_prefetch_bytes;  // what is before was asked for by the panel before
  for (i64 first = 0; first < l.chunks; first += scale_batch) {
    const i64 count = l.chunks - first < scale_batch ? l.chunks - first : scale_batch;
    if (const i64 bytes = heads_bytes(l, first); bytes > 0) {
      at = first_chunk(align_heads(quads.masks));
      quads.masks = at.record + bytes;
    } else {
      at = chunk_at(heads, panel, first);
    }
    expand_parameters(heads, l.scale, at, count, batch.scales);
    if (min) expand_parameters(heads, l.min, at, count, batch.mins);
    const float *scales = batch.scales, *mins = batch.mins;
    for (i64 i = 0; i < count; ++i, scales += Sets * panel_rows, mins += Sets * panel_rows) {
      for (; ahead < quads.masks + bitmap_prefetch_bytes; ahead += line_bytes) __builtin_prefetch(ahead, 0, 3);
      quads.stored = quads.masks + mask_bytes;
      dot_chunk<Bits, Codebook, M, Sets>(codes, zero, min, quads, scales, mins, x, rows.chunks, y);
      quads.masks = quads.stored;
      x.next();
    }
  }
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) store(c + m * panel_rows + v * W, y[v][m]);
}

template <int Bits, bool Codebook>
static void dot_bitmaps(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
                        float* c) {
  switch (m * 2 + l.sets) {
    case 3: return dot_bitmap<Bits, Codebook, 1, 1>(l, panel, x, row, c);
    case 4: return dot_bitmap<Bits, Codebook, 1, 2>(l, panel, x, row, c);
    case 5: return dot_bitmap<Bits, Codebook, 2, 1>(l, panel, x, row, c);
    case 6: return dot_bitmap<Bits, Codebook, 2, 2>(l, panel, x, row, c);
    case 7: return dot_bitmap<Bits, Codebook, 3, 1>(l, panel, x, row, c);
    case 8: return dot_bitmap<Bits, Codebook, 3, 2>(l, panel, x, row, c);
    case 9: return dot_bitmap<Bits, Codebook, 4, 1>(l, panel, x, row, c);
    default: return dot_bitmap<Bits, Codebook, 4, 2>(l, panel, x, row, c);
  }
}

void dot_sparse(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m, float* c) {
  if (l.bits == 8) dot_bitmaps<8, false>(l, panel, x, row, m, c);
  else if (l.has_codebook) dot_bitmaps<4, true>(l, panel, x, row, m, c);
  else dot_bitmaps<4, false>(l, panel, x, row, m, c);
}
