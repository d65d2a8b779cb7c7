// SPDX-License-Identifier: MIT
// One to four activation rows against packed codes, AVX-512 VNNI: decode and small batches. The weights are
// the unsigned operand (codebook values plus 128), so no compensation of activations is needed; the zero
// point enters as the start value of the accumulator. Weights are read once for all rows.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx512vnni {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/avx512vnni/vnni.hpp"

/// How far ahead panels are asked for: the processor's own prefetch ends at each 4 KiB page.
constexpr i64 prefetch_bytes = 4096;

enum class CodeKind { nibbles, codebook, bytes };

template <CodeKind Kind>
struct Codes {
  I table;
  explicit Codes(const PackedLayout& l) : table(_mm512_setzero_si512()) {
    if (Kind == CodeKind::codebook) {
      const __m128i values =
          _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(l.codebook)), _mm_set1_epi8(-128));
      table = _mm512_broadcast_i32x4(values);
    }
  }
  /// Quads 2i and 2i+1 of 16 rows.
  void load(const std::uint8_t* lines, int i, I* even, I* odd) const {
    if (Kind == CodeKind::bytes) {
      *even = load_i(lines + i * 128);
      *odd = load_i(lines + i * 128 + 64);
      return;
    }
    const I v = load_i(lines + i * 64), mask = _mm512_set1_epi8(15);
    *even = _mm512_and_si512(v, mask);
    *odd = _mm512_and_si512(_mm512_srli_epi16(v, 4), mask);
    if (Kind == CodeKind::codebook) {
      *even = _mm512_shuffle_epi8(table, *even);
      *odd = _mm512_shuffle_epi8(table, *odd);
    }
  }
};

/// 16 rows of one chunk: y[m] += its part of the product.
template <CodeKind Kind, int Sets, int M>
static inline void dot_half(const PackedLayout& l, const Codes<Kind>& codes, const std::uint8_t* lines,
                            const std::uint8_t* header, i64 half, const QuantizedRows& x, i64 g,
                            std::int32_t zero, F (&y)[M]) {
  const i64 q_stride = x.chunks * chunk_cols;
  const std::int8_t* q = x.q + g * chunk_cols;
  NIBBLE_UNROLL
  for (int set = 0; set < Sets; ++set) {
    I a[M], b[M];  // two chains, for the latency of the instruction
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) {
      a[m] = set1_i(-zero * x.sum[(g + m * x.chunks) * Sets + set]);
      b[m] = _mm512_setzero_si512();
    }
    NIBBLE_UNROLL
    for (int i = set * 4 / Sets; i < (set + 1) * 4 / Sets; ++i) {
      I even, odd;
      codes.load(lines, i, &even, &odd);
      NIBBLE_UNROLL
      for (int m = 0; m < M; ++m) {
        a[m] = dpbusd_broadcast(a[m], even, q + m * q_stride + i * 8);
        b[m] = dpbusd_broadcast(b[m], odd, q + m * q_stride + i * 8 + 4);
      }
    }
    const F scale = load_parameter(header + set * scale_set_bytes(l), l.scale_f16, half * 16);
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m)
      y[m] = fma(to_float(add_i(a[m], b[m])) * scale, set1(x.scale[g + m * x.chunks]), y[m]);
    if (l.has_min) {
      const F min =
          load_parameter(header + Sets * scale_set_bytes(l) + set * min_set_bytes(l), l.min_f16, half * 16);
      NIBBLE_UNROLL
      for (int m = 0; m < M; ++m) y[m] = fnma(min, set1(x.scaled_sum[(g + m * x.chunks) * Sets + set]), y[m]);
    }
  }
}

template <CodeKind Kind, int Sets, int M>
static void dot_panel(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row,
                      float* c) {
  const Codes<Kind> codes(l);
  const std::int32_t zero = Kind == CodeKind::codebook ? 128 : l.zero;
  F low[M], high[M];
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) low[m] = high[m] = set1(0.0f);
  i64 chunk = 0;
  for (const std::uint8_t* record = panel; chunk < l.chunks; record += l.record_bytes) {
    const std::uint8_t* lines = record + l.header_bytes;
    const i64 end = chunk + l.chunks_per_record < l.chunks ? chunk + l.chunks_per_record : l.chunks;
    for (; chunk < end; ++chunk, lines += l.chunk_bytes) {
      for (i64 i = 0; i < l.chunk_bytes; i += 64)
        _mm_prefetch(reinterpret_cast<const char*>(lines + prefetch_bytes + i), _MM_HINT_T0);
      const i64 g = row * x.chunks + chunk;
      dot_half<Kind, Sets, M>(l, codes, lines, record, 0, x, g, zero, low);
      dot_half<Kind, Sets, M>(l, codes, lines + l.chunk_bytes / 2, record, 1, x, g, zero, high);
    }
  }
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) {
    store(c + m * panel_rows, low[m]);
    store(c + m * panel_rows + 16, high[m]);
  }
}

template <CodeKind Kind, int Sets>
static void dot_any(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
                    float* c) {
  switch (m) {
    case 1: return dot_panel<Kind, Sets, 1>(l, panel, x, row, c);
    case 2: return dot_panel<Kind, Sets, 2>(l, panel, x, row, c);
    case 3: return dot_panel<Kind, Sets, 3>(l, panel, x, row, c);
    default: return dot_panel<Kind, Sets, 4>(l, panel, x, row, c);
  }
}

template <CodeKind Kind>
static void dot_sets(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
                     float* c) {
  if (l.sets == 2) dot_any<Kind, 2>(l, panel, x, row, m, c);
  else dot_any<Kind, 1>(l, panel, x, row, m, c);
}

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
               float* c) {
  if (l.kind == PanelKind::codes8) return dot_sets<CodeKind::bytes>(l, panel, x, row, m, c);
  if (l.has_codebook) return dot_sets<CodeKind::codebook>(l, panel, x, row, m, c);
  return dot_sets<CodeKind::nibbles>(l, panel, x, row, m, c);
}

}  // namespace nibble::cpu::avx512vnni
