// SPDX-License-Identifier: MIT
// Many activation rows against packed codes: prefill. A panel is widened to bytes once; then tiles of `tile_rows`
// rows keep integer accumulators in registers over a scale set's columns and add them, scaled, to FP32 sums
// in L1. Sums see the same operations in the same order as in dot_small. Included inside an instruction set's
// namespace, after dot_codes.hpp and panel_access.hpp; the unit states `tile_vectors`, the vectors of outputs
// in a tile: more than a panel's (then two panels are taken together), or half a panel or a part of it. Where an
// instruction multiplies blocks (`Dot::rows` is 2), the unit's `Dot` also says how widened codes lie and how two rows
// are summed together.
#pragma once

constexpr int tile_rows = 6;

template <int Bits, bool Codebook>
struct Widen {
  static void call(const PackedLayout& l, const std::uint8_t* panel, WidePanel* out) {
    const DotCodes<Bits, Codebook> codes(l);
    ChunkCursor at = first_chunk(panel);
    std::uint8_t* to = out->codes;
    for (i64 chunk = 0; chunk < l.chunks; ++chunk, to += chunk_cols * panel_rows, next_chunk(l, at)) {
      for (i64 r = 0; r < panel_rows; r += W) {
        const std::uint8_t* lines = codes_of(l, at) + r / 16 * (Bits * 64) + r % 16 * 4;
        std::uint8_t* half = to + r / 16 * 512 + r % 16 * 4;
        unrolled<8>([&](auto quad) {
          constexpr int n = decltype(quad)::value;
          if constexpr (DotCodes<Bits, Codebook>::Dot::rows == 1) {
            store_i(half + n * 64, codes.template quad<n>(lines));
          } else if constexpr (n % 2 == 0) {
            DotCodes<Bits, Codebook>::Dot::widen(half + n * 64, codes.template quad<n>(lines),
                                                 codes.template quad<n + 1>(lines));
          }
        });
      }
    }
    out->zero = codes.zero(l);
  }
};

void widen(const PackedLayout& l, const std::uint8_t* panel, WidePanel& out) {
  for_codes<Widen>(l, panel, &out);
  expand_parameters(l, l.scale, first_chunk(panel), l.chunks, out.scales);
  if (l.min.kind != ParameterKind::none) expand_parameters(l, l.min, first_chunk(panel), l.chunks, out.mins);
}

/// What a tile reads, as values of its own: pointers behind references would be read again after every
/// keep_order(). The first vectors come from panel a, those beyond 32 rows from panel b.
struct TilePanels {
  const std::uint8_t *codes_a, *codes_b;
  const float *scales_a, *scales_b, *mins_a, *mins_b;
  std::int32_t zero;
  bool min;

  /// From row `first` of the panels on.
  TilePanels(const WidePanel& a, const WidePanel& b, i64 first, bool has_min)
      : codes_a(a.codes + first / 16 * 512 + first % 16 * 4),
        codes_b(b.codes + first / 16 * 512 + first % 16 * 4),
        scales_a(a.scales + first),
        scales_b(b.scales + first),
        mins_a(a.mins + first),
        mins_b(b.mins + first),
        zero(a.zero),
        min(has_min) {}

  template <int Vector>
  const std::uint8_t* codes() const {
    constexpr i64 r = Vector * W % panel_rows;
    return (Vector * W < panel_rows ? codes_a : codes_b) + r / 16 * 512 + r % 16 * 4;
  }
  template <int Vector>
  F scale(i64 at) const {
    return load((Vector * W < panel_rows ? scales_a : scales_b) + at + Vector * W % panel_rows);
  }
  template <int Vector>
  F minimum(i64 at) const {
    return load((Vector * W < panel_rows ? mins_a : mins_b) + at + Vector * W % panel_rows);
  }
};

/// A scale set's integer sums, scaled, into c[R][64]. `g[r]`: where row r's chunk is among the activations' scales.
template <int R, int V, int Sets>
static inline void add_scaled(const TilePanels& p, const QuantizedRows& x, const i64 (&g)[R], i64 chunk, i64 set,
                              const I (&acc)[R][V], float* c) {
  const i64 at = (chunk * Sets + set) * panel_rows;
  F scale[V];
  unrolled<V>([&](auto v) { scale[decltype(v)::value] = p.template scale<decltype(v)::value>(at); });
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    const F step = set1(x.scale[g[r] + chunk]);
    NIBBLE_UNROLL
    for (int v = 0; v < V; ++v) {
      float* y = c + r * 64 + v * W;
      store(y, fma(to_float(acc[r][v]) * scale[v], step, load(y)));
    }
  }
  if (!p.min) return;
  unrolled<V>([&](auto v) { scale[decltype(v)::value] = p.template minimum<decltype(v)::value>(at); });
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    const F sum = set1(x.scaled_sum[(g[r] + chunk) * Sets + set]);
    NIBBLE_UNROLL
    for (int v = 0; v < V; ++v) {
      float* y = c + r * 64 + v * W;
      store(y, fnma(scale[v], sum, load(y)));
    }
  }
}

/// Loads stay on their side: hoisted ahead of their quad they would cost registers, which are all taken.
static inline void keep_order() { asm volatile("" ::: "memory"); }

