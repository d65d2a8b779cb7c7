// SPDX-License-Identifier: MIT
// Packing: any quantized or dense matrix into panels (cpu/packed_layout.hpp), and rows back out of them.
// Exactness is the rule: scales and minima are stored as FP16 only where all of a matrix's survive it, and
// a matrix that codes cannot hold exactly (real-valued codebooks, groups that are no multiple of 16) is
// kept as FP32.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "cpu/packed_impl.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/core/parallel.hpp"

namespace nibble {

using cpu::chunk_cols;
using cpu::PackedLayout;
using cpu::panel_rows;
using cpu::PanelKind;

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

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

void finish_layout(PackedLayout& l) {
  const Index scale_bytes = panel_rows * (l.scale_f16 ? 2 : 4), min_bytes = panel_rows * (l.min_f16 ? 2 : 4);
  const bool codes = l.kind == PanelKind::codes4 || l.kind == PanelKind::codes8;
  if (!codes) {
    l.panel_bytes = checked::mul(l.cols, panel_rows * (l.kind == PanelKind::f32 ? 4 : 2), "packed bytes");
    return;
  }
  l.header_bytes = l.sets * (scale_bytes + (l.has_min ? min_bytes : 0));
  l.chunk_bytes = l.kind == PanelKind::codes4 ? 512 : 1024;
  l.record_bytes = l.header_bytes + l.chunks_per_record * l.chunk_bytes;
  const Index full = l.chunks / l.chunks_per_record, rest = l.chunks % l.chunks_per_record;
  l.panel_bytes = checked::add(checked::mul(full, l.record_bytes, "packed bytes"),
                               rest > 0 ? l.header_bytes + rest * l.chunk_bytes : 0, "packed bytes");
}

PackedLayout shape_layout(Index rows, Index cols) {
  PackedLayout l;
  l.rows = rows;
  l.cols = cols;
  l.panels = checked::ceil_div(rows, panel_rows);
  l.chunks = checked::ceil_div(cols, chunk_cols);
  return l;
}

/// Scales that cover 16, 32, 64, ... columns or the whole row fit records; others do not.
bool fits_records(Index group, Index cols) { return group % 16 == 0 || group >= cols; }

PackedLayout code_layout(const QuantizedView& v, const CodeMap& m) {
  PackedLayout l = shape_layout(v.rows(), v.cols());
  const Index group = v.group();
  if (group >= v.cols()) l.chunks_per_record = std::max<Index>(1, l.chunks);
  else if (group % 32 == 0) l.chunks_per_record = group / 32;
  else l.sets = 2;
  l.kind = m.bits <= 4 ? PanelKind::codes4 : PanelKind::codes8;
  l.zero = m.zero;
  l.has_codebook = m.has_codebook;
  l.has_min = has_min(v, m);
  for (std::size_t i = 0; i < 16; ++i) {
    l.codebook[i] = m.codebook[i];
    l.code_values[i] = static_cast<float>(m.codebook[i]);
  }
  l.scale_f16 = l.min_f16 = true;  // hoped for; fill_panels says when it is not so
  finish_layout(l);
  return l;
}

/// Stores one scale or minimum; whether it survived.
bool put_parameter(std::uint8_t* at, bool f16, Index row, float value) {
  if (!f16) {
    std::memcpy(at + row * 4, &value, 4);
    return true;
  }
  const half h(value);
  std::memcpy(at + row * 2, &h.bits, 2);
  const float back = h;
  return std::memcmp(&back, &value, 4) == 0;
}

struct RowBuffers {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales, mins;
};

/// What did not fit FP16.
struct Misfits {
  std::atomic<bool> scale{false}, min{false};
};

/// Row r's 32 codes of one chunk; columns beyond the matrix are absent.
void put_chunk(PanelKind kind, std::uint8_t* half, Index r, const std::uint8_t* codes, Index count) {
  std::uint8_t padded[chunk_cols] = {};
  if (count < chunk_cols) {
    std::memcpy(padded, codes, static_cast<std::size_t>(count));
    codes = padded;
  }
  std::uint8_t* at = half + r % 16 * 4;
  if (kind == PanelKind::codes8) {
    for (Index quad = 0; quad < 8; ++quad) std::memcpy(at + quad * 64, codes + quad * 4, 4);
    return;
  }
  for (Index line = 0; line < 4; ++line)
    for (Index i = 0; i < 4; ++i)
      at[line * 64 + i] = static_cast<std::uint8_t>(codes[line * 8 + i] | codes[line * 8 + 4 + i] << 4);
}

void put_codes(const PackedLayout& l, std::uint8_t* panel, Index r, const std::uint8_t* codes) {
  Index chunk = 0;
  for (std::uint8_t* record = panel; chunk < l.chunks; record += l.record_bytes) {
    std::uint8_t* at = record + l.header_bytes + r / 16 * (l.chunk_bytes / 2);
    const Index end = std::min(l.chunks, chunk + l.chunks_per_record);
    for (; chunk < end; ++chunk, at += l.chunk_bytes)
      put_chunk(l.kind, at, r, codes + chunk * chunk_cols, std::min(chunk_cols, l.cols - chunk * chunk_cols));
  }
}

void put_parameters(const PackedLayout& l, std::uint8_t* panel, Index r, Index group, const RowBuffers& b,
                    Misfits& misfits) {
  const Index set_cols = l.sets == 2 ? 16 : l.chunks_per_record * chunk_cols;
  const Index sets = checked::ceil_div(l.cols, set_cols);
  for (Index s = 0; s < sets; ++s) {
    const auto g = static_cast<std::size_t>(s * set_cols / std::max<Index>(group, 1));
    std::uint8_t* header = panel + s / l.sets * l.record_bytes;
    const Index scale_set = panel_rows * (l.scale_f16 ? 2 : 4), min_set = panel_rows * (l.min_f16 ? 2 : 4);
    if (!put_parameter(header + s % l.sets * scale_set, l.scale_f16, r, b.scales[g])) misfits.scale = true;
    if (l.has_min &&
        !put_parameter(header + l.sets * scale_set + s % l.sets * min_set, l.min_f16, r, b.mins[g]))
      misfits.min = true;
  }
}

void pack_row(const QuantizedView& v, const CodeMap& m, const PackedLayout& l, Index row, std::uint8_t* panel,
              RowBuffers& b, Misfits& misfits) {
  AffineRow out{b.codes, b.scales, b.mins};
  if (m.shifts_zero) out.zeros = b.zeros;
  v.unpack_row(row, out);
  if (m.shifts_zero)
    for (std::size_t k = 0; k < b.codes.size(); ++k)
      b.codes[k] =
          static_cast<std::uint8_t>(128 + b.codes[k] - b.zeros[k / static_cast<std::size_t>(v.group())]);
  if (m.scale_factor != 1.0f)
    for (float& s : b.scales) s *= m.scale_factor;
  put_codes(l, panel, row % panel_rows, b.codes.data());
  put_parameters(l, panel, row % panel_rows, v.group(), b, misfits);
}

void fill_code_panels(ExecutionContext<cpu::Backend>& context, const QuantizedView& v, const CodeMap& m,
                      PackedMatrix<cpu::Backend>::Impl& impl, Misfits& misfits) {
  const PackedLayout& l = impl.layout;
  const auto cols = static_cast<std::size_t>(v.cols()), groups = static_cast<std::size_t>(v.groups_per_row());
  parallel_for(context.executor(), l.panels, 4, [&](Index begin, Index end, Index) {
    RowBuffers b{std::vector<std::uint8_t>(cols), std::vector<std::uint8_t>(m.shifts_zero ? groups : 0),
                 std::vector<float>(groups), std::vector<float>(groups)};
    for (Index p = begin; p < end; ++p) {
      if (misfits.scale || misfits.min) return;  // this attempt is lost
      std::uint8_t* panel = impl.data + p * l.panel_bytes;
      std::memset(panel, 0, static_cast<std::size_t>(l.panel_bytes));
      for (Index r = p * panel_rows; r < std::min(l.rows, (p + 1) * panel_rows); ++r)
        pack_row(v, m, l, r, panel, b, misfits);
    }
  });
}

/// `row_of(row, out)` gives a row's numbers as they are stored.
template <class T, class RowOf>
void fill_dense_panels(ExecutionContext<cpu::Backend>& context, PackedMatrix<cpu::Backend>::Impl& impl,
                       RowOf&& row_of) {
  const PackedLayout& l = impl.layout;
  parallel_for(context.executor(), l.panels, 4, [&](Index begin, Index end, Index) {
    std::vector<T> row(static_cast<std::size_t>(l.cols));
    for (Index p = begin; p < end; ++p) {
      std::uint8_t* panel = impl.data + p * l.panel_bytes;
      std::memset(panel, 0, static_cast<std::size_t>(l.panel_bytes));
      for (Index r = p * panel_rows; r < std::min(l.rows, (p + 1) * panel_rows); ++r) {
        row_of(r, row);
        for (Index k = 0; k < l.cols; ++k)
          std::memcpy(panel + (k * panel_rows + r % panel_rows) * static_cast<Index>(sizeof(T)),
                      &row[static_cast<std::size_t>(k)], sizeof(T));
      }
    }
  });
}

PanelKind dense_kind(const QuantizedView& v) {
  if (!v.dense() || v.code_bits() != 16) return PanelKind::f32;
  return v.format()->name == "f16"    ? PanelKind::f16
         : v.format()->name == "bf16" ? PanelKind::bf16
                                      : PanelKind::f32;
}

std::shared_ptr<const PackedMatrix<cpu::Backend>::Impl> pack_dense(ExecutionContext<cpu::Backend>& context,
                                                                   const QuantizedView& v) {
  PackedLayout l = shape_layout(v.rows(), v.cols());
  l.kind = dense_kind(v);
  finish_layout(l);
  auto impl = std::make_shared<PackedMatrix<cpu::Backend>::Impl>(l, context.memory());
  if (l.kind == PanelKind::f32)
    fill_dense_panels<float>(context, *impl, [&](Index r, std::vector<float>& out) { v.decode_row(r, out); });
  else
    fill_dense_panels<std::uint16_t>(context, *impl, [&](Index r, std::vector<std::uint16_t>& out) {
      std::memcpy(out.data(), v.row_data(r), out.size() * 2);
    });
  return impl;
}

float read_half(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half::from_bits(bits);
}
float read_parameter(const std::uint8_t* p, bool f16, Index row) {
  if (f16) return read_half(p + row * 2);
  float v;
  std::memcpy(&v, p + row * 4, 4);
  return v;
}

void unpack_codes(const PackedLayout& l, const std::uint8_t* panel, Index r, std::span<float> out) {
  const Index scale_set = panel_rows * (l.scale_f16 ? 2 : 4), min_set = panel_rows * (l.min_f16 ? 2 : 4);
  for (Index k = 0; k < l.cols; ++k) {
    const Index chunk = k / chunk_cols, record = chunk / l.chunks_per_record, in = k % chunk_cols;
    const std::uint8_t* header = panel + record * l.record_bytes;
    const std::uint8_t* half = header + l.header_bytes +
                               (chunk - record * l.chunks_per_record) * l.chunk_bytes +
                               r / 16 * (l.chunk_bytes / 2);
    const Index quad = in / 4, byte = r % 16 * 4 + in % 4, set = l.sets == 2 ? in / 16 : 0;
    const int code = l.kind == PanelKind::codes8 ? half[quad * 64 + byte]
                                                 : half[quad / 2 * 64 + byte] >> (quad % 2 * 4) & 15;
    const float c = l.has_codebook ? l.code_values[code] : static_cast<float>(code - l.zero);
    const float min =
        l.has_min ? read_parameter(header + l.sets * scale_set + set * min_set, l.min_f16, r) : 0.0f;
    out[static_cast<std::size_t>(k)] = read_parameter(header + set * scale_set, l.scale_f16, r) * c - min;
  }
}

void unpack_dense(const PackedLayout& l, const std::uint8_t* panel, Index r, std::span<float> out) {
  for (Index k = 0; k < l.cols; ++k) {
    const Index at = k * panel_rows + r;
    float v;
    if (l.kind == PanelKind::f32) std::memcpy(&v, panel + at * 4, 4);
    else if (l.kind == PanelKind::f16) v = read_half(panel + at * 2);
    else {
      const std::uint32_t bits = static_cast<std::uint32_t>(panel[at * 2]) << 16 |
                                 static_cast<std::uint32_t>(panel[at * 2 + 1]) << 24;
      std::memcpy(&v, &bits, 4);
    }
    out[static_cast<std::size_t>(k)] = v;
  }
}

}  // namespace

