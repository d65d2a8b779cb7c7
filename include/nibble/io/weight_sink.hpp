// SPDX-License-Identifier: MIT
// WeightSink: where a quantized model goes, tensor by tensor, be it a GGUF file or memory. The counterpart of
// WeightSource: whoever makes the weights does not know what becomes of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/io/gguf_writer.hpp"
#include "nibble/io/metadata_builder.hpp"
#include "nibble/io/weight_source.hpp"

namespace nibble {

/// Not thread-safe. Order: declare() every tensor, put() their bytes in that order, finish().
class NIBBLE_API WeightSink {
 public:
  virtual ~WeightSink();
  /// Announces a tensor: row-major dims, GGUF type. Throws Error{invalid_argument} as GgufLayout::add does.
  virtual void declare(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) = 0;
  /// The next bytes of a tensor, which may come in any number of pieces (rows as they are made).
  /// Throws Error{invalid_argument} when it is not this tensor's turn or the bytes are more than its shape's.
  virtual void put(std::string_view name, std::span<const std::byte> bytes) = 0;
  /// Completes the model. Throws Error{invalid_argument} naming a tensor whose bytes are still due.
  virtual void finish() = 0;
};

/// Writes a GGUF file; it appears at finish(), or never.
class NIBBLE_API GgufWeightSink final : public WeightSink {
 public:
  GgufWeightSink(const std::filesystem::path& path, MetadataBuilder metadata, GgufWriteOptions options = {});
  ~GgufWeightSink() override;
  void declare(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) override;
  void put(std::string_view name, std::span<const std::byte> bytes) override;
  void finish() override;

 private:
  struct State;  // addresses inside are shared, so the whole stays in one place
  std::unique_ptr<State> state_;
};

/// Keeps the tensors, to be run or measured without a file.
class NIBBLE_API MemoryWeightSink final : public WeightSink {
 public:
  explicit MemoryWeightSink(const MetadataBuilder& metadata = {}) : metadata_(metadata.build()) {}
  void declare(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) override;
  void put(std::string_view name, std::span<const std::byte> bytes) override;
  void finish() override;
  /// The model, after finish(); once.
  MemoryWeightSource take();

 private:
  Metadata metadata_;
  GgufLayout layout_;
  std::vector<std::vector<std::byte>> bytes_;
  bool finished_ = false;
};

}  // namespace nibble
