// SPDX-License-Identifier: MIT
// One to four activation rows against packed codes: decode and small batches. Weights are read once for all
// rows; the zero point enters as the start value of the integer sum. Included inside an instruction set's
// namespace, after dot_codes.hpp and panel_access.hpp.
#pragma once

/// How far ahead panels are asked for, into L2: the processor's own prefetch ends at each 4 KiB page, and lines on
/// their way to L1 would keep its few buffers from the loads of now.
constexpr i64 prefetch_bytes = 16384;
constexpr i64 scale_batch = 8;  ///< chunks whose scales are expanded at a time
constexpr int panel_vectors = static_cast<int>(panel_rows / W);

/// Scales and minima of some chunks, [chunk][set][32].
struct ScaleBatch {
  alignas(64) float scales[scale_batch * 2 * panel_rows], mins[scale_batch * 2 * panel_rows];
};

/// The lines of one chunk of a dense panel.
template <int Bits>
struct DenseLines {
  const std::uint8_t* lines;
  /// Quad `Quad` of vector `Vector` of the panel's rows; asked for in the order of dot_half.
  template <int Quad, int Vector, bool Codebook>
  I quad(const DotCodes<Bits, Codebook>& codes) const {
    constexpr i64 r = Vector * W, place = r / 16 * (Bits * 64) + r % 16 * 4;
    return codes.template quad<Quad>(lines + place);
  }
};

/// The integer sums of a panel's rows with M activation rows over half a chunk's columns.
template <int Half, int Bits, bool Codebook, int M, class Lines>
static inline __attribute__((always_inline)) void dot_half(const DotCodes<Bits, Codebook>& codes, Lines& lines,
                                                           const std::int8_t* q, i64 q_stride, const I (&start)[M],
                                                           I (&out)[panel_vectors][M]) {
  using Dot = typename DotCodes<Bits, Codebook>::Dot;
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) out[v][m] = Dot::begin(start[m]);
  unrolled<4 / Dot::quads>([&](auto at) __attribute__((always_inline)) {
    constexpr int first = Half * 4 + at.value * Dot::quads;
    I a[M][Dot::quads];
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m)
      NIBBLE_UNROLL
      for (int i = 0; i < Dot::quads; ++i) a[m][i] = repeat_quad(q + m * q_stride + (first + i) * 4);
    unrolled<panel_vectors>([&](auto v) __attribute__((always_inline)) {
      I w[Dot::quads];
      unrolled<Dot::quads>([&](auto i) __attribute__((always_inline)) {
        w[i.value] = lines.template quad<first + i.value, v.value>(codes);
      });
      NIBBLE_UNROLL
      for (int m = 0; m < M; ++m) out[v.value][m] = Dot::add(out[v.value][m], w, a[m]);
    });
  });
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) out[v][m] = Dot::finish(out[v][m], start[m]);
}

/// What the kernel reads of the activations, at one chunk of the first row; row m is `chunks` chunks further.
template <int Sets>
struct SmallInput {
  const std::int8_t* q;
  const float* scale;
  const std::int32_t* sum;
  const float* scaled_sum;

  SmallInput(const QuantizedRows& x, i64 row)
      : q(x.q + row * x.chunks * chunk_cols),
        scale(x.scale + row * x.chunks),
        sum(x.sum + row * x.chunks * Sets),
        scaled_sum(x.scaled_sum + row * x.chunks * Sets) {}
  void next() {
    q += chunk_cols;
    scale += 1;
    sum += Sets;
    scaled_sum += Sets;
  }
};

/// y[m] += scaled integer sums of one scale set.
template <int M, int Sets>
static inline __attribute__((always_inline)) void add_set(bool min, const I (&dot)[panel_vectors][M],
                                                          const float* scales, const float* mins,
                                                          const SmallInput<Sets>& x, i64 chunks, i64 set,
                                                          F (&y)[panel_vectors][M]) {
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v) {
    const F scale = load(scales + v * W);
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = fma(to_float(dot[v][m]) * scale, set1(x.scale[m * chunks]), y[v][m]);
  }
  if (!min) return;
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v) {
    const F low = load(mins + v * W);
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = fnma(low, set1(x.scaled_sum[m * chunks * Sets + set]), y[v][m]);
  }
}

