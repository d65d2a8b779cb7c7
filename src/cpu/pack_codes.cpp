// SPDX-License-Identifier: MIT
// Exactness is the rule: two-level scales keep their integers, other scales and minima are stored as FP16 only
// where all of a matrix's survive it, and codes take as many bits as they have.
#include "cpu/pack_codes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "cpu/kernel_table.hpp"
#include "cpu/pack_sparse.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/core/parallel.hpp"

namespace nibble::cpu {

namespace {

#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/quad_word.hpp"

/// How a source's codes become bytes: code' = code - zero(group) + shift, and what C the result has.
struct CodeMap {
  bool exact = true;         ///< false: keep the matrix as floats
  bool shifts_zero = false;  ///< group zeros go into the code
  std::int32_t zero = 0;
  float scale_factor = 1;  ///< for codebooks of halves, stored doubled
  bool has_codebook = false;
  int bits = 8;  ///< of the stored code
  std::int8_t codebook[16]{};
};

CodeMap map_codes(const QuantizedView& v) {
  CodeMap m;
  m.bits = v.code_bits();
  const int count = 1 << v.code_bits();
  float zero = v.code_value(0);
  bool linear = true;
  for (int q = 0; q < count; ++q)
    linear = linear && v.code_value(static_cast<std::uint8_t>(q)) == zero + static_cast<float>(q);
  linear = linear && zero == static_cast<float>(static_cast<int>(zero));
  if (linear) {
    m.zero = -static_cast<std::int32_t>(zero);
  } else if (v.code_bits() <= 4) {
    m.has_codebook = true;
    bool whole = true;
    for (int q = 0; q < count; ++q) {
      const float c = v.code_value(static_cast<std::uint8_t>(q));
      whole = whole && c == static_cast<float>(static_cast<int>(c));
    }
    m.scale_factor = whole ? 1.0f : 0.5f;
    for (int q = 0; q < count; ++q) {
      const float c = v.code_value(static_cast<std::uint8_t>(q)) / m.scale_factor;
      m.exact = m.exact && c >= -127 && c <= 127 && c == static_cast<float>(static_cast<int>(c));
      if (m.exact) m.codebook[q] = static_cast<std::int8_t>(c);
    }
  } else {
    m.exact = false;
  }
  // An integer zero times an 8- or 16-bit scale is exact in FP32 and so is a minimum; else it moves into the
  // code.
  if (v.format() == nullptr && v.spec().offset == OffsetKind::int_zero &&
      (v.spec().scale.dtype == DType::f32 || v.spec().tensor_scale)) {
    m.shifts_zero = true;
    m.exact = m.exact && m.bits <= 7;
    m.zero = 128;
    m.bits = 8;
  }
  return m;
}

bool has_min(const QuantizedView& v, const CodeMap& m) {
  if (v.format() != nullptr) return v.format()->has_min;
  return v.spec().offset == OffsetKind::float_min ||
         (v.spec().offset == OffsetKind::int_zero && !m.shifts_zero);
}

constexpr Index super_group = 256;  ///< columns under one upper scale of two levels

/// Two-level scales that records can keep: one upper scale per 256 columns, a lower one per 16 or 32.
bool has_levels(const QuantizedView& v) {
  const FormatInfo* f = v.format();
  return f != nullptr && f->levels != nullptr && f->block_size == super_group &&
         (f->sub_group == 16 || f->sub_group == chunk_cols);
}

Index parameter_bytes(const PackedLayout& l, const ParameterPlace& p) {
  switch (p.kind) {
    case ParameterKind::f16: return l.sets * panel_rows * 2;
    case ParameterKind::f32: return l.sets * panel_rows * 4;
    case ParameterKind::two_level: return panel_rows * 2 + l.chunks_per_record * l.sets * panel_rows;
    case ParameterKind::none: break;
  }
  return 0;
}

/// Scales that cover 16, 32, 64, ... columns or the whole row fit records; others do not.
bool fits_records(Index group, Index cols) { return group % 16 == 0 || group >= cols; }

/// The code of weights that are pruned: the one that stands for zero, or where none does, the lowest.
std::uint8_t zero_code(const PackedLayout& l) {
  if (!l.has_codebook) return static_cast<std::uint8_t>(l.zero >= 0 && l.zero < 1 << l.bits ? l.zero : 0);
  std::uint8_t code = 0;
  while (code < 15 && l.codebook[code] != 0) ++code;
  return l.codebook[code] == 0 ? code : std::uint8_t{0};
}

PackedLayout code_layout(const QuantizedView& v, const CodeMap& m) {
  PackedLayout l = shape_layout(v.rows(), v.cols());
  const Index group = v.group();
  const bool levels = has_levels(v);
  if (group % 32 != 0 && group < v.cols()) l.sets = 2;
  if (levels) l.chunks_per_record = super_group / chunk_cols;
  else if (group >= v.cols()) l.chunks_per_record = std::max<Index>(1, l.chunks);
  else if (group % 32 == 0) l.chunks_per_record = group / 32;
  l.kind = PanelKind::codes;
  l.bits = static_cast<std::uint8_t>(m.has_codebook ? 4 : m.bits == 7 ? 8 : m.bits);
  l.zero = m.zero;
  l.has_codebook = m.has_codebook;
  for (std::size_t i = 0; i < 16; ++i) {
    l.codebook[i] = m.codebook[i];
    l.code_values[i] = static_cast<float>(m.codebook[i]);
  }
  l.pruned = zero_code(l);
  l.scale.kind = levels ? ParameterKind::two_level : ParameterKind::f16;  // f16 is hoped for
  if (has_min(v, m)) l.min.kind = l.scale.kind;
  finish_layout(l);
  return l;
}

struct RowBuffers {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales, mins;
};

/// What did not fit FP16.
struct Misfits {
  std::atomic<bool> scale{false}, min{false};
  bool any() const noexcept { return scale || min; }
};

void put_line_word(std::uint8_t* lines, Index line, std::uint32_t word) { std::memcpy(lines + line * 64, &word, 4); }

/// One row's 32 codes of a chunk, cut into planes: the inverse of quad_word.
void put_chunk(int bits, std::uint8_t* lines, const std::uint8_t* codes) {
  std::uint32_t quads[8];
  std::memcpy(quads, codes, sizeof quads);
  if (bits == 8) {
    for (Index q = 0; q < 8; ++q) put_line_word(lines, q, quads[q]);
    return;
  }
  int at = 0;
  for (int plane = 4; plane > 0; plane /= 2) {
    if ((bits & plane) == 0) continue;
    const std::uint32_t mask = ((1u << plane) - 1u) * 0x01010101u;
    const Index per_line = 8 / plane;
    for (Index line = 0; line < plane; ++line) {
      std::uint32_t word = 0;
      for (Index i = 0; i < per_line; ++i) word |= (quads[line * per_line + i] >> at & mask) << (i * plane);
      put_line_word(lines, line, word);
    }
    lines += plane * 64;
    at += plane;
  }
}

std::uint8_t* row_lines(const PackedLayout& l, const ChunkCursor& at, Index r) {
  return const_cast<std::uint8_t*>(codes_of(l, at)) + r / 16 * (l.chunk_bytes / 2) + r % 16 * 4;
}

void put_codes(const PackedLayout& l, std::uint8_t* panel, Index r, const std::uint8_t* codes) {
  ChunkCursor at = first_chunk(panel);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    const Index count = std::min(chunk_cols, l.cols - chunk * chunk_cols);
    std::uint8_t padded[chunk_cols] = {};
    if (count < chunk_cols) std::memcpy(padded, codes + chunk * chunk_cols, static_cast<std::size_t>(count));
    put_chunk(l.bits, row_lines(l, at, r), count < chunk_cols ? padded : codes + chunk * chunk_cols);
  }
}

/// Stores one scale or minimum; whether it survived.
bool put_parameter(std::uint8_t* values, ParameterKind kind, Index at, float value) {
  if (kind == ParameterKind::f32) {
    std::memcpy(values + at * 4, &value, 4);
    return true;
  }
  const half h(value);
  std::memcpy(values + at * 2, &h.bits, 2);
  const float back = h;
  return std::memcmp(&back, &value, 4) == 0;
}

void put_one_level(const PackedLayout& l, std::uint8_t* panel, Index r, Index group, const RowBuffers& b,
                   Misfits& misfits) {
  const Index set_cols = l.sets == 2 ? 16 : l.chunks_per_record * chunk_cols;
  const Index sets = checked::ceil_div(l.cols, set_cols);
  for (Index s = 0; s < sets; ++s) {
    const auto g = static_cast<std::size_t>(s * set_cols / std::max<Index>(group, 1));
    std::uint8_t* record = panel + s / l.sets * l.record_bytes;
    const Index at = s % l.sets * panel_rows + r;
    if (!put_parameter(record + l.scale.values, l.scale.kind, at, b.scales[g])) misfits.scale = true;
    if (l.min.kind != ParameterKind::none && !put_parameter(record + l.min.values, l.min.kind, at, b.mins[g]))
      misfits.min = true;
  }
}

void put_two_levels(const QuantizedView& v, const PackedLayout& l, Index row, std::uint8_t* panel) {
  const FormatInfo& f = *v.format();
  const std::byte* block = v.row_data(row);
  const Index r = row % panel_rows, groups = f.sub_groups();
  for (Index b = 0; b < v.cols() / f.block_size; ++b, block += f.block_bytes, panel += l.record_bytes) {
    float d, d_min;
    std::int8_t scales[super_group], mins[super_group];
    f.levels(block, &d, &d_min, scales, mins);
    put_parameter(panel + l.scale.values, ParameterKind::f16, r, d);
    for (Index g = 0; g < groups; ++g) panel[l.scale.lower + g * panel_rows + r] = static_cast<std::uint8_t>(scales[g]);
    if (l.min.kind == ParameterKind::none) continue;
    put_parameter(panel + l.min.values, ParameterKind::f16, r, d_min);
    for (Index g = 0; g < groups; ++g) panel[l.min.lower + g * panel_rows + r] = static_cast<std::uint8_t>(mins[g]);
  }
}

void pack_row(const QuantizedView& v, const CodeMap& m, const PackedLayout& l, Index row, std::uint8_t* panel,
              RowBuffers& b, Misfits& misfits) {
  AffineRow out{b.codes, b.scales, b.mins};
  if (m.shifts_zero) out.zeros = b.zeros;
  v.unpack_row(row, out);
  if (m.shifts_zero)
    for (std::size_t k = 0; k < b.codes.size(); ++k)
      b.codes[k] = static_cast<std::uint8_t>(128 + b.codes[k] - b.zeros[k / static_cast<std::size_t>(v.group())]);
  if (m.scale_factor != 1.0f)
    for (float& s : b.scales) s *= m.scale_factor;
  put_codes(l, panel, row % panel_rows, b.codes.data());
  if (l.scale.kind == ParameterKind::two_level) put_two_levels(v, l, row, panel);
  else put_one_level(l, panel, row % panel_rows, v.group(), b, misfits);
}

/// Makes all panels of a layout on several threads: at place(p, scratch), then done(p, panel). False, and not all of
/// them are made, where scales or minima do not fit it.
template <class Place, class Done>
bool make_panels(ExecutionContext<Backend>& context, const QuantizedView& v, const CodeMap& m, const PackedLayout& l,
                 const PackedMatrix<Backend>::RowsRead& rows_read, Misfits& misfits, Place&& place, Done&& done) {
  const auto cols = static_cast<std::size_t>(v.cols()), groups = static_cast<std::size_t>(v.groups_per_row());
  for_panel_slabs(l, v, rows_read, [&](Index first, Index last) {
    parallel_for(context.executor(), last - first, 4, [&](Index begin, Index end, Index) {
      RowBuffers b{std::vector<std::uint8_t>(cols), std::vector<std::uint8_t>(m.shifts_zero ? groups : 0),
                   std::vector<float>(groups), std::vector<float>(groups)};
      std::vector<std::uint8_t> scratch;
      for (Index p = first + begin; p < first + end; ++p) {
        if (misfits.any()) return;  // this attempt is lost
        std::uint8_t* panel = place(p, scratch);
        std::memset(panel, 0, static_cast<std::size_t>(l.panel_bytes));
        for (Index r = p * panel_rows; r < std::min(l.rows, (p + 1) * panel_rows); ++r)
          pack_row(v, m, l, r, panel, b, misfits);
        done(p, panel);
      }
    });
  });
  return !misfits.any();
}

}  // namespace

