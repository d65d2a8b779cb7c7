// SPDX-License-Identifier: MIT
// The FP32 matrix product behind dense and exact linear layers and both products of attention. Register
// tiles of up to 6 rows x NV vectors; every output is one chain of FMAs over ascending k, whatever the tile.
#pragma once

/// How b lies in memory: its element type, and whether blocks of 16 columns are apart.
enum class GemmB { floats, float_blocks, halves, half_blocks, bytes, byte_blocks };

template <bool Part>
static inline F load_b(const float* p, i64 part) {
  return Part ? load_part(p, part) : load(p);
}
template <bool Part>
static inline F load_b(const std::uint16_t* p, i64 part) {
  return Part ? load_half_part(p, part) : load_half(p);
}

template <bool Part>
static inline F load_b(const std::int8_t* p, i64 part) {
  if (!Part) return load_int8(p);
  std::int8_t lanes[W] = {};  // no more than the part is there to be read
  for (i64 i = 0; i < part; ++i) lanes[i] = p[i];
  return load_int8(lanes);
}

/// acc[r][v] += a[r][k] b[k][v] over all k. `b` is the first vector's column, `apart[v]` where the others are.
/// `ahead`: elements to what is read some time later, by this tile or the next. Narrow types are a cache's pages,
/// read once from memory; their blocks are too short for the processor to see a stream in them.
template <int MR, int NV, bool Part, class T>
static inline void gemm_sum(const GemmF32& g, const float* const (&a)[MR], const T* b, const i64 (&apart)[NV],
                            i64 part, i64 ahead, F (&acc)[MR][NV]) {
  for (i64 k = 0; k < g.k; ++k, b += g.b_stride) {
    if constexpr (sizeof(T) < 4) {
      NIBBLE_UNROLL
      for (int v = 0; v < NV; ++v) __builtin_prefetch(b + apart[v] + ahead, 0, 2);
    }
    F bv[NV];
    NIBBLE_UNROLL
    for (int v = 0; v < NV; ++v) bv[v] = load_b<Part>(b + apart[v], part);
    NIBBLE_UNROLL
    for (int r = 0; r < MR; ++r) {
      const F av = set1(a[r][k]);
      NIBBLE_UNROLL
      for (int v = 0; v < NV; ++v) acc[r][v] = fma(av, bv[v], acc[r][v]);
    }
  }
}

/// MR rows (of which `rows` exist; the others repeat the last) x NV vectors; `part` lanes in the last when
/// NV is 1 and the vector is not whole.
template <GemmB B, int MR, int NV, bool Part>
static inline void gemm_tile(const GemmF32& g, i64 row, i64 rows, i64 col, i64 part) {
  constexpr bool blocks = B == GemmB::float_blocks || B == GemmB::half_blocks || B == GemmB::byte_blocks;
  const float* a[MR];
  F acc[MR][NV];
  NIBBLE_UNROLL
  for (int r = 0; r < MR; ++r) {
    a[r] = g.a + (row + (r < rows ? r : rows - 1)) * g.a_stride;
    NIBBLE_UNROLL
    for (int v = 0; v < NV; ++v) {
      const float* c = g.c + (row + (r < rows ? r : rows - 1)) * g.c_stride + col + v * W;
      acc[r][v] = !g.accumulate ? set1(0.0f) : Part ? load_part(c, part) : load(c);
    }
  }
  const i64 first = blocks ? col / 16 * g.b_block + col % 16 : col;
  i64 apart[NV];
  NIBBLE_UNROLL
  for (int v = 0; v < NV; ++v)
    apart[v] = blocks ? (col + v * W) / 16 * g.b_block + (col + v * W) % 16 - first : v * W;
  const i64 ahead = blocks ? NV * W / 16 * g.b_block : 32 * g.b_stride;
  if (B == GemmB::bytes || B == GemmB::byte_blocks)
    gemm_sum<MR, NV, Part>(g, a, g.b_bytes + first, apart, part, ahead, acc);
  else if (B == GemmB::halves || B == GemmB::half_blocks)
    gemm_sum<MR, NV, Part>(g, a, g.b_half + first, apart, part, ahead, acc);
  else gemm_sum<MR, NV, Part>(g, a, g.b + first, apart, part, ahead, acc);
  NIBBLE_UNROLL
  for (int r = 0; r < MR; ++r) {
    if (r < rows) {
      NIBBLE_UNROLL
      for (int v = 0; v < NV; ++v) {
        float* c = g.c + (row + r) * g.c_stride + col + v * W;
        if (Part) store_part(c, acc[r][v], part);
        else store(c, acc[r][v]);
      }
    }
  }
}

template <GemmB B, int NV, bool Part>
static inline void gemm_columns(const GemmF32& g, i64 col, i64 part) {
  i64 row = 0;
  while (row < g.m) {
    const i64 left = g.m - row;
    if (left == 1) {
      gemm_tile<B, 1, NV, Part>(g, row, 1, col, part);
      return;
    }
    if (left == 2) {
      gemm_tile<B, 2, NV, Part>(g, row, 2, col, part);
      return;
    }
    if (left <= 4) {
      gemm_tile<B, 4, NV, Part>(g, row, left, col, part);
      return;
    }
    const i64 rows = left < gemm_rows ? left : gemm_rows;
    gemm_tile<B, gemm_rows, NV, Part>(g, row, rows, col, part);
    row += rows;
  }
}

template <GemmB B>
static void gemm(const GemmF32& g) {
  i64 col = 0;
  for (; col + gemm_vectors * W <= g.n; col += gemm_vectors * W) gemm_columns<B, gemm_vectors, false>(g, col, W);
  for (; col + 2 * W <= g.n; col += 2 * W) gemm_columns<B, 2, false>(g, col, W);
  for (; col + W <= g.n; col += W) gemm_columns<B, 1, false>(g, col, W);
  if (col < g.n) gemm_columns<B, 1, true>(g, col, g.n - col);
}

void gemm_f32(const GemmF32& g) {
  const bool blocks = g.b_block != 16;
  if (g.b_bytes != nullptr) blocks ? gemm<GemmB::byte_blocks>(g) : gemm<GemmB::bytes>(g);
  else if (g.b_half != nullptr) blocks ? gemm<GemmB::half_blocks>(g) : gemm<GemmB::halves>(g);
  else blocks ? gemm<GemmB::float_blocks>(g) : gemm<GemmB::floats>(g);
}
