// SPDX-License-Identifier: MIT
// Packing without pruned weights (cpu/sparse_layout.hpp): from dense panels made one at a time, and back.
#pragma once

#include "cpu/packed_impl.hpp"
#include "nibble/core/function_ref.hpp"

namespace nibble::cpu {

/// Told of each dense panel, on several threads.
using PanelVisitor = FunctionRef<void(Index panel, const std::uint8_t* dense)>;
/// Makes every panel and shows it; false, and not all are shown, where numbers do not fit the layout.
using EachPanel = FunctionRef<bool(PanelVisitor)>;

/// `wanted`, or dense where `automatic` meets codes that no sparse packing holds. Throws Error{unsupported} where a
/// packing is named that does not hold them.
SparsePacking allowed_packing(const QuantizedView& source, const PackedLayout& l, SparsePacking wanted);
/// Throws Error{unsupported} where options name a sparse packing of a matrix that is kept as numbers.
void require_dense(const QuantizedView& source, const PackOptions& options);

/// Packs what `each` shows, which is asked twice. nullptr where dense panels are better, or where `each` failed.
std::shared_ptr<const PackedMatrix<Backend>::Impl> pack_sparse(ExecutionContext<Backend>& context,
                                                               const PackedLayout& l, const PackOptions& options,
                                                               EachPanel each);

/// A panel in blocks, taken apart.
struct BlockPanel {
  Index count;                    ///< chunks stored
  const std::uint32_t* chunks;    ///< their indices
  const std::uint8_t* records;
  explicit BlockPanel(const std::uint8_t* panel) noexcept;
};
/// The dense panel, out[dense.panel_bytes], of one in blocks; `stored` is the layout of its records.
void expand_blocks(const PackedLayout& stored, const PackedLayout& dense, const std::uint8_t* panel,
                   std::uint8_t* out);
/// One row back as floats, out[cols].
void unpack_bitmap(const PackedLayout& l, const std::uint8_t* panel, Index row, std::span<float> out);
void unpack_blocks(const PackedLayout& stored, const std::uint8_t* panel, Index row, std::span<float> out);

}  // namespace nibble::cpu
