// SPDX-License-Identifier: MIT
// Packing of coded matrices: which layout holds one exactly, and filling it.
#pragma once

#include "cpu/packed_impl.hpp"

namespace nibble::cpu {

/// An empty layout of the right number of panels and chunks.
PackedLayout shape_layout(Index rows, Index cols);
/// Packs `source` as codes, or returns nullptr where codes cannot hold it exactly (real-valued codebooks, groups
/// that are no multiple of 16).
std::shared_ptr<const PackedMatrix<Backend>::Impl> pack_codes(ExecutionContext<Backend>& context,
                                                              const QuantizedView& source);
/// One row back as floats, out[cols].
void unpack_codes(const PackedLayout& l, const std::uint8_t* panel, Index row, std::span<float> out);

}  // namespace nibble::cpu
