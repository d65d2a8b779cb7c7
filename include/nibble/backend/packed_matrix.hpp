// SPDX-License-Identifier: MIT
// PackedMatrix: the third stage of a weight. The layout belongs to the kernels that read it and is never
// a file format; `unpack_row` gives the exact dequantized values back, which tests hold it to.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "nibble/backend/cpu.hpp"
#include "nibble/backend/pack_options.hpp"
#include "nibble/core/export.hpp"
#include "nibble/format/quantized_tensor.hpp"

namespace nibble {

/// Immutable, shareable between threads. Holds [rows(out), cols(in)] weights.
template <>
class NIBBLE_API PackedMatrix<cpu::Backend> {
 public:
  PackedMatrix() = default;
  /// Called on the packing thread when rows [first, end) have been read, in ascending order, so that a source may let
  /// go of their pages; they must stay readable, since a matrix whose scales do not fit FP16, and one that is looked at
  /// for pruned weights, is read a second time.
  using RowsRead = std::function<void(Index first, Index end)>;
  /// Packs any quantized or dense matrix; the source may be released afterwards. Work is split over
  /// `context`'s executor. Throws Error{unsupported} for a format no kernel reads.
  static PackedMatrix pack(ExecutionContext<cpu::Backend>& context, const QuantizedView& source,
                           const RowsRead& rows_read = {});
  /// The same with options. Throws Error{unsupported} also where `options` name a sparse packing that the format does
  /// not allow; `automatic` then keeps the matrix dense.
  static PackedMatrix pack(ExecutionContext<cpu::Backend>& context, const QuantizedView& source,
                           const PackOptions& options, const RowsRead& rows_read = {});
  /// Packs FP32 weights as they are.
  static PackedMatrix pack(ExecutionContext<cpu::Backend>& context, MatrixView<const float> source);

  bool empty() const noexcept { return impl_ == nullptr; }
  Index rows() const noexcept;
  Index cols() const noexcept;
  /// Bytes of the packed layout.
  std::size_t bytes() const noexcept;
  /// Bytes a decode step must read: `bytes()` without padding kept for alignment.
  std::size_t traffic_bytes() const noexcept;
  /// How pruned weights are kept.
  PackedSparsity sparsity() const noexcept;
  /// The exact FP32 values of one row, out[cols].
  void unpack_row(Index row, std::span<float> out) const;

  struct Impl;  // src/cpu
  const Impl* impl() const noexcept { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace nibble
