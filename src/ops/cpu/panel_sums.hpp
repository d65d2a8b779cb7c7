// SPDX-License-Identifier: MIT
// Products of one or two panels of packed weights with rows of a linear region's input. Every output is summed
// over K in ascending order by the same instructions, so that a row's bits depend on its path alone. Of the four
// paths over the same panels, the two that multiply codes give the same bits:
//   exact or dense   panels as floats, FP32 FMA chains (many rows with dense weights in the fast mode: oneDNN)
//   fast, few rows   codes straight from the panel: the weights are read once for up to four rows
//   fast, more       panels are widened to bytes once per block of rows, then a register tile
//   fast, many       several panels are rounded to BF16 a few chunks at a time, then tiles of AMX
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

/// Sums of rows [row, row + rows): a[i * a_stride + c] is row i, output c of w's panel, b of up's.
struct PanelSums {
  float* a;
  Index a_stride;
  float* b;  ///< null without up
  Index b_stride;
  Index row, rows;
};
using PanelReady = FunctionRef<void(Index panel, const PanelSums&)>;

struct PanelRange {
  Index first, end;
};
struct RowRange {
  Index first, end;
};

/// Panels of rounded products in one call at most; half where up's are beside them.
inline constexpr Index most_together = 16;

/// Calls done with the sums of rows [rows.first, rows.end), piece by piece, of every panel of w, and of up's of the
/// same number unless up is null. The first row is the first of a tile where products are rounded. `in` has what the
/// weights' paths read; both weights have the same shape. `together` panels share a reading of rounded activations.
void panel_sums(Context& context, const InputRows& in, const PackedImpl& w, const PackedImpl* up, PanelRange panels,
                RowRange rows, Index together, Index worker, PanelReady done);

/// What reading so many rounded activations takes, in units of a panel's product with them: nothing from a free L2 of
/// 2 MiB, as much again from L3. Measured.
double reread_cost(Index rows, Index cols) noexcept;

/// Whether panel_sums would use register tiles for so many rows of a weight's codes: pairs of panels and large tasks
/// then pay.
bool uses_tiles(const Context& context, const InputRows& in, const PackedImpl& w, Index rows) noexcept;

}  // namespace nibble::cpu_ops
