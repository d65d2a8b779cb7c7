// SPDX-License-Identifier: MIT
// GgufWriter: a GGUF version 3 file from metadata and tensors. Tensor bytes are either borrowed or asked for
// when their turn comes, so a model far larger than memory can be written; the file appears whole or not at
// all, and may replace the very file its tensors are mapped from.
//
//   GgufWriter writer;
//   writer.metadata().copy(source.metadata());
//   for (auto name : source.names()) writer.add_tensor(source.require(name));
//   writer.write("copy.gguf");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/log.hpp"
#include "nibble/core/view.hpp"
#include "nibble/io/atomic_file.hpp"
#include "nibble/io/byte_sink.hpp"
#include "nibble/io/gguf_types.hpp"
#include "nibble/io/metadata_builder.hpp"
#include "nibble/io/weight_source.hpp"

namespace nibble {

struct GgufWriteOptions {
  std::stop_token stop;      ///< asked before every tensor and every piece of one: Error{cancelled}
  Progress progress;         ///< (bytes done, bytes in all, tensor name)
  FileOps* files = nullptr;  ///< null = the operating system
};

/// Name, shape and type of a tensor to be written. `dims` is row-major, as everywhere but in the file.
struct GgufTensorPlan {
  std::string name;
  std::array<Index, 4> dims{1, 1, 1, 1};
  std::size_t rank = 0;
  const GgufTypeInfo* type = nullptr;
  std::uint64_t bytes = 0;
};

/// The tensors of a file to be written and where everything goes.
class NIBBLE_API GgufLayout {
 public:
  /// Throws Error{invalid_argument} on a name that is empty, in use, not UTF-8 or over 63 bytes (the most
  /// that other readers take), an unknown type, more than 4 dimensions, or rows that are no whole number of
  /// blocks.
  void add(std::string name, std::span<const Index> dims, std::uint32_t gguf_type);
  std::span<const GgufTensorPlan> tensors() const noexcept { return tensors_; }
  /// Everything before the first tensor's data. The data alignment is the key general.alignment, else 32.
  std::vector<std::byte> header(const MetadataBuilder& metadata) const;
  std::uint64_t data_bytes(std::uint64_t alignment) const;
  static std::uint32_t alignment(const MetadataBuilder& metadata);

 private:
  std::vector<GgufTensorPlan> tensors_;
  std::unordered_set<std::string> names_;
};

/// Not thread-safe while being filled; write() is const and may be repeated if the producers can be.
class NIBBLE_API GgufWriter {
 public:
  /// Writes exactly the tensor's bytes, in any number of pieces.
  using Producer = std::function<void(ByteSink&)>;

  MetadataBuilder& metadata() noexcept { return metadata_; }
  const MetadataBuilder& metadata() const noexcept { return metadata_; }

  /// A tensor whose bytes (blocks, row by row) stay valid until write() is done.
  /// Errors: those of GgufLayout::add, and Error{invalid_argument} when the byte count is not the shape's.
  void add_tensor(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                  std::span<const std::byte> bytes);
  /// A copy of a tensor of some source, which must live until write() is done.
  void add_tensor(const StoredTensor& tensor);
  /// A tensor made when its turn comes; tensors are written in the order they were added.
  void add_tensor(std::string name, std::span<const Index> dims, std::uint32_t gguf_type, Producer producer);

  std::span<const GgufTensorPlan> tensors() const noexcept { return layout_.tensors(); }
  /// The exact size of the file.
  std::uint64_t file_bytes() const;

  /// Writes the file atomically. Errors: io, cancelled, internal (a producer gave a wrong number of bytes),
  /// and whatever a producer throws; the target is then as it was.
  void write(const std::filesystem::path& path, const GgufWriteOptions& options = {}) const;
  /// The same into any sink; `options.files` is not used.
  void write(ByteSink& sink, const GgufWriteOptions& options = {}) const;

 private:
  MetadataBuilder metadata_;
  GgufLayout layout_;
  std::vector<Producer> producers_;
};

}  // namespace nibble
