// SPDX-License-Identifier: MIT
// Where a panel's chunks, scales and minima lie. Included inside an instruction set's namespace.
#pragma once

/// A record's scales or minima of one set, W of them from row `r`, as floats.
static inline F load_parameter(const std::uint8_t* p, bool half, i64 r) {
  return half ? load_half(reinterpret_cast<const std::uint16_t*>(p) + r)
              : load(reinterpret_cast<const float*>(p) + r);
}

static inline i64 scale_set_bytes(const PackedLayout& l) { return panel_rows * (l.scale_f16 ? 2 : 4); }
static inline i64 min_set_bytes(const PackedLayout& l) { return panel_rows * (l.min_f16 ? 2 : 4); }

/// Where chunk c lies, and the header of its record.
struct ChunkPlace {
  const std::uint8_t* header;
  const std::uint8_t* codes;
};
static inline ChunkPlace place_of(const PackedLayout& l, const std::uint8_t* panel, i64 c) {
  const i64 record = c / l.chunks_per_record;
  const std::uint8_t* header = panel + record * l.record_bytes;
  return {header, header + l.header_bytes + (c - record * l.chunks_per_record) * l.chunk_bytes};
}
