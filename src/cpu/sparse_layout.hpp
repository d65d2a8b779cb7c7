// SPDX-License-Identifier: MIT
// Panels without their pruned weights, as plain data that units of every instruction set can read. Both kinds begin
// at a multiple of 64 bytes, are of different lengths, and expand to a dense panel of cpu/packed_layout.hpp.
//
//   bitmap  [headers][chunk]...[chunk][headers][chunk]...
//           Before 8 chunks stand the headers of their records, from a multiple of 8 bytes on, so that all is read in
//           one ascending stream. Where a record is no whole part of 8 chunks, all stand at the panel's beginning.
//   chunk   [16 masks of 64 bits][weights of quad 0][weights of quad 1]...[weights of quad 7]
//           Mask 2q + h is of quad q in rows 16h .. 16h + 15; bit 4r + i, of row r and column i, says that the weight
//           is stored. Codes of 8 bits take a byte each, those of mask 2q first. Codes of 4 bits share bytes: those of
//           mask 2q are low halves and those of 2q + 1 high ones, so that a quad takes as many bytes as the longer of
//           the two; the other's last are not used. All other weights, also those beyond the matrix, have the code
//           PackedLayout::pruned.
//
//   blocks  [number n of chunks, uint32][their indices, ascending, uint32][record]...
//           n records of one chunk each, with the scales that the chunk has in its dense record. Chunks that are
//           missing hold nothing but pruned weights.
#pragma once

#include <cstdint>

#include "cpu/packed_layout.hpp"

namespace nibble::cpu {

inline constexpr std::int64_t mask_bytes = 128;  ///< of a chunk
inline constexpr std::int64_t line_bytes = 64;
inline constexpr std::int64_t batch_chunks = 8;  ///< whose headers stand together
/// Readable bytes behind the last panel: a line's weights are loaded as a whole vector.
inline constexpr std::int64_t bitmap_padding = 64;

}  // namespace nibble::cpu
