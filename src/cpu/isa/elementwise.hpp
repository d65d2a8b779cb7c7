// SPDX-License-Identifier: MIT
// Norms, activations, rotary pairs and conversions, written once over the vector vocabulary and compiled
// for each instruction set inside its namespace. Sums run over W lanes and a fixed tree, so a row's
// result depends on the row alone.
#pragma once

/// Calls f(index, lanes) for whole vectors, then once for what is left.
template <class Whole, class Part>
static inline void each_vector(i64 n, Whole&& whole, Part&& part) {
  i64 i = 0;
  for (; i + W <= n; i += W) whole(i);
  if (i < n) part(i, n - i);
}

template <class Op>
static inline void map_unary(const float* x, float* y, i64 n, Op&& op) {
  each_vector(
      n, [&](i64 i) { store(y + i, op(load(x + i))); },
      [&](i64 i, i64 k) { store_part(y + i, op(load_part(x + i, k)), k); });
}
template <class Op>
static inline void map_binary(const float* a, const float* b, float* y, i64 n, Op&& op) {
  each_vector(
      n, [&](i64 i) { store(y + i, op(load(a + i), load(b + i))); },
      [&](i64 i, i64 k) { store_part(y + i, op(load_part(a + i, k), load_part(b + i, k)), k); });
}

void rms_norm(const float* x, const float* weight, float* y, i64 n, float eps) {
  F sum = set1(0.0f);
  each_vector(
      n,
      [&](i64 i) {
        const F v = load(x + i);
        sum = fma(v, v, sum);
      },
      [&](i64 i, i64 k) {
        const F v = load_part(x + i, k);
        sum = fma(v, v, sum);
      });
  const F scale = set1(1.0f / __builtin_sqrtf(reduce_add(sum) / static_cast<float>(n) + eps));
  map_binary(x, weight, y, n, [&](F v, F w) { return v * scale * w; });
}

void layer_norm(const float* x, const float* weight, const float* bias, float* y, i64 n, float eps) {
  F sum = set1(0.0f);
  each_vector(
      n, [&](i64 i) { sum = sum + load(x + i); }, [&](i64 i, i64 k) { sum = sum + load_part(x + i, k); });
  const F mean = set1(reduce_add(sum) / static_cast<float>(n));
  F square = set1(0.0f);
  each_vector(
      n,
      [&](i64 i) {
        const F d = load(x + i) - mean;
        square = fma(d, d, square);
      },
      [&](i64 i, i64 k) {
        alignas(64) float lanes[W] = {};
        store_part(lanes, load_part(x + i, k) - mean, k);  // lanes beyond the row must not count
        const F d = load(lanes);
        square = fma(d, d, square);
      });
  const F scale = set1(1.0f / __builtin_sqrtf(reduce_add(square) / static_cast<float>(n) + eps));
  each_vector(
      n, [&](i64 i) { store(y + i, fma((load(x + i) - mean) * scale, load(weight + i), load(bias + i))); },
      [&](i64 i, i64 k) {
        const F v = (load_part(x + i, k) - mean) * scale;
        store_part(y + i, fma(v, load_part(weight + i, k), load_part(bias + i, k)), k);
      });
}

/// p = exp(x * scale - max) into y (may be x). Returns the sum, and the maximum through `max`. Where all is
/// -infinity the sum is 0; a NaN makes the sum NaN.
static inline float exponentials(const float* x, float* y, i64 n, float scale, float* max) {
  const F s = set1(scale);
  F top = set1(minus_infinity);
  each_vector(
      n, [&](i64 i) { top = vmax(load(x + i) * s, top); },
      [&](i64 i, i64 k) {
        alignas(64) float lanes[W];
        store(lanes, set1(minus_infinity));
        store_part(lanes, load_part(x + i, k) * s, k);
        top = vmax(load(lanes), top);
      });
  *max = reduce_max(top);
  const F shift = set1(*max == minus_infinity ? 0.0f : *max);
  F sum = set1(0.0f);
  each_vector(
      n,
      [&](i64 i) {
        const F e = vexp(load(x + i) * s - shift);
        store(y + i, e);
        sum = sum + e;
      },
      [&](i64 i, i64 k) {
        alignas(64) float lanes[W] = {};
        store_part(lanes, vexp(load_part(x + i, k) * s - shift), k);
        const F e = load(lanes);
        store_part(y + i, e, k);
        sum = sum + e;
      });
  return reduce_add(sum);
}