PackedLayout shape_layout(Index rows, Index cols) {
  PackedLayout l;
  l.rows = rows;
  l.cols = cols;
  l.panels = checked::ceil_div(rows, panel_rows);
  l.chunks = checked::ceil_div(cols, chunk_cols);
  return l;
}

void finish_layout(PackedLayout& l) {
  const Index scale_bytes = parameter_bytes(l, l.scale), min_bytes = parameter_bytes(l, l.min);
  l.scale.values = 0;
  l.scale.lower = panel_rows * 2;
  l.min.values = scale_bytes;
  l.min.lower = scale_bytes + panel_rows * 2;
  l.header_bytes = scale_bytes + min_bytes;
  l.chunk_bytes = Index{l.bits} * 128;
  l.record_bytes = l.header_bytes + l.chunks_per_record * l.chunk_bytes;
  const Index full = l.chunks / l.chunks_per_record, rest = l.chunks % l.chunks_per_record;
  l.panel_bytes = checked::add(checked::mul(full, l.record_bytes, "packed bytes"),
                               rest > 0 ? l.header_bytes + rest * l.chunk_bytes : 0, "packed bytes");
}

std::shared_ptr<const PackedMatrix<Backend>::Impl> pack_codes(ExecutionContext<Backend>& context,
                                                              const QuantizedView& source, const PackOptions& options,
                                                              const PackedMatrix<Backend>::RowsRead& rows_read) {
  const CodeMap map = map_codes(source);
  if (!map.exact || !fits_records(source.group(), source.cols())) return nullptr;
  PackedLayout layout = code_layout(source, map);
  PackOptions sparse = options;
  sparse.sparse = allowed_packing(source, layout, options.sparse);
  for (;;) {
    Misfits misfits;
    std::shared_ptr<const PackedMatrix<Backend>::Impl> impl;
    if (sparse.sparse != SparsePacking::dense)
      impl = pack_sparse(context, layout, sparse, [&](PanelVisitor visit) {
        const auto scratch_panel = [&](Index, std::vector<std::uint8_t>& scratch) {
          scratch.resize(static_cast<std::size_t>(layout.panel_bytes));
          return scratch.data();
        };
        return make_panels(context, source, map, layout, rows_read, misfits, scratch_panel, visit);
      });
    if (impl == nullptr && !misfits.any()) {
      auto dense = std::make_shared<PackedMatrix<Backend>::Impl>(layout, context, options);
      const auto in_place = [&](Index p, std::vector<std::uint8_t>&) { return dense->data + p * layout.panel_bytes; };
      make_panels(context, source, map, layout, rows_read, misfits, in_place, [](Index, const std::uint8_t*) {});
      impl = std::move(dense);
    }
    if (!misfits.any()) return impl;
    if (misfits.scale) layout.scale.kind = ParameterKind::f32;
    if (misfits.min) layout.min.kind = ParameterKind::f32;
    finish_layout(layout);
  }
}

void unpack_codes(const PackedLayout& l, const std::uint8_t* panel, Index row, std::span<float> out) {
  ChunkCursor at = first_chunk(panel);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    const std::uint8_t* lines = row_lines(l, at, row);
    const Index count = std::min(chunk_cols, l.cols - chunk * chunk_cols);
    for (Index k = 0; k < count; ++k) {
      const Index set = l.sets == 2 ? k / 16 : 0;
      const int code = static_cast<int>(quad_word(l.bits, lines, k / 4) >> (k % 4 * 8) & 255u);
      const float c = l.has_codebook ? l.code_values[code] : static_cast<float>(code - l.zero);
      out[static_cast<std::size_t>(chunk * chunk_cols + k)] =
          load_parameter(l, l.scale, at, set, row) * c - load_parameter(l, l.min, at, set, row);
    }
  }
}

}  // namespace nibble::cpu
