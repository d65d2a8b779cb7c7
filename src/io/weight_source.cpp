// SPDX-License-Identifier: MIT
// GGUF files and memory as weight sources: ne order turned to row-major, shapes checked against bytes.
#include "nibble/io/weight_source.hpp"

#include "io/byte_cursor.hpp"
#include "nibble/core/checked.hpp"

namespace nibble {

WeightSource::~WeightSource() = default;

StoredTensor WeightSource::require(std::string_view tensor) const {
  if (auto found = find(tensor)) return *found;
  throw Error(Errc::malformed, name() + ": tensor '" + printable(tensor) + "' is missing");
}

std::uint64_t stored_bytes(const GgufTypeInfo& type, std::span<const Index> dims) {
  std::uint64_t product = 1;  // of the non-zero dimensions, so that a zero hides no overflow
  bool empty = false;
  for (const Index n : dims) {
    if (n < 0) throw Error(Errc::malformed, "a dimension is " + std::to_string(n));
    if (n == 0) empty = true;
    else product = checked::mul(product, static_cast<std::uint64_t>(n), "the number of elements");
  }
  const Index cols = dims.empty() ? 1 : dims.back();
  if (cols % static_cast<Index>(type.block_size) != 0)
    throw Error(Errc::malformed, "rows of " + std::to_string(cols) + " elements are no multiple of " +
                                     std::string(type.name) + "'s block of " +
                                     std::to_string(type.block_size));
  checked::cast<Index>(product, "the number of elements");
  const std::uint64_t bytes =
      checked::mul(product / type.block_size, std::uint64_t{type.block_bytes}, "the size of a tensor");
  return empty ? 0 : bytes;
}

// --- GGUF ------------------------------------------------------------------------------------------------

std::optional<StoredTensor> GgufWeightSource::find(std::string_view tensor) const {
  const GgufTensor* found = file_.find_tensor(tensor);
  if (!found) return std::nullopt;
  StoredTensor result;
  result.name = found->name;
  result.rank = static_cast<std::size_t>(found->rank);
  for (std::size_t d = 0; d < result.rank; ++d) result.dims[d] = found->ne[result.rank - 1 - d];
  result.type = found->type;
  result.bytes = found->bytes;
  return result;
}

std::vector<std::string_view> GgufWeightSource::names() const {
  std::vector<std::string_view> result;
  result.reserve(file_.tensors().size());
  for (const GgufTensor& tensor : file_.tensors()) result.push_back(tensor.name);
  return result;
}

void GgufWeightSource::release(std::string_view tensor) const noexcept {
  if (const GgufTensor* found = file_.find_tensor(tensor)) file_.file().release(found->bytes);
}

void GgufWeightSource::release_part(std::span<const std::byte> part) const noexcept { file_.file().release(part); }

// --- memory ----------------------------------------------------------------------------------------------

void MemoryWeightSource::add(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                             std::span<const std::byte> bytes) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, name_ + ": tensor '" + printable(name) + "': " + why);
  };
  StoredTensor tensor;
  tensor.type = find_gguf_type(gguf_type);
  if (!tensor.type) refuse("type " + std::to_string(gguf_type) + " is unknown");
  if (dims.size() > tensor.dims.size())
    refuse(std::to_string(dims.size()) + " dimensions, at most 4 are allowed");
  if (by_name_.contains(name)) refuse("the name is in use");
  const auto due = try_invoke([&] { return stored_bytes(*tensor.type, dims); });
  if (!due) refuse(due.error().what());
  if (bytes.size() != *due)
    refuse("has " + std::to_string(bytes.size()) + " bytes, its shape needs " + std::to_string(*due));
  tensor.rank = dims.size();
  for (std::size_t d = 0; d < dims.size(); ++d) tensor.dims[d] = dims[d];
  tensor.bytes = bytes;
  const auto at = by_name_.emplace(std::move(name), tensor).first;
  at->second.name = at->first;
  order_.push_back(at->first);
}

void MemoryWeightSource::add(std::string name, std::span<const Index> dims, std::span<const float> values) {
  add(std::move(name), dims, 0, std::as_bytes(values));
}

void MemoryWeightSource::add_owned(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                                   std::vector<std::byte> bytes) {
  add(std::move(name), dims, gguf_type, std::span<const std::byte>(bytes));
  owned_.push_back(std::move(bytes));  // the heap block, hence the view, stays where it is
}

std::optional<StoredTensor> MemoryWeightSource::find(std::string_view tensor) const {
  const auto at = by_name_.find(tensor);
  return at == by_name_.end() ? std::nullopt : std::optional<StoredTensor>(at->second);
}

std::vector<std::string_view> MemoryWeightSource::names() const { return order_; }

}  // namespace nibble
