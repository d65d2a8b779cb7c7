// SPDX-License-Identifier: MIT
// The FP32 matrix product behind dense and exact linear layers and both products of attention. Register
// tiles of up to 6 rows x NV vectors; every output is one chain of FMAs over ascending k, whatever the tile.
#pragma once

/// MR rows (of which `rows` exist; the others repeat the last) x NV vectors; `part` lanes in the last when
/// NV is 1 and the vector is not whole.
template <int MR, int NV, bool Part>
static inline void gemm_tile(const GemmF32& g, i64 row, i64 rows, i64 col, i64 part) {
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
  const float* b = g.b + col;
  for (i64 k = 0; k < g.k; ++k, b += g.b_stride) {
    F bv[NV];
    NIBBLE_UNROLL
    for (int v = 0; v < NV; ++v) bv[v] = Part ? load_part(b + v * W, part) : load(b + v * W);
    NIBBLE_UNROLL
    for (int r = 0; r < MR; ++r) {
      const F av = set1(a[r][k]);
      NIBBLE_UNROLL
      for (int v = 0; v < NV; ++v) acc[r][v] = fma(av, bv[v], acc[r][v]);
    }
  }
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

template <int NV, bool Part>
static inline void gemm_columns(const GemmF32& g, i64 col, i64 part) {
  i64 row = 0;
  while (row < g.m) {
    const i64 left = g.m - row;
    if (left == 1) {
      gemm_tile<1, NV, Part>(g, row, 1, col, part);
      return;
    }
    if (left == 2) {
      gemm_tile<2, NV, Part>(g, row, 2, col, part);
      return;
    }
    if (left <= 4) {
      gemm_tile<4, NV, Part>(g, row, left, col, part);
      return;
    }
    const i64 rows = left < gemm_rows ? left : gemm_rows;
    gemm_tile<gemm_rows, NV, Part>(g, row, rows, col, part);
    row += rows;
  }
}

void gemm_f32(const GemmF32& g) {
  i64 col = 0;
  for (; col + gemm_vectors * W <= g.n; col += gemm_vectors * W) gemm_columns<gemm_vectors, false>(g, col, W);
  for (; col + 2 * W <= g.n; col += 2 * W) gemm_columns<2, false>(g, col, W);
  for (; col + W <= g.n; col += W) gemm_columns<1, false>(g, col, W);
  if (col < g.n) gemm_columns<1, true>(g, col, g.n - col);
}
