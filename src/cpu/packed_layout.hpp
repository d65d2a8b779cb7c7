// SPDX-License-Identifier: MIT
// The packed weight layout "P32", as plain data that units of every instruction set can read.
//
// A panel is 32 output rows. Its columns go in chunks of 32; a chunk of b-bit codes is b lines of 64 bytes for
// each half of 16 rows. A line holds quads (4 consecutive columns) in the order vpdpbusd and AMX tiles want:
// byte 4r+i is row r, column i of the quad. Eight-bit codes put one quad into a line; narrower ones are cut
// into planes of 4, 2 and 1 bits (6 = 4 + 2, 5 = 4 + 1, 3 = 2 + 1), low bits first, several quads to a line.
//
//   panel   [record 0][record 1]...                  a record is chunks with a header in front
//   record  [scales][minima]?[chunk][chunk]...
//   chunk   [rows 0-15: lines][rows 16-31: lines]
//     4-bit plane   line l = quads 2l, 2l+1 at bits 0, 4
//     2-bit plane   line l = quads 4l .. 4l+3 at bits 0, 2, 4, 6
//     1-bit plane   one line, quad q at bit q
//   scales  one level   [sets][32] f16 or f32, for all chunks of the record; two sets where a scale covers 16
//                       columns
//           two levels  [32] f16, then [chunks][sets][32] int8: scale = f16 * int8, exact in FP32
//   minima  the same
//
//   dense   [column 0: 32 rows][column 1: 32 rows]...  f32, f16 or bf16
//
// Sparse panels are in cpu/sparse_layout.hpp.
//
// Rows beyond the matrix and columns beyond its last one are stored with zero scales (dense: zeros).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cpu {

inline constexpr std::int64_t panel_rows = 32;
inline constexpr std::int64_t chunk_cols = 32;
inline constexpr std::int64_t rounded_rows = 16;  ///< activations in a BF16 tile

enum class PanelKind : std::uint8_t { codes, f32, f16, bf16 };

enum class ParameterKind : std::uint8_t { none, f16, f32, two_level };

/// Where a record keeps its scales, or its minima; offsets in bytes from the record's start.
struct ParameterPlace {
  ParameterKind kind = ParameterKind::none;
  std::int64_t values = 0;  ///< [sets][32], or the upper level [32]
  std::int64_t lower = 0;   ///< two levels: [chunks][sets][32] int8
};

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
  ParameterPlace scale, min;
  std::int32_t zero = 0;
  PanelKind kind = PanelKind::f32;
  std::uint8_t bits = 0;  ///< of a code: 1 to 6, or 8
  std::uint8_t sets = 1;  ///< scale sets per chunk: 1, or 2 when a scale covers 16 columns
  bool has_codebook = false;               ///< then bits is 4
  std::uint8_t pruned = 0;  ///< the code of weights that sparse panels leave out
  alignas(64) float code_values[16]{};  ///< C of a codebook
  alignas(16) std::int8_t codebook[16]{};
};

}  // namespace nibble::cpu
