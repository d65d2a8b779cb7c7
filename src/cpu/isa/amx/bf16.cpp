// SPDX-License-Identifier: MIT
// Prefill on BF16 tiles. Weights are rounded to BF16 with their scales folded in, so that sums stay in tiles over
// all of K: INT8 tiles would have to leave them every 32 columns, where scales change, and that costs more than
// the products (docs/decisions/0011). A panel's 32 rows are two tiles wide; two of activations make it four sums.
#include <immintrin.h>
#include <xsimd/xsimd.hpp>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::amx {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_avx512.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/codes.hpp"
#include "cpu/isa/for_codes.hpp"
#include "cpu/isa/amx/bfloat.hpp"
#include "cpu/isa/amx/tiles.hpp"

void round_rows(const float* x, i64 stride, i64 rows, i64 cols, i64 row, const RoundedRows& out) {
  for (i64 end = row + rows; row < end; ++row, x += stride) {
    std::uint16_t* to = row_of(out, row);
    for (i64 col = 0; col < out.chunks * chunk_cols; col += chunk_cols, to += tile_elements) {
      const i64 left = cols - col;
      const F low = left >= W ? load(x + col) : load_part(x + col, left);
      const F high = left >= 2 * W ? load(x + col + W) : left > W ? load_part(x + col + W, left - W) : set1(0.0f);
      _mm512_storeu_si512(to, bfloat_row(low, high));
    }
  }
}

/// C[code] of the codes in byte `Byte` of each lane of quad `Quad`.
template <int Bits, int Quad>
struct QuadValues {
  F table, offset;
  I quad;
  QuadValues(const std::uint8_t* lines, F table_, F offset_) : table(table_), offset(offset_) {
    quad = Bits == 4 ? load_i(lines + Quad / 2 * 64) : load_quad<Bits, Quad>(lines);
  }
  template <int Byte>
  F value() const {
    constexpr int shift = 8 * Byte + (Bits == 4 ? Quad % 2 * 4 : 0);
    const I v = shift == 0 ? quad : shift_right<shift>(quad);
    if constexpr (Bits <= 4) return _mm512_permutexvar_ps(v, table);  // looks at four bits only
    // A code joined to the bits of 2^23 is the float 2^23 + code.
    else return as_float(or_masked(set1_i(0x4B000000), v, set1_i(0xFF))) - offset;
  }
};

/// scale * C - min, rounded as the formats define it: twice.
enum class Minimum { none, apart, fused };  ///< fused: where the product is exact, so that one rounding is the same

inline Minimum minimum_of(const PackedLayout& l) {
  if (l.min.kind == ParameterKind::none) return Minimum::none;
  // f16 has 11 bits, the lower level 7, C up to 8: together FP32's 24.
  const bool exact = l.scale.kind == ParameterKind::f16 ||
                     (l.scale.kind == ParameterKind::two_level && l.bits <= 6 && !l.has_codebook);
  return exact ? Minimum::fused : Minimum::apart;
}

/// 16 rows of one chunk from row r on: a whole right-hand tile of weights rounded to BF16.
template <int Bits, Minimum Min>
static inline void round_codes(const PackedLayout& l, const ChunkCursor& at, i64 r, F table, std::uint16_t* out) {
  const std::uint8_t* lines = codes_of(l, at) + r / 16 * (l.chunk_bytes / 2);
  const F offset = set1(8388608.0f + static_cast<float>(l.zero));
  F scale[2], min[2];
  for (i64 set = 0; set < 2; ++set) {
    scale[set] = load_parameter(l, l.scale, at, set % l.sets, r);
    min[set] = Min != Minimum::none ? load_parameter(l, l.min, at, set % l.sets, r) : set1(0.0f);
  }
  unrolled<8>([&](auto quad) __attribute__((always_inline)) {
    constexpr int q = quad.value;
    const QuadValues<Bits, q> codes(lines, table, offset);
    const auto value = [&](auto byte) __attribute__((always_inline)) {
      const F c = codes.template value<byte.value>();
      if constexpr (Min == Minimum::fused) return F(_mm512_fmsub_ps(scale[q / 4], c, min[q / 4]));
      else if constexpr (Min == Minimum::apart) return scale[q / 4] * c - min[q / 4];
      else return scale[q / 4] * c;
    };
    _mm512_storeu_si512(out + q * 64, bfloat_pairs(value(Const<0>{}), value(Const<1>{})));
    _mm512_storeu_si512(out + q * 64 + 32, bfloat_pairs(value(Const<2>{}), value(Const<3>{})));
  });
}

template <int Bits, Minimum Min>
static void round_chunks(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, std::uint16_t* out) {
  alignas(64) float values[16];
  for (int i = 0; i < 16; ++i) values[i] = l.has_codebook ? l.code_values[i] : static_cast<float>(i - l.zero);
  const F table = load(values);
  ChunkCursor at = chunk_at(l, panel, first);
  for (i64 c = 0; c < count; ++c, out += 2 * tile_elements, next_chunk(l, at)) {
    round_codes<Bits, Min>(l, at, 0, table, out);
    round_codes<Bits, Min>(l, at, 16, table, out + tile_elements);
  }
}

template <int Bits, bool Codebook>
struct RoundChunks {
  static void call(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, std::uint16_t* out) {
    switch (minimum_of(l)) {
      case Minimum::none: return round_chunks<Bits, Minimum::none>(l, panel, first, count, out);
      case Minimum::apart: return round_chunks<Bits, Minimum::apart>(l, panel, first, count, out);
      case Minimum::fused: return round_chunks<Bits, Minimum::fused>(l, panel, first, count, out);
    }
  }
};

