// SPDX-License-Identifier: MIT
// Where a panel's chunks, scales and minima lie, and scales as floats. Included inside an instruction set's
// namespace, after its vector vocabulary.
#pragma once

/// One chunk of a panel; steps to the next without dividing.
struct ChunkCursor {
  const std::uint8_t* record;
  i64 index;  ///< of the chunk in its record
};
static inline ChunkCursor first_chunk(const std::uint8_t* panel) { return {panel, 0}; }
static inline ChunkCursor chunk_at(const PackedLayout& l, const std::uint8_t* panel, i64 chunk) {
  return {panel + chunk / l.chunks_per_record * l.record_bytes, chunk % l.chunks_per_record};
}
static inline const std::uint8_t* codes_of(const PackedLayout& l, const ChunkCursor& at) {
  return at.record + l.header_bytes + at.index * l.chunk_bytes;
}
static inline void next_chunk(const PackedLayout& l, ChunkCursor& at) {
  if (++at.index == l.chunks_per_record) at = {at.record + l.record_bytes, 0};
}

/// Chunks of a bitmap panel whose headers stand together.
static inline i64 chunks_per_heads(const PackedLayout& l) {
  return batch_chunks % l.chunks_per_record == 0 ? batch_chunks : l.chunks;
}
/// Bytes of the headers that stand before chunk `chunk` of a bitmap panel, often none.
static inline i64 heads_bytes(const PackedLayout& l, i64 chunk) {
  const i64 together = chunks_per_heads(l), left = l.chunks - chunk;
  if (chunk % together != 0) return 0;
  return ((left < together ? left : together) + l.chunks_per_record - 1) / l.chunks_per_record * l.header_bytes;
}
/// Where headers that follow stored weights begin: at the next multiple of 8 bytes, as their numbers need.
static inline const std::uint8_t* align_heads(const std::uint8_t* p) {
  return p + (0 - reinterpret_cast<std::uintptr_t>(p)) % 8;
}
/// The layout by which a ChunkCursor walks such headers.
static inline PackedLayout heads_layout(const PackedLayout& l) {
  PackedLayout heads = l;
  heads.record_bytes = l.header_bytes;
  return heads;
}

/// W scales or minima from row `r` on, of one set of a chunk.
template <ParameterKind Kind>
static inline F load_parameter(const PackedLayout& l, const ParameterPlace& p, const ChunkCursor& at, i64 set, i64 r) {
  const auto* values = at.record + p.values;
  const auto* halves = reinterpret_cast<const std::uint16_t*>(values);
  if (Kind == ParameterKind::f16) return load_half(halves + set * panel_rows + r);
  if (Kind == ParameterKind::f32) return load(reinterpret_cast<const float*>(values) + set * panel_rows + r);
  if (Kind == ParameterKind::none) return set1(0.0f);
  const auto* lower = reinterpret_cast<const std::int8_t*>(at.record + p.lower);
  return load_half(halves + r) * load_int8(lower + (at.index * l.sets + set) * panel_rows + r);
}
static inline F load_parameter(const PackedLayout& l, const ParameterPlace& p, const ChunkCursor& at, i64 set, i64 r) {
  switch (p.kind) {
    case ParameterKind::f16: return load_parameter<ParameterKind::f16>(l, p, at, set, r);
    case ParameterKind::f32: return load_parameter<ParameterKind::f32>(l, p, at, set, r);
    case ParameterKind::two_level: return load_parameter<ParameterKind::two_level>(l, p, at, set, r);
    case ParameterKind::none: break;
  }
  return set1(0.0f);
}

template <ParameterKind Kind>
static inline void expand_parameters(const PackedLayout& l, const ParameterPlace& p, ChunkCursor at, i64 count,
                                     float* out) {
  for (i64 chunk = 0; chunk < count; ++chunk, next_chunk(l, at))
    for (i64 set = 0; set < l.sets; ++set, out += panel_rows)
      for (i64 r = 0; r < panel_rows; r += W) store(out + r, load_parameter<Kind>(l, p, at, set, r));
}
/// out[chunk][set][32] of `count` chunks from `at` on.
static inline void expand_parameters(const PackedLayout& l, const ParameterPlace& p, const ChunkCursor& at, i64 count,
                                     float* out) {
  switch (p.kind) {
    case ParameterKind::f16: return expand_parameters<ParameterKind::f16>(l, p, at, count, out);
    case ParameterKind::f32: return expand_parameters<ParameterKind::f32>(l, p, at, count, out);
    case ParameterKind::two_level: return expand_parameters<ParameterKind::two_level>(l, p, at, count, out);
    case ParameterKind::none: break;
  }
}
