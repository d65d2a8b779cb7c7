// SPDX-License-Identifier: MIT
// Reading packed panels in any instruction set: dequantization to floats, and the page kernels of attention.
#pragma once

/// W rows of one chunk from row r on: value = scale * C - min, two roundings as the formats define it.
template <int Bits>
static inline void dequantize_rows(const PackedLayout& l, const ChunkCursor& at, i64 r, float* out) {
  const std::uint8_t* lines = codes_of(l, at) + r / 16 * (l.chunk_bytes / 2) + r % 16 * 4;
  F scale[2], min[2];
  for (i64 set = 0; set < 2; ++set) {
    scale[set] = load_parameter(l, l.scale, at, set % l.sets, r);
    min[set] = load_parameter(l, l.min, at, set % l.sets, r);
  }
  unrolled<8>([&](auto quad) {
    constexpr int q = decltype(quad)::value;
    const I v = load_quad<Bits, q>(lines);
    const F s = scale[q / 4], m = min[q / 4];
    float* o = out + q * 4 * panel_rows + r;
    store(o, s * code_value(l, and_i(v, set1_i(0xFF))) - m);
    store(o + panel_rows, s * code_value(l, and_i(shift_right<8>(v), set1_i(0xFF))) - m);
    store(o + 2 * panel_rows, s * code_value(l, and_i(shift_right<16>(v), set1_i(0xFF))) - m);
    store(o + 3 * panel_rows, s * code_value(l, shift_right<24>(v)) - m);
  });
}

template <int Bits>
static void dequantize_codes(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, float* out) {
  ChunkCursor at = chunk_at(l, panel, first);
  for (i64 c = 0; c < count; ++c, out += chunk_cols * panel_rows, next_chunk(l, at))
    for (i64 r = 0; r < panel_rows; r += W) dequantize_rows<Bits>(l, at, r, out);
}

/// Chunks beyond the last column of a dense panel do not exist: columns are clipped there.
static inline void dequantize_dense(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count,
                                    float* out) {
  const i64 begin = first * chunk_cols;
  const i64 end = (first + count) * chunk_cols < l.cols ? (first + count) * chunk_cols : l.cols;
  for (i64 i = begin * panel_rows; i < end * panel_rows; i += W) {
    float* o = out + (i - begin * panel_rows);
    if (l.kind == PanelKind::f32) store(o, load(reinterpret_cast<const float*>(panel) + i));
    else if (l.kind == PanelKind::f16) store(o, load_half(reinterpret_cast<const std::uint16_t*>(panel) + i));
    else store(o, load_bfloat(reinterpret_cast<const std::uint16_t*>(panel) + i));
  }
}

void dequantize(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, float* out) {
  if (l.kind != PanelKind::codes) return dequantize_dense(l, panel, first, count, out);
  switch (l.bits) {
    case 1: return dequantize_codes<1>(l, panel, first, count, out);
    case 2: return dequantize_codes<2>(l, panel, first, count, out);
    case 3: return dequantize_codes<3>(l, panel, first, count, out);
    case 4: return dequantize_codes<4>(l, panel, first, count, out);
    case 5: return dequantize_codes<5>(l, panel, first, count, out);
    case 6: return dequantize_codes<6>(l, panel, first, count, out);
    default: return dequantize_codes<8>(l, panel, first, count, out);
  }
}

void merge_page(float page_max, float page_sum, const float* page_values, float* max, float* sum,
                float* values, i64 dim) {
  if (page_sum == 0.0f) return;
  if (*sum == 0.0f) {
    *max = page_max;
    *sum = page_sum;
    each_vector(
        dim, [&](i64 i) { store(values + i, load(page_values + i)); },
        [&](i64 i, i64 k) { store_part(values + i, load_part(page_values + i, k), k); });
    return;
  }
  const F top = vmax(set1(*max), set1(page_max));
  const F keep = vexp(set1(*max) - top), take = vexp(set1(page_max) - top);
  alignas(64) float lanes[W];
  store(lanes, top);
  *max = lanes[0];
  store(lanes, fma(set1(page_sum), take, set1(*sum) * keep));
  *sum = lanes[0];
  each_vector(
      dim, [&](i64 i) { store(values + i, fma(load(page_values + i), take, load(values + i) * keep)); },
      [&](i64 i, i64 k) {
        store_part(values + i, fma(load_part(page_values + i, k), take, load_part(values + i, k) * keep), k);
      });
}
