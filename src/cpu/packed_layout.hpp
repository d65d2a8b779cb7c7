// SPDX-License-Identifier: MIT
// The packed weight layout "P32", as plain data that units of every instruction set can read.
//
// A panel is 32 output rows. Its columns go in chunks of 32; a chunk of codes is lines of 64 bytes, each 16
// rows x one quad (4 consecutive columns), in the order vpdpbusd and AMX tiles want: byte 4r+i of a line is
// row r, column i of the quad. Four-bit codes put two quads into a line.
//
//   panel   [record 0][record 1]...                    a record is chunks that share their scales
//   record  [scales 32][scales 32]? [minima 32]...?    f16 or f32; two sets where a scale covers 16 columns
//           [chunk][chunk]...
//   chunk   [rows 0-15: lines][rows 16-31: lines]
//     8 bit   line q = columns 4q..4q+3
//     4 bit   line l = columns 8l..8l+3 in the low nibbles, 8l+4..8l+7 in the high ones
//
//   dense   [column 0: 32 rows][column 1: 32 rows]...  f32, f16 or bf16
//
// Rows beyond the matrix and columns beyond its last one are stored with zero scales (dense: zeros).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cpu {

inline constexpr std::int64_t panel_rows = 32;
inline constexpr std::int64_t chunk_cols = 32;

enum class PanelKind : std::uint8_t { codes4, codes8, f32, f16, bf16 };

/// value = scale * C[code] - min; C[code] = code - zero, or codebook[code] when there is one.
struct PackedLayout {
  std::int64_t rows = 0, cols = 0;
  std::int64_t panels = 0;
  std::int64_t chunks = 0;  ///< per panel
  std::int64_t chunks_per_record = 1;
  std::int64_t header_bytes = 0;  ///< scales and minima of a record
  std::int64_t chunk_bytes = 0;
  std::int64_t record_bytes = 0;  ///< of a full record
  std::int64_t panel_bytes = 0;
  std::int32_t zero = 0;
  PanelKind kind = PanelKind::f32;
  std::uint8_t sets = 1;  ///< scale sets per record: 1, or 2 when a scale covers 16 columns
  bool scale_f16 = false, min_f16 = false;
  bool has_min = false;
  bool has_codebook = false;
  alignas(64) float code_values[16]{};  ///< C of a 4-bit codebook
  alignas(16) std::int8_t codebook[16]{};
};

}  // namespace nibble::cpu