PackedMatrix<cpu::Backend>::Impl::Impl(const PackedLayout& l, MemoryResource* m) : layout(l), memory(m) {
  bytes = static_cast<std::size_t>(checked::mul(l.panels, l.panel_bytes, "packed bytes"));
  if (bytes == 0) return;
  if (bytes >= 2 * huge_page) {  // large pages are worth 10 to 20 % of the read rate
    alignment = huge_page;
    bytes = checked::round_up(bytes, huge_page, "packed bytes");
  }
  data = static_cast<std::uint8_t*>(memory->allocate(bytes, alignment));
#if defined(MADV_HUGEPAGE)
  if (alignment == huge_page) madvise(data, bytes, MADV_HUGEPAGE);  // a wish; refusal changes nothing
#endif
}

PackedMatrix<cpu::Backend>::Impl::~Impl() {
  if (data != nullptr) memory->deallocate(data, bytes, alignment);
}

PackedMatrix<cpu::Backend> PackedMatrix<cpu::Backend>::pack(ExecutionContext<cpu::Backend>& context,
                                                            const QuantizedView& source) {
  PackedMatrix packed;
  const CodeMap map = source.dense() ? CodeMap{} : map_codes(source);
  if (source.dense() || !map.exact || !fits_records(source.group(), source.cols())) {
    packed.impl_ = pack_dense(context, source);
    return packed;
  }
  PackedLayout layout = code_layout(source, map);
  for (;;) {
    auto impl = std::make_shared<Impl>(layout, context.memory());
    Misfits misfits;
    fill_code_panels(context, source, map, *impl, misfits);
    if (!misfits.scale && !misfits.min) {
      packed.impl_ = std::move(impl);
      return packed;
    }
    layout.scale_f16 = layout.scale_f16 && !misfits.scale;
    layout.min_f16 = layout.min_f16 && !misfits.min;
    finish_layout(layout);
  }
}

