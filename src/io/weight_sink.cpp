// SPDX-License-Identifier: MIT
// The two sinks. Both insist on the declared order, so that what works in memory works for a file.
#include "nibble/io/weight_sink.hpp"

#include <optional>
#include <utility>

#include "io/byte_cursor.hpp"
#include "io/gguf_stream.hpp"

namespace nibble {
namespace {

[[noreturn]] void refuse(std::string_view tensor, const std::string& why) {
  throw Error(Errc::invalid_argument, "tensor '" + printable(tensor) + "': " + why);
}

void check_turn(const GgufTensorPlan* due, std::uint64_t given, std::string_view name, std::size_t more) {
  if (!due) refuse(name, "comes after the last declared tensor");
  if (due->name != name) refuse(name, "comes while '" + printable(due->name) + "' is due");
  if (more > due->bytes - given)
    refuse(name,
           std::to_string(given + more) + " bytes were given, its shape needs " + std::to_string(due->bytes));
}

void check_complete(const GgufTensorPlan* due, std::uint64_t given) {
  if (due)
    refuse(due->name, std::to_string(given) + " of " + std::to_string(due->bytes) + " bytes were given");
}

}  // namespace

WeightSink::~WeightSink() = default;

// --- GGUF ------------------------------------------------------------------------------------------------

struct GgufWeightSink::State {
  MetadataBuilder metadata;
  GgufWriteOptions options;
  GgufLayout layout;
  AtomicFile file;
  std::optional<GgufStream> stream;  // from the first put() on

  State(const std::filesystem::path& path, MetadataBuilder m, GgufWriteOptions o)
      : metadata(std::move(m)),
        options(std::move(o)),
        file(path, options.files ? *options.files : FileOps::system()) {}

  GgufStream& begun() {
    if (!stream) stream.emplace(layout, metadata, file, options);
    skip_empty();
    return *stream;
  }
  void skip_empty() {
    while (stream->current() && stream->in_tensor() == stream->current()->bytes) stream->end_tensor();
  }
};

GgufWeightSink::GgufWeightSink(const std::filesystem::path& path, MetadataBuilder metadata,
                               GgufWriteOptions options)
    : state_(std::make_unique<State>(path, std::move(metadata), std::move(options))) {}

GgufWeightSink::~GgufWeightSink() = default;

void GgufWeightSink::declare(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) {
  if (!state_ || state_->stream) refuse(name, "is declared after the first tensor was put");
  state_->layout.add(std::move(name), dims, gguf_type);
}

void GgufWeightSink::put(std::string_view name, std::span<const std::byte> bytes) {
  if (!state_) refuse(name, "comes after finish()");
  if (bytes.empty()) return;
  GgufStream& stream = state_->begun();
  check_turn(stream.current(), stream.in_tensor(), name, bytes.size());
  stream.write(bytes);
  state_->skip_empty();
}

void GgufWeightSink::finish() {
  if (!state_) throw Error(Errc::invalid_argument, "finish() was called before");
  const GgufStream& stream = state_->begun();
  check_complete(stream.current(), stream.in_tensor());
  throw_if_stopped(state_->options.stop, "writing");
  state_->file.commit();
  state_.reset();
}

// --- memory ----------------------------------------------------------------------------------------------

void MemoryWeightSink::declare(std::string name, std::span<const Index> dims, std::uint32_t gguf_type) {
  if (!bytes_.empty() || finished_) refuse(name, "is declared after the first tensor was put");
  layout_.add(std::move(name), dims, gguf_type);
}

namespace {
// The first tensor that is not complete, empty ones counting as complete.
const GgufTensorPlan* due_tensor(const GgufLayout& layout, std::vector<std::vector<std::byte>>& bytes) {
  const auto tensors = layout.tensors();
  std::size_t i = bytes.empty() ? 0 : bytes.size() - 1;
  while (i < tensors.size() && (bytes.size() <= i ? 0 : bytes[i].size()) == tensors[i].bytes) ++i;
  bytes.resize(i < tensors.size() ? i + 1 : i);
  return i < tensors.size() ? &tensors[i] : nullptr;
}
}  // namespace

void MemoryWeightSink::put(std::string_view name, std::span<const std::byte> bytes) {
  if (finished_) refuse(name, "comes after finish()");
  if (bytes.empty()) return;
  const GgufTensorPlan* due = due_tensor(layout_, bytes_);
  check_turn(due, due ? bytes_.back().size() : 0, name, bytes.size());
  auto& to = bytes_.back();
  if (to.empty()) to.reserve(static_cast<std::size_t>(due->bytes));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void MemoryWeightSink::finish() {
  if (finished_) throw Error(Errc::invalid_argument, "finish() was called before");
  const GgufTensorPlan* due = due_tensor(layout_, bytes_);
  check_complete(due, due ? bytes_.back().size() : 0);
  finished_ = true;
}

MemoryWeightSource MemoryWeightSink::take() {
  if (!finished_) throw Error(Errc::invalid_argument, "take() needs finish() first");
  MemoryWeightSource source("memory", std::move(metadata_));
  const auto tensors = layout_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    source.add_owned(tensors[i].name, {tensors[i].dims.data(), tensors[i].rank}, tensors[i].type->id,
                     std::move(bytes_[i]));
  bytes_.clear();
  layout_ = {};
  return source;
}

}  // namespace nibble
