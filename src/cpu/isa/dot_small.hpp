// SPDX-License-Identifier: MIT
// One to four activation rows against packed codes: decode and small batches. Weights are read once for all
// rows; the zero point enters as the start value of the integer sum. Included inside an instruction set's
// namespace, after dot_codes.hpp and panel_access.hpp.
#pragma once

/// How far ahead panels are asked for: the processor's own prefetch ends at each 4 KiB page.
constexpr i64 prefetch_bytes = 4096;
constexpr i64 scale_batch = 8;  ///< chunks whose scales are expanded at a time

/// Scales and minima of some chunks, [chunk][set][32].
struct ScaleBatch {
  alignas(64) float scales[scale_batch * 2 * panel_rows], mins[scale_batch * 2 * panel_rows];
};

/// The integer sums of W rows with M activation rows over half a chunk's columns, from `start` on.
template <int Half, int Bits, bool Codebook, int M>
static inline void dot_half(const DotCodes<Bits, Codebook>& codes, const std::uint8_t* lines, const std::int8_t* q,
                            i64 q_stride, const I (&start)[M], I (&out)[M]) {
  using Dot = typename DotCodes<Bits, Codebook>::Dot;
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) out[m] = Dot::begin(start[m]);
  unrolled<4 / Dot::quads>([&](auto at) {
    constexpr int first = Half * 4 + decltype(at)::value * Dot::quads;
    I w[Dot::quads];
    unrolled<Dot::quads>([&](auto i) {
      constexpr int n = decltype(i)::value;
      w[n] = codes.template quad<first + n>(lines);
    });
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) {
      I a[Dot::quads];
      NIBBLE_UNROLL
      for (int i = 0; i < Dot::quads; ++i) a[i] = repeat_quad(q + m * q_stride + (first + i) * 4);
      out[m] = Dot::add(out[m], w, a);
    }
  });
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) out[m] = Dot::finish(out[m], start[m]);
}

/// y[m] += scaled integer sums of one scale set. `s`: the set's place among the activations' sums.
template <int M>
static inline void add_set(const PackedLayout& l, const I (&dot)[M], const float* scales, const float* mins,
                           const QuantizedRows& x, i64 g, i64 set, F (&y)[M]) {
  const F scale = load(scales);
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) y[m] = fma(to_float(dot[m]) * scale, set1(x.scale[g + m * x.chunks]), y[m]);
  if (l.min.kind == ParameterKind::none) return;
  const F min = load(mins);
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m)
    y[m] = fnma(min, set1(x.scaled_sum[(g + m * x.chunks) * x.sets + set]), y[m]);
}

/// W rows of one chunk: y[m] += their part of the product. `g`: the chunk's place in the activations' scales.
/// Both halves of a chunk are summed apart, in two chains, and joined as integers where they share a scale.
template <int Bits, bool Codebook, int M>
static inline void dot_rows(const DotCodes<Bits, Codebook>& codes, const PackedLayout& l, const std::uint8_t* lines,
                            const float* scales, const float* mins, const QuantizedRows& x, i64 g, F (&y)[M]) {
  const i64 q_stride = x.chunks * chunk_cols;
  const std::int8_t* q = x.q + g * chunk_cols;
  const std::int32_t zero = codes.zero(l);
  I start[M], low[M], high[M];
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) start[m] = set1_i(-zero * x.sum[(g + m * x.chunks) * x.sets]);
  dot_half<0>(codes, lines, q, q_stride, start, low);
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m)
    start[m] = x.sets == 1 ? set1_i(0) : set1_i(-zero * x.sum[(g + m * x.chunks) * 2 + 1]);
  dot_half<1>(codes, lines, q, q_stride, start, high);
  if (x.sets == 1) {
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) low[m] = add_i(low[m], high[m]);
    add_set(l, low, scales, mins, x, g, 0, y);
  } else {
    add_set(l, low, scales, mins, x, g, 0, y);
    add_set(l, high, scales + panel_rows, mins + panel_rows, x, g, 1, y);
  }
}

template <int Bits, bool Codebook, int M>
static void dot_panel(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, float* c) {
  constexpr int vectors = static_cast<int>(panel_rows / W);
  const DotCodes<Bits, Codebook> codes(l);
  F y[vectors][M];
  NIBBLE_UNROLL
  for (int v = 0; v < vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = set1(0.0f);
  ScaleBatch batch;
  ChunkCursor at = first_chunk(panel);
  for (i64 first = 0; first < l.chunks; first += scale_batch) {
    const i64 count = l.chunks - first < scale_batch ? l.chunks - first : scale_batch;
    expand_parameters(l, l.scale, at, count, batch.scales);
    if (l.min.kind != ParameterKind::none) expand_parameters(l, l.min, at, count, batch.mins);
    for (i64 i = 0; i < count; ++i, next_chunk(l, at)) {
      const std::uint8_t* lines = codes_of(l, at);
      for (int b = 0; b < Bits * 128; b += 64) __builtin_prefetch(lines + prefetch_bytes + b);
      const float *scales = batch.scales + i * l.sets * panel_rows, *mins = batch.mins + i * l.sets * panel_rows;
      unrolled<vectors>([&](auto v_constant) {
        constexpr int v = decltype(v_constant)::value;
        constexpr i64 r = v * W, place = r / 16 * (Bits * 64) + r % 16 * 4;
        dot_rows(codes, l, lines + place, scales + r, mins + r, x, row * x.chunks + first + i, y[v]);
      });
    }
  }
  NIBBLE_UNROLL
  for (int v = 0; v < vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) store(c + m * panel_rows + v * W, y[v][m]);
}

template <int Bits, bool Codebook>
struct DotSmall {
  static void call(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows* x, i64 row, i64 m, float* c) {
    switch (m) {
      case 1: return dot_panel<Bits, Codebook, 1>(l, panel, *x, row, c);
      case 2: return dot_panel<Bits, Codebook, 2>(l, panel, *x, row, c);
      case 3: return dot_panel<Bits, Codebook, 3>(l, panel, *x, row, c);
      default: return dot_panel<Bits, Codebook, 4>(l, panel, *x, row, c);
    }
  }
};

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m, float* c) {
  for_codes<DotSmall>(l, panel, &x, row, m, c);
}
