// SPDX-License-Identifier: MIT
// Panels without their pruned weights, as plain data that units of every instruction set can read. Both kinds begin
// at a multiple of 64 bytes, are of different lengths, and expand to a dense panel of cpu/packed_layout.hpp.
//
//   bitmap  [header of record 0][header of record 1]...[chunk][chunk]...
//   chunk   [16 masks of 64 bits][weights of line 0][weights of line 1]...
//           Line 2q + h is quad q of rows 16h .. 16h + 15, in the order of a dense line of 8-bit codes; bit i of its
//           mask says that byte i is stored. Codes of 8 bits take a byte, of 4 bits half of one, the first the low
//           half; every line begins with a whole byte. The rest have the code PackedLayout::pruned. Weights beyond
//           the matrix count as pruned.
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
/// Readable bytes behind the last panel: a line's weights are loaded as a whole vector.
inline constexpr std::int64_t bitmap_padding = 64;

}  // namespace nibble::cpu
