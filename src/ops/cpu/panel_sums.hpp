// SPDX-License-Identifier: MIT
// Products of one or two panels of packed weights with rows of a linear region's input. Every output is summed
// over K in ascending order by the same instructions, so that a row's bits depend on its path alone. Of the four
// paths over the same panels, the two that multiply codes give the same bits:
//   exact or dense   panels as floats, FP32 FMA chains (many rows with dense weights in the fast mode: oneDNN)
//   fast, few rows   codes straight from the panel: the weights are read once for up to four rows
//   fast, more       panels are widened to bytes once per block of rows, then a register tile
//   fast, many       panels are rounded to BF16 a few chunks at a time, then tiles of AMX
// A bitmap panel is read as it is by few rows where a kernel can, else expanded into scratch before its path. Of one
// in blocks the integer paths see the chunks that are there, with the activations of these; the others expand it.
#pragma once

#include "cpu/packed_impl.hpp"
#include "nibble/core/function_ref.hpp"
#include "ops/cpu/linear_input.hpp"

namespace nibble::cpu_ops {

using PackedImpl = PackedMatrix<cpu::Backend>::Impl;

/// How a weight is multiplied with a region's rows.
enum class ProductPath {
  floats,   ///< FP32: exact or dense
  codes,    ///< with INT8 activations
  rounded,  ///< as BF16: codes, and dense BF16
};
ProductPath path_of(const Context& context, const PackedImpl& w, Index rows, bool refined) noexcept;

struct PanelRef {
  const PackedImpl* w = nullptr;  ///< null: no panel
  Index index = 0;
};

/// Sums of rows [row, row + rows): a[i * a_stride + c] is row i, output c of the first panel, b of the second.
struct PanelSums {
  float* a;
  Index a_stride;
  float* b;  ///< null without a second panel
  Index b_stride;
  Index row, rows;
};
using SumsReady = FunctionRef<void(const PanelSums&)>;

/// Calls done with the sums of rows [first, end), in ascending pieces. `in` has what the weights' paths read. Both
/// panels have the same columns.
void panel_sums(Context& context, const InputRows& in, PanelRef a, PanelRef b, Index first, Index end,
                Index worker, SumsReady done);

/// Whether panel_sums would use register tiles for so many rows of a weight's codes: pairs of panels and large tasks
/// then pay.
bool uses_tiles(const Context& context, const InputRows& in, const PackedImpl& w, Index rows) noexcept;

}  // namespace nibble::cpu_ops
