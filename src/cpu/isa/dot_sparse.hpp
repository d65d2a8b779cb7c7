// SPDX-License-Identifier: MIT
// dot_small on bitmap panels (cpu/sparse_layout.hpp): a line's stored weights are spread in a register, the pruned
// ones get their code, and all else is dot_small's, so that the results have the same bits. Included inside an
// instruction set's namespace, after dot_small.hpp; the unit has `expand_bytes` and `unpack_nibbles`.
#pragma once

/// The lines of one chunk, read once in the order in which they are stored, which is dot_half's.
template <int Bits>
struct BitmapLines {
  static_assert(panel_vectors == 2, "a vector is a line's 16 rows");
  const std::uint8_t *masks, *stored;
  I pruned;

  template <int Quad, int Vector, bool Codebook>
  I quad(const DotCodes<Bits, Codebook>& codes) {
    std::uint64_t mask;
    __builtin_memcpy(&mask, masks + (Quad * 2 + Vector) * 8, 8);
    const I next = Bits == 8 ? load_i(stored) : unpack_nibbles(stored);
    const i64 n = __builtin_popcountll(mask);
    stored += Bits == 8 ? n : (n + 1) / 2;
    return codes.multiplied(expand_bytes(pruned, mask, next));
  }
};

template <int Bits, bool Codebook, int M, int Sets>
static void dot_bitmap(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& rows, i64 row, float* c) {
  const DotCodes<Bits, Codebook> codes(l);
  const std::int32_t zero = codes.zero(l);
  const bool min = l.min.kind != ParameterKind::none;
  PackedLayout heads = l;  // of a panel's beginning, where headers follow each other
  heads.record_bytes = l.header_bytes;
  SmallInput<Sets> x(rows, row);
  F y[panel_vectors][M];
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = set1(0.0f);
  ScaleBatch batch;
  const i64 records = (l.chunks + l.chunks_per_record - 1) / l.chunks_per_record;
  BitmapLines<Bits> quads{panel + records * l.header_bytes, nullptr, every_byte(l.pruned)};
  const std::uint8_t* ahead = quads.masks;
  for (i64 first = 0; first < l.chunks; first += scale_batch) {
    const i64 count = l.chunks - first < scale_batch ? l.chunks - first : scale_batch;
    const ChunkCursor at = chunk_at(heads, panel, first);
    expand_parameters(heads, l.scale, at, count, batch.scales);
    if (min) expand_parameters(heads, l.min, at, count, batch.mins);
    const float *scales = batch.scales, *mins = batch.mins;
    for (i64 i = 0; i < count; ++i, scales += Sets * panel_rows, mins += Sets * panel_rows) {
      for (; ahead < quads.masks + prefetch_bytes; ahead += line_bytes) __builtin_prefetch(ahead, 0, 2);
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