/// Dense BF16 weights only change their places.
static void pair_columns(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, std::uint16_t* out) {
  const auto* columns = reinterpret_cast<const std::uint16_t*>(panel);
  const auto load16 = [&](i64 col, i64 r) {
    if (col >= l.cols) return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(columns + col * panel_rows + r)));
  };
  for (i64 c = 0; c < count; ++c, out += 2 * tile_elements)
    for (i64 r = 0; r < panel_rows; r += 16)
      for (i64 i = 0; i < chunk_cols; i += 2) {
        const i64 col = (first + c) * chunk_cols + i;
        _mm512_storeu_si512(out + r / 16 * tile_elements + i * 16,
                            _mm512_or_si512(load16(col, r), _mm512_slli_epi32(load16(col + 1, r), 16)));
      }
}

void round_panel(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count, std::uint16_t* out) {
  if (l.kind == PanelKind::bf16) return pair_columns(l, panel, first, count, out);
  for_codes<RoundChunks>(l, panel, first, count, out);
}

static inline F load_element(const std::uint16_t* p) { return load_half(p); }
static inline F load_element(const std::int8_t* p) { return load_int8(p); }

template <class T>
static inline void round_elements(const T* x, i64 stride, i64 rows, std::uint16_t* out) {
  for (i64 r = 0; r < rows; r += chunk_cols, out += 2 * tile_elements) {
    const i64 left = rows - r < chunk_cols ? rows - r : chunk_cols;
    for (i64 i = 0; i < chunk_cols; i += 2, x += 2 * stride) {
      const F a = i < left ? load_element(x) : set1(0.0f), b = i + 1 < left ? load_element(x + stride) : set1(0.0f);
      _mm512_storeu_si512(out + i * 16, bfloat_pairs(a, b));
    }
  }
}

void round_halves(const std::uint16_t* x, i64 stride, i64 rows, std::uint16_t* out) {
  round_elements(x, stride, rows, out);
}
void round_bytes(const std::int8_t* x, i64 stride, i64 rows, std::uint16_t* out) {
  round_elements(x, stride, rows, out);
}

/// 32 rows (16 where `two` is false) times a panel, from and into c. `next` are the sums wanted after these: from L2
/// they take as long to load as some chunks to multiply.
template <bool two>
static inline void dot_group([[maybe_unused]] Tiles& tiles, const RoundedProduct& p, const std::uint16_t* a0,
                             const std::uint16_t* b, float* c0, const float* next) {
  constexpr i64 line = 64, rows_ahead = 4;
  const i64 row = p.c_stride * static_cast<i64>(sizeof(float));
  float* c1 = c0 + tile_rows * p.c_stride;
  const std::uint16_t* a1 = a0 + p.a_stride;
  if (p.accumulate) {
    NIBBLE_TILE_LOAD(0, c0, row);
    NIBBLE_TILE_LOAD(1, c0 + 16, row);
    if (two) {
      NIBBLE_TILE_LOAD(2, c1, row);
      NIBBLE_TILE_LOAD(3, c1 + 16, row);
    }
  } else {
    NIBBLE_TILE_ZERO(0);
    NIBBLE_TILE_ZERO(1);
    NIBBLE_TILE_ZERO(2);
    NIBBLE_TILE_ZERO(3);
  }
  const i64 ahead = p.accumulate ? 2 * tile_rows / rows_ahead : 0;  // chunks that prefetch
  for (i64 chunk = 0; chunk < p.chunks; ++chunk, a0 += tile_elements, a1 += tile_elements, b += 2 * tile_elements) {
    NIBBLE_TILE_LOAD(4, a0, line);
    NIBBLE_TILE_LOAD(6, b, line);
    NIBBLE_TILE_DOT_BF16(0, 4, 6);
    NIBBLE_TILE_LOAD(7, b + tile_elements, line);
    NIBBLE_TILE_DOT_BF16(1, 4, 7);
    if (two) {
      NIBBLE_TILE_LOAD(5, a1, line);
      NIBBLE_TILE_DOT_BF16(2, 5, 6);
      NIBBLE_TILE_DOT_BF16(3, 5, 7);
    }
    if (chunk >= ahead) continue;
    for (i64 r = 0; r < rows_ahead; ++r, next += p.c_stride) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(next + 16), _MM_HINT_T0);
    }
  }
  NIBBLE_TILE_STORE(0, c0, row);
  NIBBLE_TILE_STORE(1, c0 + 16, row);
  if (two) {
    NIBBLE_TILE_STORE(2, c1, row);
    NIBBLE_TILE_STORE(3, c1 + 16, row);
  }
}

/// 32 rows stay in L1 while the panels pass through it, or one panel while the rows do.
void dot_rounded(const RoundedProduct& p) {
  Tiles tiles;
  const i64 groups = (p.m + tile_rows - 1) / tile_rows;
  for (i64 group = 0; group < groups; group += 2) {
    const std::uint16_t* a = p.a + group * p.a_stride;
    float* c = p.c + group / 2 * p.c_block;
    for (i64 panel = 0; panel < p.panels; ++panel, c += p.c_panel) {
      const std::uint16_t* b = p.b + panel * p.b_stride;
      const float* next = panel + 1 < p.panels ? c + p.c_panel : p.c + (group / 2 + 1) * p.c_block;
      if (group + 1 < groups) dot_group<true>(tiles, p, a, b, c, next);
      else dot_group<false>(tiles, p, a, b, c, next);
    }
  }
}

}  // namespace nibble::cpu::amx
