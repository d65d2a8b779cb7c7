// SPDX-License-Identifier: MIT
// Integer dot products of packed codes with INT8 activations, in portable C++.
#include "cpu/kernel_table.hpp"

namespace nibble::cpu::scalar {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
#include "cpu/isa/panel_access.hpp"

/// Row r's dot product over one scale set of a chunk.
static std::int32_t dot_set(const PackedLayout& l, const std::uint8_t* codes, const std::int8_t* q, i64 r,
                            i64 set) {
  const std::uint8_t* lines = codes + r / 16 * (l.chunk_bytes / 2) + r % 16 * 4;
  const i64 quads = 8 / l.sets;
  std::int32_t sum = 0;
  for (i64 quad = set * quads; quad < (set + 1) * quads; ++quad) {
    for (i64 i = 0; i < 4; ++i) {
      int c;
      if (l.kind == PanelKind::codes4) c = lines[quad / 2 * 64 + i] >> (quad % 2 * 4) & 15;
      else c = lines[quad * 64 + i];
      c = l.has_codebook ? l.codebook[c] : c - l.zero;
      sum += c * q[quad * 4 + i];
    }
  }
  return sum;
}

void dot_small(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row, i64 m,
               float* c) {
  for (i64 i = 0; i < m * panel_rows; ++i) c[i] = 0.0f;
  for (i64 chunk = 0; chunk < l.chunks; ++chunk) {
    const ChunkPlace at = place_of(l, panel, chunk);
    for (i64 i = 0; i < m; ++i) {
      const i64 g = (row + i) * x.chunks + chunk;
      for (i64 set = 0; set < l.sets; ++set) {
        for (i64 r = 0; r < panel_rows; ++r) {
          const float scale = load_parameter(at.header + set * scale_set_bytes(l), l.scale_f16, r);
          float& y = c[i * panel_rows + r];
          y += static_cast<float>(dot_set(l, at.codes, x.q + g * chunk_cols, r, set)) * scale * x.scale[g];
          if (l.has_min)
            y -= load_parameter(at.header + l.sets * scale_set_bytes(l) + set * min_set_bytes(l), l.min_f16,
                                r) *
                 x.scaled_sum[g * l.sets + set];
        }
      }
    }
  }
}

}  // namespace nibble::cpu::scalar
