// SPDX-License-Identifier: MIT
// Integer dot products of packed codes with INT8 activations, in portable C++.
#include "cpu/kernel_table.hpp"

namespace nibble::cpu::scalar {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/quad_word.hpp"

/// One row's dot product over one scale set of a chunk.
static std::int32_t dot_set(const PackedLayout& l, const std::uint8_t* lines, const std::int8_t* q, i64 set) {
  const i64 quads = 8 / l.sets;
  std::int32_t sum = 0;
  for (i64 quad = set * quads; quad < (set + 1) * quads; ++quad) {
    const std::uint32_t word = quad_word(l.bits, lines, quad);
    for (i64 i = 0; i < 4; ++i) {
      const int code = static_cast<int>(word >> (8 * i) & 255u);
      sum += (l.has_codebook ? l.codebook[code] : code - l.zero) * q[quad * 4 + i];
    }
  }
  return sum;
}

/// One chunk of one activation row into y[32].
static void dot_chunk(const PackedLayout& l, const ChunkCursor& at, const QuantizedRows& x, i64 g, float* y) {
  const bool min = l.min.kind != ParameterKind::none;
  for (i64 set = 0; set < l.sets; ++set) {
    for (i64 r = 0; r < panel_rows; ++r) {
      const std::uint8_t* lines = codes_of(l, at) + r / 16 * (l.chunk_bytes / 2) + r % 16 * 4;
      const float dot = static_cast<float>(dot_set(l, lines, x.q + g * chunk_cols, set));
      y[r] += dot * load_parameter(l, l.scale, at, set, r) * x.scale[g];
      if (min) y[r] -= load_parameter(l, l.min, at, set, r) * x.scaled_sum[g * l.sets + set];
    }
  }
}

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
               float* c) {
  for (i64 i = 0; i < m; ++i) {
    float* y = c + i * panel_rows;
    for (i64 r = 0; r < panel_rows; ++r) y[r] = 0.0f;
    ChunkCursor at = first_chunk(panel);
    for (i64 chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at))
      dot_chunk(l, at, x, (row + i) * x.chunks + chunk, y);
  }
}

}  // namespace nibble::cpu::scalar
