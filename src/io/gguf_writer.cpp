// SPDX-License-Identifier: MIT
// GGUF encoding: the same order and padding the reader insists on, so that what is written is what is read.
#include "nibble/io/gguf_writer.hpp"

#include <algorithm>
#include <bit>

#include "io/byte_append.hpp"
#include "io/byte_cursor.hpp"
#include "io/gguf_stream.hpp"
#include "nibble/core/checked.hpp"

namespace nibble {

void GgufLayout::add(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "tensor '" + printable(name) + "': " + why);
  };
  constexpr std::size_t longest = 63;
  GgufTensorPlan plan;
  if (name.empty() || name.size() > longest || !is_utf8(name))
    refuse("a name of 1 to 63 bytes of UTF-8 is needed");
  if (dims.size() > plan.dims.size())
    refuse(std::to_string(dims.size()) + " dimensions, at most 4 are allowed");
  plan.type = find_gguf_type(gguf_type);
  if (!plan.type) refuse("type " + std::to_string(gguf_type) + " is unknown");
  const auto bytes = try_invoke([&] { return stored_bytes(*plan.type, dims); });
  if (!bytes) refuse(bytes.error().what());
  plan.bytes = *bytes;
  plan.rank = dims.size();
  std::copy(dims.begin(), dims.end(), plan.dims.begin());
  if (!names_.insert(name).second) refuse("the name is in use");
  plan.name = std::move(name);
  tensors_.push_back(std::move(plan));
}

std::uint32_t GgufLayout::alignment(const MetadataBuilder& metadata) {
  constexpr std::string_view key = "general.alignment";
  constexpr std::uint32_t usual = 32;
  if (!metadata.contains(key)) return usual;
  const Metadata readable = metadata.build("the metadata to be written");
  const MetadataValue* value = readable.find(key);
  const auto alignment = value->type() == MetadataType::u32 ? value->as<std::uint32_t>() : std::nullopt;
  if (!alignment || !std::has_single_bit(*alignment) || *alignment > GgufLimits{}.alignment)
    throw Error(Errc::invalid_argument, "key 'general.alignment': expected a u32 power of two up to " +
                                            std::to_string(GgufLimits{}.alignment) + ", found " +
                                            value->describe());
  return *alignment;
}

std::uint64_t GgufLayout::data_bytes(std::uint64_t alignment) const {
  std::uint64_t total = 0;
  for (const GgufTensorPlan& tensor : tensors_)
    total = checked::round_up(checked::add(total, tensor.bytes, "the file size"), alignment, "the file size");
  return total;
}

std::vector<std::byte> GgufLayout::header(const MetadataBuilder& metadata) const {
  const std::uint64_t align = alignment(metadata);
  data_bytes(align);  // the offsets below cannot overflow if their sum does not
  std::vector<std::byte> out;
  append_number(out, std::uint32_t{0x46554747});  // "GGUF"
  append_number(out, std::uint32_t{3});
  append_number(out, std::uint64_t{tensors_.size()});
  append_number(out, std::uint64_t{metadata.size()});
  metadata.encode(out);
  std::uint64_t offset = 0;
  for (const GgufTensorPlan& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<std::uint32_t>(tensor.rank));
    for (std::size_t d = tensor.rank; d-- > 0;) append_number(out, tensor.dims[d]);
    append_number(out, tensor.type->id);
    append_number(out, offset);
    offset = checked::round_up(offset + tensor.bytes, align);
  }
  out.resize(static_cast<std::size_t>(checked::round_up(std::uint64_t{out.size()}, align)));
  return out;
}

// --- GgufStream ------------------------------------------------------------------------------------------

GgufStream::GgufStream(const GgufLayout& layout, const MetadataBuilder& metadata, ByteSink& sink,
                       const GgufWriteOptions& options)
    : layout_(layout),
      sink_(sink),
      options_(options),
      alignment_(GgufLayout::alignment(metadata)),
      total_(layout.data_bytes(alignment_)) {
  throw_if_stopped(options_.stop, "writing");
  sink_.write(layout_.header(metadata));
}

const GgufTensorPlan* GgufStream::current() const noexcept {
  return at_ < layout_.tensors().size() ? &layout_.tensors()[at_] : nullptr;
}

void GgufStream::write(std::span<const std::byte> bytes) {
  throw_if_stopped(options_.stop, "writing");
  const GgufTensorPlan* tensor = current();
  const std::uint64_t room = tensor ? tensor->bytes - in_tensor_ : 0;
  if (bytes.size() > room)
    throw Error(Errc::internal,
                (tensor ? "tensor '" + printable(tensor->name) + "'" : std::string("the last tensor")) +
                    ": " + std::to_string(bytes.size() - room) + " bytes more than its shape needs");
  sink_.write(bytes);
  in_tensor_ += bytes.size();
  done_ += bytes.size();
}

void GgufStream::end_tensor() {
  const GgufTensorPlan& tensor = *current();
  if (in_tensor_ != tensor.bytes)
    throw Error(Errc::internal, "tensor '" + printable(tensor.name) + "': " + std::to_string(in_tensor_) +
                                    " of " + std::to_string(tensor.bytes) + " bytes were given");
  const std::uint64_t padding = checked::round_up(done_, alignment_) - done_;
  sink_.write(std::vector<std::byte>(static_cast<std::size_t>(padding)));
  done_ += padding;
  in_tensor_ = 0;
  ++at_;
  if (options_.progress)
    options_.progress(static_cast<long long>(done_), static_cast<long long>(total_), tensor.name);
}

// --- GgufWriter ------------------------------------------------------------------------------------------

void GgufWriter::add_tensor(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                            Producer producer) {
  layout_.add(std::move(name), dims, gguf_type);
  producers_.push_back(std::move(producer));
}

void GgufWriter::add_tensor(std::string name, std::span<const Index> dims, std::uint32_t gguf_type,
                            std::span<const std::byte> bytes) {
  const GgufTypeInfo* type = find_gguf_type(gguf_type);
  const auto due = try_invoke([&] { return type ? stored_bytes(*type, dims) : bytes.size(); });
  if (due && *due != bytes.size())
    throw Error(Errc::invalid_argument, "tensor '" + printable(name) + "': has " +
                                            std::to_string(bytes.size()) + " bytes, its shape needs " +
                                            std::to_string(*due));
  add_tensor(std::move(name), dims, gguf_type, [bytes](ByteSink& sink) {
    constexpr std::size_t piece = std::size_t{4} << 20;  // cancellation and progress stay prompt
    for (std::size_t i = 0; i < bytes.size(); i += piece)
      sink.write(bytes.subspan(i, std::min(piece, bytes.size() - i)));
  });
}

void GgufWriter::add_tensor(const StoredTensor& tensor) {
  add_tensor(std::string(tensor.name), tensor.shape(), tensor.gguf_type(), tensor.bytes);
}

std::uint64_t GgufWriter::file_bytes() const {
  return checked::add(std::uint64_t{layout_.header(metadata_).size()},
                      layout_.data_bytes(GgufLayout::alignment(metadata_)), "the file size");
}

void GgufWriter::write(ByteSink& sink, const GgufWriteOptions& options) const {
  GgufStream stream(layout_, metadata_, sink, options);
  for (const Producer& produce : producers_) {
    throw_if_stopped(options.stop, "writing");
    produce(stream);
    stream.end_tensor();
  }
}

void GgufWriter::write(const std::filesystem::path& path, const GgufWriteOptions& options) const {
  AtomicFile file(path, options.files ? *options.files : FileOps::system());
  write(file, options);
  throw_if_stopped(options.stop, "writing");
  file.commit();
}

}  // namespace nibble