PackedMatrix<cpu::Backend> PackedMatrix<cpu::Backend>::pack(ExecutionContext<cpu::Backend>& context,
                                                            MatrixView<const float> source) {
  PackedLayout l = shape_layout(source.rows(), source.cols());
  finish_layout(l);
  auto impl = std::make_shared<Impl>(l, context.memory());
  fill_dense_panels<float>(context, *impl, [&](Index r, std::vector<float>& out) {
    for (Index k = 0; k < source.cols(); ++k) out[static_cast<std::size_t>(k)] = source(r, k);
  });
  PackedMatrix packed;
  packed.impl_ = std::move(impl);
  return packed;
}

Index PackedMatrix<cpu::Backend>::rows() const noexcept { return impl_ ? impl_->layout.rows : 0; }
Index PackedMatrix<cpu::Backend>::cols() const noexcept { return impl_ ? impl_->layout.cols : 0; }
std::size_t PackedMatrix<cpu::Backend>::bytes() const noexcept { return impl_ ? impl_->bytes : 0; }

void PackedMatrix<cpu::Backend>::unpack_row(Index row, std::span<float> out) const {
  NIBBLE_EXPECTS(row >= 0 && row < rows(), "row " + std::to_string(row) + " of a packed matrix with " +
                                               std::to_string(rows()) + " rows");
  NIBBLE_EXPECTS(static_cast<Index>(out.size()) == cols(), "unpacking a row of " + std::to_string(cols()) +
                                                               " weights into " + std::to_string(out.size()));
  const std::uint8_t* panel = impl_->panel(row / panel_rows);
  if (impl_->has_codes()) unpack_codes(impl_->layout, panel, row % panel_rows, out);
  else unpack_dense(impl_->layout, panel, row % panel_rows, out);
}

}  // namespace nibble
