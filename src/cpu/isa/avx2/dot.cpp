// SPDX-License-Identifier: MIT
// Integer dot products for AVX2. vpmaddubsw adds two u8 x s8 products into int16 and would saturate, so
// only ranges that cannot are given to it: plain 4-bit codes (8 sums of 2 * 15 * 127 = 30480), and else
// |w| <= 128 with the sign moved to the activation (one sum of 2 * 128 * 127 = 32512).
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::avx2 {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx2.hpp"
#include "cpu/isa/panel_access.hpp"

enum class CodeKind { nibbles, codebook, bytes };

/// The zero of the codes as this unit multiplies them: codebook values and bytes are taken as signed.
template <CodeKind Kind>
static inline std::int32_t zero_of(const PackedLayout& l) {
  return Kind == CodeKind::nibbles ? l.zero : Kind == CodeKind::codebook ? 0 : l.zero - 128;
}

/// One quad of 8 rows as the unit multiplies it.
template <CodeKind Kind>
static inline I load_quad(const std::uint8_t* lines, i64 quad, I table) {
  if (Kind == CodeKind::bytes) return _mm256_xor_si256(load_i(lines + quad * 64), _mm256_set1_epi8(-128));
  const I v = load_i(lines + quad / 2 * 64);
  const I code = _mm256_and_si256(quad % 2 == 0 ? v : I(_mm256_srli_epi16(v, 4)), _mm256_set1_epi8(15));
  return Kind == CodeKind::codebook ? I(_mm256_shuffle_epi8(table, code)) : code;
}

/// Dot products of 8 rows with M activation rows over `quads` quads.
template <CodeKind Kind, int M>
static inline void dot_rows(const std::uint8_t* lines, i64 first, i64 quads, I table, const std::int8_t* q,
                            i64 q_stride, I (&acc)[M]) {
  I words[M];
  NIBBLE_UNROLL
  for (int m = 0; m < M; ++m) words[m] = acc[m] = _mm256_setzero_si256();
  for (i64 quad = first; quad < first + quads; ++quad) {
    const I w = load_quad<Kind>(lines, quad, table);
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) {
      std::int32_t bits;
      __builtin_memcpy(&bits, q + m * q_stride + quad * 4, 4);
      const I a = _mm256_set1_epi32(bits);
      if (Kind == CodeKind::nibbles) {
        words[m] = _mm256_add_epi16(words[m], _mm256_maddubs_epi16(w, a));
      } else {
        const I pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
        acc[m] = _mm256_add_epi32(acc[m], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
  }
  if (Kind == CodeKind::nibbles) {
    NIBBLE_UNROLL
    for (int m = 0; m < M; ++m) acc[m] = _mm256_madd_epi16(words[m], _mm256_set1_epi16(1));
  }
}

/// One chunk into c[M][32].
template <CodeKind Kind, int M>
static inline void dot_chunk(const PackedLayout& l, const ChunkPlace& at, i64 chunk, const QuantizedRows& x,
                             i64 row, I table, float* c) {
  const i64 quads = 8 / l.sets, q_stride = x.chunks * chunk_cols, g = row * x.chunks + chunk;
  for (i64 r = 0; r < panel_rows; r += W) {
    const std::uint8_t* lines = at.codes + r / 16 * (l.chunk_bytes / 2) + r % 16 * 4;
    for (i64 set = 0; set < l.sets; ++set) {
      I acc[M];
      dot_rows<Kind, M>(lines, set * quads, quads, table, x.q + g * chunk_cols, q_stride, acc);
      const F scale = load_parameter(at.header + set * scale_set_bytes(l), l.scale_f16, r);
      const F min =
          l.has_min
              ? load_parameter(at.header + l.sets * scale_set_bytes(l) + set * min_set_bytes(l), l.min_f16, r)
              : set1(0.0f);
      NIBBLE_UNROLL
      for (int m = 0; m < M; ++m) {
        const i64 mg = g + m * x.chunks, s = mg * l.sets + set;
        float* y = c + m * panel_rows + r;
        const I dot = sub_i(acc[m], set1_i(zero_of<Kind>(l) * x.sum[s]));
        F v = fma(to_float(dot) * scale, set1(x.scale[mg]), load(y));
        if (l.has_min) v = fnma(min, set1(x.scaled_sum[s]), v);
        store(y, v);
      }
    }
  }
}

template <CodeKind Kind, int M>
static void dot_panel(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row,
                      float* c) {
  for (i64 i = 0; i < M * panel_rows; i += W) store(c + i, set1(0.0f));
  const I table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(l.codebook)));
  for (i64 chunk = 0; chunk < l.chunks; ++chunk)
    dot_chunk<Kind, M>(l, place_of(l, panel, chunk), chunk, x, row, table, c);
}

template <CodeKind Kind>
static void dot_any(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
                    float* c) {
  switch (m) {
    case 1: return dot_panel<Kind, 1>(l, panel, x, row, c);
    case 2: return dot_panel<Kind, 2>(l, panel, x, row, c);
    case 3: return dot_panel<Kind, 3>(l, panel, x, row, c);
    default: return dot_panel<Kind, 4>(l, panel, x, row, c);
  }
}

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
               float* c) {
  if (l.kind == PanelKind::codes8) return dot_any<CodeKind::bytes>(l, panel, x, row, m, c);
  if (l.has_codebook) return dot_any<CodeKind::codebook>(l, panel, x, row, m, c);
  return dot_any<CodeKind::nibbles>(l, panel, x, row, m, c);
}

}  // namespace nibble::cpu::avx2
