// SPDX-License-Identifier: MIT
// Packing: any quantized or dense matrix into panels (cpu/packed_layout.hpp), and rows back out of them. A
// matrix that codes cannot hold exactly is kept as FP32.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/pack_codes.hpp"
#include "cpu/pack_sparse.hpp"
#include "cpu/page_arena.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/core/parallel.hpp"

namespace nibble {

using cpu::huge_page;
using cpu::PackedLayout;
using cpu::panel_rows;
using cpu::PanelKind;

namespace {

void finish_dense(PackedLayout& l) {
  l.panel_bytes = checked::mul(l.cols, panel_rows * (l.kind == PanelKind::f32 ? 4 : 2), "packed bytes");
}

/// `row_of(row, out)` gives a row's numbers as they are stored.
template <class T, class RowOf>
void fill_dense_panels(ExecutionContext<cpu::Backend>& context, PackedMatrix<cpu::Backend>::Impl& impl,
                       Index first, Index last, RowOf&& row_of) {
  const PackedLayout& l = impl.layout;
  parallel_for(context.executor(), last - first, 4, [&](Index begin, Index end, Index) {
    std::vector<T> row(static_cast<std::size_t>(l.cols));
    for (Index p = first + begin; p < first + end; ++p) {
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

using Impl = PackedMatrix<cpu::Backend>::Impl;

std::shared_ptr<const Impl> pack_dense(ExecutionContext<cpu::Backend>& context, const QuantizedView& v,
                                       const PackOptions& options,
                                       const PackedMatrix<cpu::Backend>::RowsRead& rows_read) {
  PackedLayout l = cpu::shape_layout(v.rows(), v.cols());
  l.kind = dense_kind(v);
  finish_dense(l);
  auto impl = std::make_shared<Impl>(l, context, options);
  cpu::for_panel_slabs(l, v, rows_read, [&](Index first, Index end) {
    if (l.kind == PanelKind::f32)
      fill_dense_panels<float>(context, *impl, first, end,
                               [&](Index r, std::vector<float>& out) { v.decode_row(r, out); });
    else
      fill_dense_panels<std::uint16_t>(context, *impl, first, end, [&](Index r, std::vector<std::uint16_t>& out) {
        std::memcpy(out.data(), v.row_data(r), out.size() * 2);
      });
  });
  return impl;
}

float read_half(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half::from_bits(bits);
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

PackedMatrix<cpu::Backend>::Impl::Impl(const PackedLayout& l, const ExecutionContext<cpu::Backend>& context,
                                       const PackOptions& options)
    : Impl(l, context, options,
           static_cast<std::size_t>(checked::mul(l.panels, l.panel_bytes, "packed bytes"))) {}

PackedMatrix<cpu::Backend>::Impl::Impl(const PackedLayout& l, const ExecutionContext<cpu::Backend>& context,
                                       const PackOptions& options, std::size_t panel_bytes)
    : layout(l),
      memory(options.memory != nullptr ? options.memory : context.memory()),
      bytes(panel_bytes),
      used(panel_bytes) {
  if (bytes == 0) return;
  const bool own_pages = options.memory == nullptr && bytes >= 2 * huge_page;
  if (own_pages) {  // large pages are worth 10 to 30 % of the read rate
    alignment = huge_page;
    bytes = checked::round_up(bytes, huge_page, "packed bytes");
  }
  data = static_cast<std::uint8_t*>(memory->allocate(bytes, alignment));
  if (own_pages) cpu::wish_huge_pages(data, bytes);
}

PackedMatrix<cpu::Backend>::Impl::~Impl() {
  if (data != nullptr) memory->deallocate(data, bytes, alignment);
}

PackedMatrix<cpu::Backend> PackedMatrix<cpu::Backend>::pack(ExecutionContext<cpu::Backend>& context,
                                                            const QuantizedView& source,
                                                            const RowsRead& rows_read) {
  return pack(context, source, PackOptions{}, rows_read);
}

PackedMatrix<cpu::Backend> PackedMatrix<cpu::Backend>::pack(ExecutionContext<cpu::Backend>& context,
                                                            const QuantizedView& source, const PackOptions& options,
                                                            const RowsRead& rows_read) {
  PackedMatrix packed;
  if (!source.dense()) packed.impl_ = cpu::pack_codes(context, source, options, rows_read);
  if (packed.impl_ == nullptr) cpu::require_dense(source, options);
  if (packed.impl_ == nullptr) packed.impl_ = pack_dense(context, source, options, rows_read);
  return packed;
}

PackedMatrix<cpu::Backend> PackedMatrix<cpu::Backend>::pack(ExecutionContext<cpu::Backend>& context,
                                                            MatrixView<const float> source) {
  PackedLayout l = cpu::shape_layout(source.rows(), source.cols());
  finish_dense(l);
  auto impl = std::make_shared<Impl>(l, context, PackOptions{});
  fill_dense_panels<float>(context, *impl, 0, l.panels, [&](Index r, std::vector<float>& out) {
    for (Index k = 0; k < source.cols(); ++k) out[static_cast<std::size_t>(k)] = source(r, k);
  });
  PackedMatrix packed;
  packed.impl_ = std::move(impl);
  return packed;
}

Index PackedMatrix<cpu::Backend>::rows() const noexcept { return impl_ ? impl_->layout.rows : 0; }
Index PackedMatrix<cpu::Backend>::cols() const noexcept { return impl_ ? impl_->layout.cols : 0; }
std::size_t PackedMatrix<cpu::Backend>::bytes() const noexcept {
  return impl_ ? impl_->bytes + impl_->starts.size() * sizeof(impl_->starts[0]) : 0;
}
std::size_t PackedMatrix<cpu::Backend>::traffic_bytes() const noexcept { return impl_ ? impl_->used : 0; }
PackedSparsity PackedMatrix<cpu::Backend>::sparsity() const noexcept {
  return impl_ ? impl_->sparsity : PackedSparsity{};
}

void PackedMatrix<cpu::Backend>::unpack_row(Index row, std::span<float> out) const {
  NIBBLE_EXPECTS(row >= 0 && row < rows(), "row " + std::to_string(row) + " of a packed matrix with " +
                                               std::to_string(rows()) + " rows");
  NIBBLE_EXPECTS(static_cast<Index>(out.size()) == cols(), "unpacking a row of " + std::to_string(cols()) +
                                                               " weights into " + std::to_string(out.size()));
  const std::uint8_t* panel = impl_->panel(row / panel_rows);
  if (impl_->bitmap()) cpu::unpack_bitmap(impl_->layout, panel, row % panel_rows, out);
  else if (impl_->blocks()) cpu::unpack_blocks(impl_->block_layout, panel, row % panel_rows, out);
  else if (impl_->has_codes()) cpu::unpack_codes(impl_->layout, panel, row % panel_rows, out);
  else unpack_dense(impl_->layout, panel, row % panel_rows, out);
}

}  // namespace nibble
