// SPDX-License-Identifier: MIT
// Many activation rows, AVX-512 VNNI: prefill. Panels are widened to bytes once, then tiles of 6 rows x 64
// outputs keep 24 integer accumulators in registers over a scale set's columns and add them, scaled, to
// FP32 sums in L1. Sums see the same operations in the same order as in dot_small.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512vnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/avx512vnni/vnni.hpp"

static void widen_codes(const PackedLayout& l, const std::uint8_t* lines, I table, std::uint8_t* out) {
  if (l.kind == PanelKind::codes8) {
    for (i64 i = 0; i < l.chunk_bytes; i += 64) _mm512_store_si512(out + i, load_i(lines + i));
    return;
  }
  const I mask = _mm512_set1_epi8(15);
  for (i64 i = 0; i < l.chunk_bytes; i += 64, out += 128) {
    const I v = load_i(lines + i);
    I even = _mm512_and_si512(v, mask), odd = _mm512_and_si512(_mm512_srli_epi16(v, 4), mask);
    if (l.has_codebook) {
      even = _mm512_shuffle_epi8(table, even);
      odd = _mm512_shuffle_epi8(table, odd);
    }
    _mm512_store_si512(out, even);
    _mm512_store_si512(out + 64, odd);
  }
}

void widen(const PackedLayout& l, const std::uint8_t* panel, const WidePanel& out) {
  const __m128i values =
      _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(l.codebook)), _mm_set1_epi8(-128));
  const I table = _mm512_broadcast_i32x4(values);
  const i64 sets = l.sets;
  for (i64 chunk = 0; chunk < l.chunks; ++chunk) {
    const ChunkPlace at = place_of(l, panel, chunk);
    widen_codes(l, at.codes, table, out.codes + chunk * chunk_cols * panel_rows);
    for (i64 set = 0; set < sets; ++set) {
      const i64 to = (chunk * sets + set) * panel_rows;
      for (i64 r = 0; r < panel_rows; r += W) {
        store(out.scales + to + r, load_parameter(at.header + set * scale_set_bytes(l), l.scale_f16, r));
        if (l.has_min)
          store(out.mins + to + r,
                load_parameter(at.header + sets * scale_set_bytes(l) + set * min_set_bytes(l), l.min_f16, r));
      }
    }
  }
}

/// What a tile reads of one or two panels.
struct Panels {
  const WidePanel& a;
  const WidePanel& b;
};

/// A scale set's integer sums, scaled, into c[R][64].
template <int R, int V, int Sets, bool Min>
static inline void add_scaled(const Panels& p, const QuantizedRows& x, const i64 (&rows)[R], i64 chunk,
                              i64 set, const I (&acc)[R][V], float* c) {
  const i64 at = (chunk * Sets + set) * panel_rows;
  F scale[V], min[V];
  NIBBLE_UNROLL
  for (int v = 0; v < V; ++v) {
    scale[v] = load((v < 2 ? p.a : p.b).scales + at + v % 2 * 16);
    min[v] = Min ? load((v < 2 ? p.a : p.b).mins + at + v % 2 * 16) : set1(0.0f);
  }
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    const i64 g = rows[r] * x.chunks + chunk;
    const F step = set1(x.scale[g]), sum = set1(x.scaled_sum[g * Sets + set]);
    NIBBLE_UNROLL
    for (int v = 0; v < V; ++v) {
      F y = fma(to_float(acc[r][v]) * scale[v], step, load(c + r * 64 + v * 16));
      if (Min) y = fnma(min[v], sum, y);
      store(c + r * 64 + v * 16, y);
    }
  }
}

/// Loads stay on their side: hoisted ahead of their quad they would cost registers, which are all taken.
static inline void keep_order() { asm volatile("" ::: "memory"); }

template <int R, int V, int Sets, bool Min>
__attribute__((noinline)) static void tile(const Panels& p, const QuantizedRows& x, i64 row, i64 m,
                                           float* c) {
  i64 rows[R];
  const std::int8_t* q[R];
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    rows[r] = row + (r < m ? r : m - 1);  // rows that do not exist repeat the last
    q[r] = x.q + rows[r] * x.chunks * chunk_cols;
  }
  for (i64 i = 0; i < R * 64; i += W) store(c + i, set1(0.0f));
  const std::int32_t zero = p.a.zero;
  for (i64 chunk = 0; chunk < x.chunks; ++chunk) {
    const std::uint8_t* wa = p.a.codes + chunk * chunk_cols * panel_rows;
    const std::uint8_t* wb = p.b.codes + chunk * chunk_cols * panel_rows;
    NIBBLE_UNROLL
    for (int set = 0; set < Sets; ++set) {
      I acc[R][V];
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I start = set1_i(-zero * x.sum[(rows[r] * x.chunks + chunk) * Sets + set]);
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = start;
      }
      NIBBLE_UNROLL
      for (int quad = set * 8 / Sets; quad < (set + 1) * 8 / Sets; ++quad) {
        I w[V];
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) w[v] = load_i((v < 2 ? wa : wb) + v % 2 * 512 + quad * 64);
        NIBBLE_UNROLL
        for (int r = 0; r < R; ++r) {
          std::int32_t bits;
          __builtin_memcpy(&bits, q[r] + chunk * chunk_cols + quad * 4, 4);
          const I a = set1_i(bits);
          NIBBLE_UNROLL
          for (int v = 0; v < V; ++v) acc[r][v] = dpbusd(acc[r][v], w[v], a);
        }
        keep_order();
      }
      add_scaled<R, V, Sets, Min>(p, x, rows, chunk, set, acc, c);
    }
  }
}

template <int R, int V>
static void tile_of(const PackedLayout& l, const Panels& p, const QuantizedRows& x, i64 row, i64 m,
                    float* c) {
  if (l.sets == 2) {
    if (l.has_min) tile<R, V, 2, true>(p, x, row, m, c);
    else tile<R, V, 2, false>(p, x, row, m, c);
  } else {
    if (l.has_min) tile<R, V, 1, true>(p, x, row, m, c);
    else tile<R, V, 1, false>(p, x, row, m, c);
  }
}

void dot_tile(const PackedLayout& l, const WidePanel& a, const WidePanel& b, const QuantizedRows& x, i64 row,
              i64 m, float* c) {
  if (b.codes != nullptr) {
    if (m > 4) tile_of<6, 4>(l, {a, b}, x, row, m, c);
    else tile_of<4, 4>(l, {a, b}, x, row, m, c);
  } else {
    if (m > 4) tile_of<6, 2>(l, {a, a}, x, row, m, c);
    else tile_of<4, 2>(l, {a, a}, x, row, m, c);
  }
}

}  // namespace nibble::cpu::avx512vnni
