// SPDX-License-Identifier: MIT
// Products that must stay on codes, on INT8 tiles: the same bits as dot_small. A tile product covers a chunk, whose
// sums then leave the tile for FP32 accumulators in registers; each product is asked for one chunk ahead of that.
// Where scales change every 16 columns twice as many sums would leave tiles: that takes longer than vectors take
// in all (docs/decisions/0011).
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
#include "cpu/isa/amx/transpose.hpp"

/// For two scale sets.
namespace vectors {
#include "cpu/isa/avx512vnni/vnni.hpp"
#include "cpu/isa/dot_quads.hpp"
#include "cpu/isa/dot_codes.hpp"
constexpr int tile_vectors = 4;
#include "cpu/isa/dot_tile.hpp"
}  // namespace vectors

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
  if (l.sets == 2) return vectors::widen(l, panel, out);
  for_codes<Widen>(l, panel, &out);
  expand_parameters(l, l.scale, first_chunk(panel), l.chunks, out.scales);
  if (l.min.kind != ParameterKind::none) expand_parameters(l, l.min, first_chunk(panel), l.chunks, out.mins);
}

/// Together: with two panels 40 KiB of codes and scales, which stay near while the rows pass through them.
constexpr i64 piece_chunks = 16;

/// Up to 16 rows over some chunks as the tiles read them, each chunk's scales beside each other: columns of a power of
/// two would otherwise meet in the same few lines of L1. Rows that do not exist repeat the last.
struct RowPiece {
  alignas(64) std::int8_t q[piece_chunks / 2][16][2 * chunk_cols];
  alignas(64) float scale[piece_chunks][16], scaled_sum[piece_chunks][16];
  alignas(64) float sum[piece_chunks][16];  ///< bits of int32

  void gather(const QuantizedRows& x, i64 row, i64 rows, i64 first, i64 count, bool sums, bool min) {
    const i64 g = row * x.chunks + first;
    for (i64 r = 0; r < rows; ++r) {
      const std::int8_t* from = x.q + (g + r * x.chunks) * chunk_cols;
      for (i64 i = 0; i < count; i += 2, from += 2 * chunk_cols)
        _mm512_store_si512(q[i / 2][r], _mm512_maskz_loadu_epi32(i + 1 < count ? 0xFFFF : 0xFF, from));
    }
    transpose16(x.scale + g, x.chunks, rows, count, scale);
    if (min) transpose16(x.scaled_sum + g, x.chunks, rows, count, scaled_sum);
    if (sums) transpose16(reinterpret_cast<const float*>(x.sum) + g, x.chunks, rows, count, sum);
  }
};

/// 16 outputs of a panel, from the first chunk of a piece on.
struct Outputs {
  const std::uint8_t* codes;
  const float *scales, *mins;  ///< mins null: none
};

/// The integer sums of one chunk to `sums`.
static inline __attribute__((always_inline)) void multiply([[maybe_unused]] Tiles& tiles, const RowPiece& x,
                                                           const std::uint8_t* codes, i64 chunk, std::int32_t* sums) {
  NIBBLE_TILE_ZERO(0);
  NIBBLE_TILE_LOAD(4, x.q[chunk / 2][0] + chunk % 2 * chunk_cols, 2 * chunk_cols);
  NIBBLE_TILE_LOAD(6, codes + chunk * (chunk_cols * panel_rows), 64);
  NIBBLE_TILE_DOT_INT8(0, 4, 6);
  NIBBLE_TILE_STORE(0, sums, 64);
}

/// c[R][64] (+)= R rows times blocks of 16 outputs over a piece. Integer sums are less `zero` times the activations'.
template <int R, bool Zero>
static void add_piece(Tiles& tiles, const RowPiece& x, const Outputs* w, int blocks, i64 chunks, std::int32_t zero,
                      bool accumulate, float* c) {
  alignas(64) std::int32_t sums[2][R][16];
  int current = 0;
  if (chunks > 0) multiply(tiles, x, w->codes, 0, sums[0][0]);
  for (int block = 0; block < blocks; ++block, ++w, c += 16) {
    F y[R];
    NIBBLE_UNROLL
    for (int r = 0; r < R; ++r) y[r] = accumulate ? load(c + r * 64) : set1(0.0f);
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
      const auto& now = sums[current];
      current ^= 1;
      const bool last = chunk + 1 == chunks;
      if (!last || block + 1 < blocks)
        multiply(tiles, x, last ? w[1].codes : w->codes, last ? 0 : chunk + 1, sums[current][0]);
      const F scale = load(w->scales + chunk * panel_rows);
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        I sum = load_i(now[r]);
        if (Zero) sum = sub_i(sum, set1_i(zero) * as_int(set1(x.sum[chunk][r])));
        y[r] = fma(to_float(sum) * scale, set1(x.scale[chunk][r]), y[r]);
      }
      if (w->mins == nullptr) continue;
      const F min = load(w->mins + chunk * panel_rows);
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) y[r] = fnma(min, set1(x.scaled_sum[chunk][r]), y[r]);
    }
    NIBBLE_UNROLL
    for (int r = 0; r < R; ++r) store(c + r * 64, y[r]);
  }
}

template <int R, bool Zero>
static void dot_panels(const WidePanel& a, const WidePanel& b, bool min, const QuantizedRows& x, i64 row, i64 m,
                       float* c) {
  Tiles tiles(tile_shapes<R, 8>);
  RowPiece rows;
  const int blocks = b.codes != nullptr ? 4 : 2;
  i64 first = 0;
  do {  // sums over no columns are zeros
    const i64 count = x.chunks - first < piece_chunks ? x.chunks - first : piece_chunks;
    Outputs outputs[4];
    for (int block = 0; block < blocks; ++block) {
      const WidePanel& p = block < 2 ? a : b;
      const i64 output = block % 2 * 16, scales = first * panel_rows + output;
      outputs[block] = {p.codes + first * chunk_cols * panel_rows + output * chunk_cols, p.scales + scales,
                        min ? p.mins + scales : nullptr};
    }
    for (i64 r = 0; r < m; r += R) {
      rows.gather(x, row + r, m - r < R ? m - r : R, first, count, Zero, min);
      add_piece<R, Zero>(tiles, rows, outputs, blocks, count, a.zero, first > 0, c + r * 64);
    }
    first += piece_chunks;
  } while (first < x.chunks);
}

void dot_tile(const PackedLayout& l, const WidePanel& a, const WidePanel& b, const QuantizedRows& x, i64 row, i64 m,
              float* c) {
  if (l.sets == 2) return vectors::dot_tile(l, a, b, x, row, m, c);
  const bool min = l.min.kind != ParameterKind::none;
  if (a.zero != 0) dot_panels<16, true>(a, b, min, x, row, m, c);
  else if (m <= 6) dot_panels<6, false>(a, b, min, x, row, m, c);
  else if (m <= 8) dot_panels<8, false>(a, b, min, x, row, m, c);
  else dot_panels<16, false>(a, b, min, x, row, m, c);
}

}  // namespace nibble::cpu::amx
