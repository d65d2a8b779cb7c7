// SPDX-License-Identifier: MIT
// WeightSource: what a model is loaded from, be it a GGUF file or tensors in memory. The loader asks by name,
// packs what it gets and tells the source when it is done with it, so that a file's pages can go as the
// packed copy grows. Shapes are row-major here: a matrix is [rows(out), cols(in)], the last dimension
// contiguous.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/format/quantized_tensor.hpp"
#include "nibble/core/view.hpp"
#include "nibble/io/gguf.hpp"
#include "nibble/io/gguf_types.hpp"
#include "nibble/io/metadata.hpp"

namespace nibble {

/// A tensor as it is stored: a view into its source.
struct StoredTensor {
  std::string_view name;
  std::array<Index, 4> dims{1, 1, 1, 1};  ///< row-major: dims[rank - 1] is contiguous
  std::size_t rank = 0;
  const GgufTypeInfo* type = nullptr;  ///< never null in a tensor that a source returned
  std::span<const std::byte> bytes;    ///< blocks row by row; maybe unaligned when the source's bytes are

  std::uint32_t gguf_type() const noexcept { return type->id; }
  std::span<const Index> shape() const noexcept { return {dims.data(), rank}; }
  /// A tensor of any rank seen as a matrix: all but the last dimension, and the last.
  Index rows() const noexcept { return rank < 2 ? 1 : elements_before(rank - 1); }
  Index cols() const noexcept { return rank == 0 ? 1 : dims[rank - 1]; }
  Index elements() const noexcept { return elements_before(rank); }

 private:
  Index elements_before(std::size_t end) const noexcept {
    Index n = 1;
    for (std::size_t d = 0; d < end; ++d) n *= dims[d];
    return n;
  }
};

/// Bytes that `rows` rows of `cols` elements take; throws Error{malformed} on overflow or a partial block.
NIBBLE_API std::uint64_t stored_bytes(const GgufTypeInfo& type, std::span<const Index> dims);

/// Thread safety: const functions and release() may be called from any number of threads.
class NIBBLE_API WeightSource {
 public:
  virtual ~WeightSource();
  /// The tensor of this name; empty when there is none.
  virtual std::optional<StoredTensor> find(std::string_view name) const = 0;
  /// The same matrix in a form that no file type names, integer groups of any QuantSpec: it is used instead of
  /// find()'s bytes and must have their shape. Empty for all other tensors.
  virtual std::optional<QuantizedView> quantized(std::string_view /*name*/) const { return std::nullopt; }
  /// All names, in the order they are stored. Valid as long as the source.
  virtual std::vector<std::string_view> names() const = 0;
  /// Hyper-parameters and vocabulary; empty for a source that has none.
  virtual const Metadata& metadata() const = 0;
  /// What messages call the source: a path.
  virtual const std::string& name() const = 0;
  /// The caller is done with a tensor's bytes for now; they stay readable.
  virtual void release(std::string_view /*name*/) const noexcept {}
  /// The same for a part of a tensor's bytes.
  virtual void release_part(std::span<const std::byte> /*part*/) const noexcept {}

  /// find(), but an absent tensor is Error{malformed} naming source and tensor.
  StoredTensor require(std::string_view name) const;
};

/// The tensors of a GGUF file, under the file's own names.
class NIBBLE_API GgufWeightSource final : public WeightSource {
 public:
  explicit GgufWeightSource(GgufFile file) : file_(std::move(file)) {}
  static GgufWeightSource open(const std::filesystem::path& path, const GgufOpenOptions& options = {}) {
    return GgufWeightSource(GgufFile::open(path, options));
  }

  std::optional<StoredTensor> find(std::string_view name) const override;
  std::vector<std::string_view> names() const override;
  const Metadata& metadata() const override { return file_.metadata(); }
  const std::string& name() const override { return file_.name(); }
  void release(std::string_view name) const noexcept override;
  void release_part(std::span<const std::byte> part) const noexcept override;
  const GgufFile& file() const noexcept { return file_; }

 private:
  GgufFile file_;
};

/// Tensors the user holds or hands over. Names and shapes are copied, borrowed bytes are not.
class NIBBLE_API MemoryWeightSource final : public WeightSource {
 public:
  explicit MemoryWeightSource(std::string name = "memory", Metadata metadata = {})
      : name_(std::move(name)), metadata_(std::move(metadata)) {}

  /// Borrows `bytes` (blocks of `type`, row by row), which must outlive the source. Throws
  /// Error{invalid_argument} on an unknown type, a wrong byte count, more than 4 dimensions or a name in use.
  void add(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
           std::span<const std::byte> bytes);
  /// Borrows float data.
  void add(std::string name, std::span<const Index> dims, std::span<const float> values);
  /// Takes the bytes over.
  void add_owned(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                 std::vector<std::byte> bytes);

  std::optional<StoredTensor> find(std::string_view name) const override;
  std::vector<std::string_view> names() const override;
  const Metadata& metadata() const override { return metadata_; }
  const std::string& name() const override { return name_; }

 private:
  std::string name_;
  Metadata metadata_;
  std::map<std::string, StoredTensor, std::less<>> by_name_;
  std::vector<std::string_view> order_;
  std::deque<std::vector<std::byte>> owned_;
};

}  // namespace nibble