void softmax(const float* x, float* y, i64 n, float scale) {
  float max;
  const float sum = exponentials(x, y, n, scale, &max);
  const F inverse = set1(sum == 0.0f ? 0.0f : 1.0f / sum);
  map_unary(y, y, n, [&](F v) { return v * inverse; });
}

void softmax_tile(const SoftmaxTile& t) {
  for (i64 r = 0; r < t.rows; ++r) {
    float* row = t.scores + r * t.stride;
    t.sum[r] = exponentials(row, row, t.keys, 1.0f, t.max + r);
  }
}

template <bool Bias, bool Add>
static inline void store_rows(const SumsTile& t) {
  for (i64 r = 0; r < t.rows; ++r) {
    const float* sums = t.sums + r * t.stride;
    float* y = t.y + r * t.y_stride;
    each_vector(
        t.cols,
        [&](i64 i) {
          F v = load(sums + i);
          if constexpr (Bias) v = v + load(t.bias + i);
          if constexpr (Add) v = load(y + i) + v;
          store(y + i, v);
        },
        [&](i64 i, i64 k) {
          F v = load_part(sums + i, k);
          if constexpr (Bias) v = v + load_part(t.bias + i, k);
          if constexpr (Add) v = load_part(y + i, k) + v;
          store_part(y + i, v, k);
        });
  }
}
void store_sums(const SumsTile& t) {
  if (t.bias != nullptr) return t.add ? store_rows<true, true>(t) : store_rows<true, false>(t);
  t.add ? store_rows<false, true>(t) : store_rows<false, false>(t);
}

void swiglu(const float* gate, const float* up, float* y, i64 n) {
  map_binary(gate, up, y, n, [](F g, F u) { return g * vsigmoid(g) * u; });
}
void geglu(const float* gate, const float* up, float* y, i64 n) {
  map_binary(gate, up, y, n, [](F g, F u) { return vgelu_tanh(g) * u; });
}
void gelu_erf(const float* x, float* y, i64 n) {
  map_unary(x, y, n, [](F v) { return vgelu_erf(v); });
}
void gelu_tanh(const float* x, float* y, i64 n) {
  map_unary(x, y, n, [](F v) { return vgelu_tanh(v); });
}
void add(const float* a, const float* b, float* y, i64 n) {
  map_binary(a, b, y, n, [](F u, F v) { return u + v; });
}
void soft_cap(float* y, i64 n, float cap) {
  const F c = set1(cap), inverse = set1(1.0f / cap);
  map_unary(y, y, n, [&](F v) { return c * vtanh(v * inverse); });
}
void scale(float* y, i64 n, float factor) {
  const F f = set1(factor);
  map_unary(y, y, n, [&](F v) { return v * f; });
}

void rope_angles(i64 position, const float* frequencies, float magnitude, float* cosine, float* sine, i64 n) {
  const F m = set1(magnitude);
  for (i64 i = 0; i < n; i += W) {
    F r, s, c;
    const I quadrant = reduce_angle(static_cast<double>(position), frequencies + i, &r);
    vsincos(r, quadrant, &s, &c);
    store(cosine + i, c * m);
    store(sine + i, s * m);
  }
}
void rope_halves(float* a, float* b, const float* cosine, const float* sine, i64 n) {
  each_vector(
      n,
      [&](i64 i) {
        const F u = load(a + i), v = load(b + i), c = load(cosine + i), s = load(sine + i);
        store(a + i, fnma(v, s, u * c));
        store(b + i, fma(u, s, v * c));
      },
      [&](i64 i, i64 k) {
        const F u = load_part(a + i, k), v = load_part(b + i, k);
        const F c = load_part(cosine + i, k), s = load_part(sine + i, k);
        store_part(a + i, fnma(v, s, u * c), k);
        store_part(b + i, fma(u, s, v * c), k);
      });
}
void rope_neighbours(float* x, const float* cosine, const float* sine, i64 pairs) {
  for (i64 i = 0; i < pairs; ++i) {
    const float u = x[2 * i], v = x[2 * i + 1];
    x[2 * i] = u * cosine[i] - v * sine[i];
    x[2 * i + 1] = u * sine[i] + v * cosine[i];
  }
}

