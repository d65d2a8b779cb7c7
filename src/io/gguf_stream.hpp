// SPDX-License-Identifier: MIT
// GgufStream: the tensor data of one GGUF file, tensor after tensor, counted and padded. Shared by
// GgufWriter, which pulls its tensors from callbacks, and GgufWeightSink, into which they are pushed.
#pragma once

#include <cstdint>
#include <span>

#include "nibble/io/gguf_writer.hpp"

namespace nibble {

class GgufStream final : public ByteSink {
 public:
  /// Writes the header. All arguments must outlive the stream.
  GgufStream(const GgufLayout& layout, const MetadataBuilder& metadata, ByteSink& sink,
             const GgufWriteOptions& options);

  /// The tensor whose bytes are due; null after the last.
  const GgufTensorPlan* current() const noexcept;
  /// Bytes of the current tensor so far.
  std::uint64_t in_tensor() const noexcept { return in_tensor_; }
  /// Appends to the current tensor.
  void write(std::span<const std::byte> bytes) override;
  /// Pads the current tensor, which must be complete, and moves on.
  void end_tensor();

 private:
  const GgufLayout& layout_;
  ByteSink& sink_;
  const GgufWriteOptions& options_;
  std::uint64_t alignment_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;  // bytes of the data section
  std::uint64_t in_tensor_ = 0;
  std::size_t at_ = 0;
};

}  // namespace nibble
