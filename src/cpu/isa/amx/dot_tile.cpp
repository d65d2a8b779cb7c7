// SPDX-License-Identifier: MIT
// Products that must stay on codes, on INT8 tiles: the same bits as dot_small. A tile product covers the columns of
// one scale set, whose sums then leave the tiles for FP32 accumulators in registers. That work of vectors takes
// longer than the products, which pass beside it: each is asked for one step ahead.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::amx {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/amx/tiles.hpp"

/// Codes become signed numbers less their zero point: sums then need no start value. Only eight bits with another
/// zero than 128 have no room for that.
template <int Bits, bool Codebook>
struct Widen {
  static void call(const PackedLayout& l, const std::uint8_t* panel, WidePanel* out) {
    constexpr std::int32_t low = (1 << Bits) - 128, high = 128;  // what may be taken from every code
    const std::int32_t less = l.zero < low ? low : l.zero > high ? high : l.zero;
    const __m512i bytes = _mm512_set1_epi8(static_cast<char>(less));
    const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(l.codebook)));
    ChunkCursor at = first_chunk(panel);
    std::uint8_t* to = out->codes;
    for (i64 chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
      for (i64 half = 0; half < 2; ++half, to += 512) {
        const std::uint8_t* lines = codes_of(l, at) + half * (Bits * 64);
        unrolled<8>([&](auto quad) __attribute__((always_inline)) {
          const I v = load_quad<Bits, quad.value>(lines);
          store_i(to + quad.value * 64, Codebook ? _mm512_shuffle_epi8(table, v) : _mm512_sub_epi8(v, bytes));
        });
      }
    }
    out->zero = Codebook ? 0 : l.zero - less;
  }
};

void widen(const PackedLayout& l, const std::uint8_t* panel, WidePanel& out) {
  for_codes<Widen>(l, panel, &out);
  expand_parameters(l, l.scale, first_chunk(panel), l.chunks, out.scales);
  if (l.min.kind != ParameterKind::none) expand_parameters(l, l.min, first_chunk(panel), l.chunks, out.mins);
}

/// Together: with two panels 32 KiB of codes and scales, which stay in L1 while the rows pass through it.
constexpr i64 piece_chunks = 8;

/// Up to 16 rows over some chunks as the tiles read them, each step's scales beside each other: columns of a power of
/// two would otherwise meet in the same few lines of L1. Rows that do not exist repeat the last.
template <int Sets>
struct RowPiece {
  alignas(64) std::int8_t q[piece_chunks][16][chunk_cols];
  alignas(64) float scale[piece_chunks][16];
  alignas(64) float scaled_sum[piece_chunks * Sets][16];
  alignas(64) std::int32_t start[piece_chunks * Sets][16];

  void gather(const QuantizedRows& x, i64 row, i64 rows, i64 first, i64 count, std::int32_t zero, bool min) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i last = _mm512_set1_epi32(static_cast<int>(rows - 1));
    const __m512i at = _mm512_mullo_epi32(_mm512_min_epi32(lanes, last), _mm512_set1_epi32(static_cast<int>(x.chunks)));
    const __m512i at_set = _mm512_slli_epi32(at, Sets - 1);
    for (i64 r = 0; r < rows; ++r) {
      const std::int8_t* from = x.q + ((row + r) * x.chunks + first) * chunk_cols;
      for (i64 i = 0; i < count; ++i) __builtin_memcpy(q[i][r], from + i * chunk_cols, chunk_cols);
    }
    const i64 g = row * x.chunks + first;
    for (i64 i = 0; i < count; ++i) _mm512_store_ps(scale[i], _mm512_i32gather_ps(at, x.scale + g + i, 4));
    for (i64 i = 0; min && i < count * Sets; ++i)
      _mm512_store_ps(scaled_sum[i], _mm512_i32gather_ps(at_set, x.scaled_sum + g * Sets + i, 4));
    for (i64 i = 0; zero != 0 && i < count * Sets; ++i)
      _mm512_store_si512(start[i], _mm512_mullo_epi32(_mm512_set1_epi32(-zero),
                                                      _mm512_i32gather_epi32(at_set, x.sum + g * Sets + i, 4)));
  }
};

/// 16 outputs of a panel, from the first chunk of a piece on.
struct Outputs {
  const std::uint8_t* codes;
  const float *scales, *mins;  ///< mins null: none
};

