// SPDX-License-Identifier: MIT
// One parallel region of matrix products: one input, one or more weights, an epilogue on each tile of sums
// while it is in L1, and possibly one on whole rows.
#pragma once

#include "nibble/ops/linear.hpp"
#include "ops/cpu/panel_sums.hpp"

namespace nibble::cpu_ops {

/// One product of a region and where it goes.
struct RegionOutput {
  const PackedImpl* w = nullptr;
  MatrixView<float> y{};
  const float* bias = nullptr;
  bool add = false;  ///< y += t (+ bias)
  // A gated output, y = gate(w x + bias) * (up x + up_bias):
  const PackedImpl* up = nullptr;
  const float* up_bias = nullptr;
  cpu::BinaryFn gate = nullptr;
  // Where the result goes instead of to y:
  const cpu::QuantizedRows* quantized = nullptr;  ///< as INT8 groups
  const cpu::RoundedRows* rounded = nullptr;      ///< as BF16 tiles
};

/// What happens to a row when all its outputs are stored; empty where nothing does. For few rows it is done by
/// whoever ends the last task, for many in a region of its own, where all can take part.
struct RowEpilogue {
  const epilogue::Normed* normed = nullptr;
  MatrixView<float> sums{};  ///< rows as the products stored them
  MatrixView<float> y{};     ///< may be `sums`
};

/// What a region's weights want of its input.
InputNeeds needs_of(const Context& context, std::span<const RegionOutput> outputs, Index rows, bool refined);

/// Runs the region and reports it to the trace as one span "linear".
void run_region(Context& context, LinearInput& input, std::span<const RegionOutput> outputs,
                const RowEpilogue& rows = {});

}  // namespace nibble::cpu_ops