/// One chunk. Its halves are summed apart and joined as integers where they share a scale.
template <int Bits, bool Codebook, int M, int Sets, class Lines>
static inline __attribute__((always_inline)) void dot_chunk(const DotCodes<Bits, Codebook>& codes, std::int32_t zero,
                                                            bool min, Lines& quads, const float* scales,
                                                            const float* mins, const SmallInput<Sets>& x, i64 chunks,
                                                            F (&y)[panel_vectors][M]) {
  const i64 q_stride = chunks * chunk_cols;
  I start[M], low[panel_vectors][M], high[panel_vectors][M];
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) start[m] = set1_i(-zero * x.sum[m * chunks * Sets]);
  dot_half<0>(codes, quads, x.q, q_stride, start, low);
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) start[m] = set1_i(Sets == 1 ? 0 : -zero * x.sum[m * chunks * Sets + Sets - 1]);
  dot_half<1>(codes, quads, x.q, q_stride, start, high);
  if constexpr (Sets == 1) {
    NIBBLE_UNROLL
    for (int v = 0; v < panel_vectors; ++v)
      NIBBLE_UNROLL
      for (int m = 0; m < M; ++m) low[v][m] = add_i(low[v][m], high[v][m]);
    add_set<M, Sets>(min, low, scales, mins, x, chunks, 0, y);
  } else {
    add_set<M, Sets>(min, low, scales, mins, x, chunks, 0, y);
    add_set<M, Sets>(min, high, scales + panel_rows, mins + panel_rows, x, chunks, 1, y);
  }
}

/// One panel, c[M][32].
template <int Bits, bool Codebook, int M, int Sets>
static void dot_panel(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& rows, i64 row, float* c) {
  const DotCodes<Bits, Codebook> codes(l);
  const std::int32_t zero = codes.zero(l);
  const bool min = l.min.kind != ParameterKind::none;
  const i64 chunks = rows.chunks, header = l.header_bytes, per_record = l.chunks_per_record;
  SmallInput<Sets> x(rows, row);
  F y[panel_vectors][M];
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) y[v][m] = set1(0.0f);
  ScaleBatch batch;
  const std::uint8_t* lines = panel + header;
  i64 left = per_record;  // chunks, of the record
  for (i64 first = 0; first < l.chunks; first += scale_batch) {
    const i64 count = l.chunks - first < scale_batch ? l.chunks - first : scale_batch;
    const ChunkCursor at{lines - header - (per_record - left) * (Bits * 128), per_record - left};
    expand_parameters(l, l.scale, at, count, batch.scales);
    if (min) expand_parameters(l, l.min, at, count, batch.mins);
    const float *scales = batch.scales, *mins = batch.mins;
    for (i64 i = 0; i < count; ++i, scales += Sets * panel_rows, mins += Sets * panel_rows) {
      for (int b = 0; b < Bits * 128; b += 64) __builtin_prefetch(lines + prefetch_bytes + b, 0, 2);
      DenseLines<Bits> quads{lines};
      dot_chunk<Bits, Codebook, M, Sets>(codes, zero, min, quads, scales, mins, x, chunks, y);
      x.next();
      lines += Bits * 128;
      if (--left == 0) {
        left = per_record;
        lines += header;
      }
    }
  }
  NIBBLE_UNROLL
  for (int v = 0; v < panel_vectors; ++v)
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) store(c + m * panel_rows + v * W, y[v][m]);
}

template <int Bits, bool Codebook>
struct DotSmall {
  static void call(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows* x, i64 row, i64 m, float* c) {
    if (l.sets == 2) rows<2>(l, panel, *x, row, m, c);
    else rows<1>(l, panel, *x, row, m, c);
  }
  template <int Sets>
  static void rows(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m, float* c) {
    switch (m) {
      case 1: return dot_panel<Bits, Codebook, 1, Sets>(l, panel, x, row, c);
      case 2: return dot_panel<Bits, Codebook, 2, Sets>(l, panel, x, row, c);
      case 3: return dot_panel<Bits, Codebook, 3, Sets>(l, panel, x, row, c);
      default: return dot_panel<Bits, Codebook, 4, Sets>(l, panel, x, row, c);
    }
  }
};

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m, float* c) {
  for_codes<DotSmall>(l, panel, &x, row, m, c);
}