/// The integer sums of step `step`, a chunk's scale set, to `sums`.
template <int Sets>
static inline __attribute__((always_inline)) void multiply([[maybe_unused]] Tiles& tiles, const RowPiece<Sets>& x,
                                                           const Outputs& w, i64 step, std::int32_t* sums) {
  NIBBLE_TILE_ZERO(0);
  NIBBLE_TILE_LOAD(4, x.q[0][0] + step / Sets * (16 * chunk_cols) + step % Sets * 16, chunk_cols);
  NIBBLE_TILE_LOAD(6, w.codes + step / Sets * (chunk_cols * panel_rows) + step % Sets * 256, 64);
  NIBBLE_TILE_DOT_INT8(0, 4, 6);
  NIBBLE_TILE_STORE(0, sums, 64);
}

/// c[R][64] (+)= R rows times 16 outputs over a piece.
template <int R, int Sets, bool Start>
static void add_piece(Tiles& tiles, const RowPiece<Sets>& x, const Outputs w, i64 chunks, bool accumulate, float* c) {
  alignas(64) std::int32_t sums[2][R][16];
  F y[R];
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) y[r] = accumulate ? load(c + r * 64) : set1(0.0f);
  const i64 steps = chunks * Sets;
  if (steps > 0) multiply<Sets>(tiles, x, w, 0, sums[0][0]);
  for (i64 step = 0; step < steps; ++step) {
    if (step + 1 < steps) multiply<Sets>(tiles, x, w, step + 1, sums[(step + 1) % 2][0]);
    const F scale = load(w.scales + step * panel_rows);
    NIBBLE_UNROLL
    for (int r = 0; r < R; ++r) {
      I sum = load_i(sums[step % 2][r]);
      if (Start) sum = add_i(sum, set1_i(x.start[step][r]));
      y[r] = fma(to_float(sum) * scale, set1(x.scale[step / Sets][r]), y[r]);
    }
    if (w.mins == nullptr) continue;
    const F min = load(w.mins + step * panel_rows);
    NIBBLE_UNROLL
    for (int r = 0; r < R; ++r) y[r] = fnma(min, set1(x.scaled_sum[step][r]), y[r]);
  }
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) store(c + r * 64, y[r]);
}

template <int R, int Sets, bool Start>
static void dot_panels(const WidePanel& a, const WidePanel& b, bool min, const QuantizedRows& x, i64 row, i64 m,
                       float* c) {
  Tiles tiles(tile_shapes<R, 8 / Sets>);
  RowPiece<Sets> rows;
  const int blocks = b.codes != nullptr ? 4 : 2;
  i64 first = 0;
  do {
    const i64 count = x.chunks - first < piece_chunks ? x.chunks - first : piece_chunks;
    for (i64 r = 0; r < m; r += R) {
      rows.gather(x, row + r, m - r < R ? m - r : R, first, count, a.zero, min);
      for (int block = 0; block < blocks; ++block) {
        const WidePanel& p = block < 2 ? a : b;
        const i64 output = block % 2 * 16, scales = first * Sets * panel_rows + output;
        const Outputs w{p.codes + first * chunk_cols * panel_rows + output * chunk_cols, p.scales + scales,
                        min ? p.mins + scales : nullptr};
        add_piece<R, Sets, Start>(tiles, rows, w, count, first > 0, c + r * 64 + block * 16);
      }
    }
    first += piece_chunks;
  } while (first < x.chunks);
}

template <int Sets>
static void dot_sets(const WidePanel& a, const WidePanel& b, bool min, const QuantizedRows& x, i64 row, i64 m,
                     float* c) {
  if (a.zero != 0) dot_panels<16, Sets, true>(a, b, min, x, row, m, c);
  else if (m <= 8) dot_panels<8, Sets, false>(a, b, min, x, row, m, c);
  else dot_panels<16, Sets, false>(a, b, min, x, row, m, c);
}

void dot_tile(const PackedLayout& l, const WidePanel& a, const WidePanel& b, const QuantizedRows& x, i64 row, i64 m,
              float* c) {
  const bool min = l.min.kind != ParameterKind::none;
  if (l.sets == 2) dot_sets<2>(a, b, min, x, row, m, c);
  else dot_sets<1>(a, b, min, x, row, m, c);
}

}  // namespace nibble::cpu::amx
