// SPDX-License-Identifier: MIT
// Packing of coded matrices: which layout holds one exactly, and filling it.
#pragma once

#include <algorithm>

#include "cpu/packed_impl.hpp"

namespace nibble::cpu {

/// Panels [first, end) at a time, a few MiB of source each.
template <class Body>
void for_panel_slabs(const PackedLayout& l, const QuantizedView& source,
                     const PackedMatrix<Backend>::RowsRead& rows_read, Body&& body) {
  constexpr Index slab_bytes = Index{8} << 20;
  const Index step = std::max<Index>(1, slab_bytes / std::max<Index>(1, source.row_bytes() * panel_rows));
  for (Index first = 0; first < l.panels; first += step) {
    const Index end = std::min(l.panels, first + step);
    body(first, end);
    if (rows_read) rows_read(first * panel_rows, std::min(l.rows, end * panel_rows));
  }
}

/// Everything that follows from shape, bits, sets, chunks per record and the kinds of parameters.
void finish_layout(PackedLayout& l);
/// An empty layout of the right number of panels and chunks.
PackedLayout shape_layout(Index rows, Index cols);
/// Packs `source` as codes, or returns nullptr where codes cannot hold it exactly (real-valued codebooks, groups
/// that are no multiple of 16).
std::shared_ptr<const PackedMatrix<Backend>::Impl> pack_codes(ExecutionContext<Backend>& context,
                                                              const QuantizedView& source, const PackOptions& options,
                                                              const PackedMatrix<Backend>::RowsRead& rows_read);
/// One row back as floats, out[cols].
void unpack_codes(const PackedLayout& l, const std::uint8_t* panel, Index row, std::span<float> out);

}  // namespace nibble::cpu
