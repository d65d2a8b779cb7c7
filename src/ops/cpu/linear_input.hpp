// SPDX-License-Identifier: MIT
// The input of a linear region as its products read it: normalized where the op folds a norm in, as floats
// for exact or dense products, as INT8 groups or BF16 tiles for the others, made once for all weights.
//
// Where that is little work (decode), every worker makes its own copy: a second of two workers would spend
// the same time waiting. Otherwise rows are made in blocks by whoever needs them first. Either way there is
// no barrier between this and the products, and a row's bits depend on the row alone.
#pragma once

#include <array>
#include <span>

#include "nibble/ops/norm.hpp"
#include "ops/cpu/once.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble::cpu_ops {

/// What the products of a region read.
struct InputNeeds {
  bool floats = false;               ///< FP32 rows
  std::array<bool, 2> sums{};        ///< INT8 rows with one ([0]) or two ([1]) sums per group of 32
  bool rounded = false;              ///< BF16 tiles
  bool refined = false;              ///< two INT8 rows per token: the activations, and what they left over
  bool codes() const noexcept { return sums[0] || sums[1]; }
};

/// Rows ready to be read. A refined token t has quantized rows 2t and 2t + 1.
struct InputRows {
  const float* floats = nullptr;
  Index stride = 0;
  Index terms = 1;
  std::array<cpu::QuantizedRows, 2> quantized{};  ///< by sums per group, minus one; codes and scales are shared
  cpu::RoundedRows rounded{};

  const cpu::QuantizedRows& with_sums(Index sets) const noexcept {
    return quantized[static_cast<std::size_t>(sets - 1)];
  }
};

/// Buffers for `rows` rows of quantized activations of `cols` columns.
cpu::QuantizedRows take_quantized(Arena& arena, Index rows, Index cols, Index sets);
/// Tiles for `rows` rows of `cols` columns.
cpu::RoundedRows take_rounded(Arena& arena, Index rows, Index cols);
/// One row through a present norm.
void apply_norm(const cpu::KernelTable& kernels, const FoldedNorm& norm, const float* x, float* y, Index cols);
/// Lengths and strides of a norm's parameters for rows of `cols`.
void check_norm(const char* op, const FoldedNorm& norm, Index cols);

/// Made on the issuing thread inside an ArenaScope of the context, used by the workers of one region.
class LinearInput {
 public:
  LinearInput(Context& context, MatrixView<const float> x, const FoldedNorm& norm, const InputNeeds& needs);
  /// Rows that are quantized already, with `sets` sums per group.
  LinearInput(Context& context, const cpu::QuantizedRows& rows, Index count, Index sets);
  /// Rows that are rounded already.
  LinearInput(Context& context, const cpu::RoundedRows& rows, Index count);
  LinearInput(const LinearInput&) = delete;
  LinearInput& operator=(const LinearInput&) = delete;

  Index rows() const noexcept { return count_; }
  const InputNeeds& needs() const noexcept { return needs_; }
  Index terms() const noexcept { return needs_.refined ? 2 : 1; }
  /// Rows [first, end) are ready in what this returns.
  const InputRows& ready(Index first, Index end, Index worker);

 private:
  struct alignas(64) Copy {
    InputRows rows;
    bool made;
  };
  InputRows take_rows(Arena& arena) const;
  void make_row(Index row, const InputRows& to, float* scratch) const;
  void make_rows(Index first, Index end, Index worker, const InputRows& to) const;

  Context& context_;
  MatrixView<const float> x_{};
  FoldedNorm norm_{};
  InputNeeds needs_{};
  Index count_ = 0, block_rows_ = 0;
  InputRows shared_{};
  OnceBlocks blocks_{};
  std::span<Copy> copies_{};  ///< one per worker where rows are few
};

}  // namespace nibble::cpu_ops