/// c[m][64] of V vectors; rows that do not exist repeat the last.
template <class Dot, int R, int V, int Sets>
__attribute__((noinline)) static void tile(const TilePanels panels, const QuantizedRows& rows, i64 row, i64 m,
                                           float* c) {
  const TilePanels p = panels;
  const QuantizedRows x = rows;
  i64 g[R];
  const std::int8_t* q[R];
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    g[r] = (row + (r < m ? r : m - 1)) * x.chunks;
    q[r] = x.q + g[r] * chunk_cols;
    NIBBLE_UNROLL
    for (int v = 0; v < V; ++v) store(c + r * 64 + v * W, set1(0.0f));
  }
  for (i64 chunk = 0; chunk < x.chunks; ++chunk) {
    NIBBLE_UNROLL
    for (int set = 0; set < Sets; ++set) {
      I acc[R][V];
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I start = set1_i(-p.zero * x.sum[(g[r] + chunk) * Sets + set]);
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = Dot::begin(start);
      }
      NIBBLE_UNROLL
      for (int quad = set * 8 / Sets; quad < (set + 1) * 8 / Sets; quad += Dot::quads) {
        I w[V][Dot::quads];
        unrolled<V>([&](auto v) {
          constexpr int n = decltype(v)::value;
          NIBBLE_UNROLL
          for (int i = 0; i < Dot::quads; ++i)
            w[n][i] = load_i(p.template codes<n>() + chunk * chunk_cols * panel_rows + (quad + i) * 64);
        });
        NIBBLE_UNROLL
        for (int r = 0; r < R; ++r) {
          I a[Dot::quads];
          NIBBLE_UNROLL
          for (int i = 0; i < Dot::quads; ++i) a[i] = repeat_quad(q[r] + chunk * chunk_cols + (quad + i) * 4);
          NIBBLE_UNROLL
          for (int v = 0; v < V; ++v) acc[r][v] = Dot::add(acc[r][v], w[v], a);
        }
        keep_order();
      }
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I start = set1_i(-p.zero * x.sum[(g[r] + chunk) * Sets + set]);
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = Dot::finish(acc[r][v], start);
      }
      add_scaled<R, V, Sets>(p, x, g, chunk, set, acc, c);
    }
  }
}

/// The same with products of blocks. Apart, since g++ 12 allots registers in the function above in another way once it
/// holds a branch, even one that it discards.
template <class Dot, int R, int V, int Sets>
  requires(Dot::rows == 2)
__attribute__((noinline)) static void tile(const TilePanels panels, const QuantizedRows& rows, i64 row, i64 m,
                                           float* c) {
  const TilePanels p = panels;
  const QuantizedRows x = rows;
  i64 g[R];
  const std::int8_t* q[R];
  NIBBLE_UNROLL
  for (int r = 0; r < R; ++r) {
    g[r] = (row + (r < m ? r : m - 1)) * x.chunks;
    q[r] = x.q + g[r] * chunk_cols;
    NIBBLE_UNROLL
    for (int v = 0; v < V; ++v) store(c + r * 64 + v * W, set1(0.0f));
  }
  for (i64 chunk = 0; chunk < x.chunks; ++chunk) {
    NIBBLE_UNROLL
    for (int set = 0; set < Sets; ++set) {
      I acc[R][V];
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = set1_i(0);
      }
      NIBBLE_UNROLL
      for (int quad = set * 8 / Sets; quad < (set + 1) * 8 / Sets; quad += Dot::quads) {
        Dot::add(acc, p, chunk * chunk_cols * panel_rows + quad * 64, q, chunk * chunk_cols + quad * 4);
        keep_order();
      }
      Dot::split(acc);
      NIBBLE_UNROLL
      for (int r = 0; r < R; ++r) {
        const I start = set1_i(-p.zero * x.sum[(g[r] + chunk) * Sets + set]);
        NIBBLE_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = add_i(acc[r][v], start);
      }
      add_scaled<R, V, Sets>(p, x, g, chunk, set, acc, c);
    }
  }
}

/// All vectors of one panel or two, tile_vectors at a time.
template <class Dot, int Sets>
static void tiles(const WidePanel& a, const WidePanel& b, bool min, const QuantizedRows& x, i64 row, i64 m, float* c) {
  constexpr int in_panel = static_cast<int>(panel_rows / W);
  if constexpr (tile_vectors > in_panel) {
    if (b.codes != nullptr) tile<Dot, tile_rows, tile_vectors, Sets>({a, b, 0, min}, x, row, m, c);
    else tile<Dot, tile_rows, in_panel, Sets>({a, a, 0, min}, x, row, m, c);
  } else {
    for (i64 first = 0; first < panel_rows; first += tile_vectors * W) {
      tile<Dot, tile_rows, tile_vectors, Sets>({a, a, first, min}, x, row, m, c + first);
      if (b.codes != nullptr)
        tile<Dot, tile_rows, tile_vectors, Sets>({b, b, first, min}, x, row, m, c + panel_rows + first);
    }
  }
}

template <int Bits, bool Codebook>
struct DotTile {
  static void call(const PackedLayout& l, const WidePanel* a, const WidePanel* b, const QuantizedRows* x, i64 row,
                   i64 m, float* c) {
    using Dot = typename DotCodes<Bits, Codebook>::Dot;
    const bool min = l.min.kind != ParameterKind::none;
    for (; m > 0; m -= tile_rows, row += tile_rows, c += tile_rows * 64) {
      if (l.sets == 2) tiles<Dot, 2>(*a, *b, min, *x, row, m, c);
      else tiles<Dot, 1>(*a, *b, min, *x, row, m, c);
    }
  }
};

void dot_tile(const PackedLayout& l, const WidePanel& a, const WidePanel& b, const QuantizedRows& x, i64 row, i64 m,
              float* c) {
  for_codes<DotTile>(l, &a, &b, &x, row, m, c);
}