void to_half(const float* x, std::uint16_t* y, i64 n) {
  each_vector(
      n, [&](i64 i) { store_half(y + i, load(x + i)); },
      [&](i64 i, i64 k) { store_half_part(y + i, load_part(x + i, k), k); });
}
void from_half(const std::uint16_t* x, float* y, i64 n) {
  each_vector(
      n, [&](i64 i) { store(y + i, load_half(x + i)); },
      [&](i64 i, i64 k) { store_part(y + i, load_half_part(x + i, k), k); });
}

float to_bytes(const float* x, std::int8_t* y, i64 n) {
  std::int32_t bits = 0;  // maxima of bit patterns: NaN orders above infinity
  each_vector(
      n,
      [&](i64 i) {
        const std::int32_t b = reduce_max_i(and_i(as_int(load(x + i)), set1_i(0x7FFFFFFF)));
        bits = b > bits ? b : bits;
      },
      [&](i64 i, i64 k) {
        const std::int32_t b = reduce_max_i(and_i(as_int(load_part(x + i, k)), set1_i(0x7FFFFFFF)));
        bits = b > bits ? b : bits;
      });
  float max;
  __builtin_memcpy(&max, &bits, 4);
  if (max < 1e-35f) max = 0.0f;  // its inverse would overflow
  const bool finite = bits < 0x7F800000;
  const F inverse = set1(max > 0.0f && finite ? 127.0f / max : 0.0f);
  each_vector(
      n, [&](i64 i) { store_i8(y + i, finite ? round_to_int(load(x + i) * inverse) : set1_i(0)); },
      [&](i64 i, i64 k) {
        std::int8_t part[W];
        store_i8(part, finite ? round_to_int(load_part(x + i, k) * inverse) : set1_i(0));
        for (i64 j = 0; j < k; ++j) y[i + j] = part[j];
      });
  return max / 127.0f;
}

/// Activations to INT8 groups of 32. The maximum is taken over bit patterns: NaN orders above infinity.
void quantize_row(const float* x, i64 cols, i64 row, const QuantizedRows& out) {
  std::int8_t* q = out.q + row * out.chunks * chunk_cols;
  for (i64 c = 0; c < out.chunks; ++c, q += chunk_cols) {
    alignas(64) float padded[chunk_cols];
    const float* p = x + c * chunk_cols;
    const i64 valid = cols - c * chunk_cols;
    if (valid < chunk_cols) {
      for (i64 i = 0; i < chunk_cols; ++i) padded[i] = i < valid ? p[i] : 0.0f;
      p = padded;
    }
    I top = set1_i(0);
    for (i64 i = 0; i < chunk_cols; i += W) top = max_i(top, and_i(as_int(load(p + i)), set1_i(0x7FFFFFFF)));
    const std::int32_t bits = reduce_max_i(top);
    float max;
    __builtin_memcpy(&max, &bits, 4);
    if (max < 1e-35f) max = 0.0f;  // its inverse would overflow, and it is far below any weight's resolution
    const F inverse = set1(max > 0.0f && bits < 0x7F800000 ? 127.0f / max : 0.0f);
    const float step = max / 127.0f;
    std::int32_t sums[2] = {0, 0};
    for (i64 half = 0; half < 2; ++half) {
      I sum = set1_i(0);
      for (i64 i = half * 16; i < half * 16 + 16; i += W) {
        const I v = bits < 0x7F800000 ? round_to_int(load(p + i) * inverse) : set1_i(0);
        store_i8(q + i, v);
        sum = add_i(sum, v);
      }
      sums[half] = reduce_add_i(sum);
    }
    out.scale[row * out.chunks + c] = step;
    if (out.sets == 1) { sums[0] += sums[1]; }
    for (i64 s = 0; s < out.sets; ++s) {
      const i64 at = (row * out.chunks + c) * out.sets + s;
      out.sum[at] = sums[s];
      out.scaled_sum[at] = step * static_cast<float>(sums[s]);
    }
  }
}
