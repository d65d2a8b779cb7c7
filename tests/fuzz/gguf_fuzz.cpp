// SPDX-License-Identifier: MIT
// Any bytes as a GGUF file. What is accepted must be readable throughout, and writing it again must give a
// file with the same metadata and tensors.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "nibble/io/gguf.hpp"
#include "nibble/io/gguf_writer.hpp"
#include "nibble/io/weight_source.hpp"

namespace {

using Bytes = std::span<const std::byte>;

// Sums every byte, so that a sanitizer sees each access.
std::uint64_t touch(Bytes bytes) {
  std::uint64_t sum = 0;
  for (const std::byte b : bytes) sum += std::to_integer<std::uint64_t>(b);
  return sum;
}

std::uint64_t touch(const nibble::MetadataValue& value) {
  std::uint64_t sum = touch(value.raw()) + value.describe().size() + value.to_text(3, 20).size();
  if (const auto strings = value.as<nibble::MetadataStrings>())
    for (const std::string_view s : *strings) sum += touch(std::as_bytes(std::span(s.data(), s.size())));
  if (const auto numbers = value.as<std::vector<std::int64_t>>()) sum += numbers->size();
  if (const auto numbers = value.as<std::vector<float>>()) sum += numbers->size();
  if (const auto flags = value.as<nibble::MetadataArray<bool>>())
    for (const bool flag : *flags) sum += flag ? 1 : 0;
  if (const auto text = value.as<std::string>()) sum += text->size();
  if (const auto number = value.as<std::uint8_t>()) sum += *number;
  return sum + (value.as<float>() ? 1 : 0) + (value.as<double>() ? 1 : 0);
}

void require(bool condition) {
  if (!condition) __builtin_trap();
}

bool same(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

void round_trip(nibble::GgufFile file) {
  for (const auto& tensor : file.tensors())
    if (tensor.name.size() > 63) return;  // readable, but not to be written
  const nibble::GgufWeightSource source(std::move(file));
  nibble::GgufWriter writer;
  writer.metadata().copy(source.metadata());
  for (const auto name : source.names()) writer.add_tensor(source.require(name));
  nibble::MemorySink sink;
  writer.write(sink);
  require(sink.bytes().size() == writer.file_bytes());

  const auto again = nibble::GgufFile::from_memory(sink.bytes());
  require(again.warnings().empty());
  require(again.metadata().size() == source.metadata().size());
  for (std::size_t i = 0; i < again.metadata().size(); ++i) {
    const auto& a = again.metadata().entries()[i];
    const auto& b = source.metadata().entries()[i];
    require(a.key == b.key && a.value.type() == b.value.type() && same(a.value.raw(), b.value.raw()));
  }
  require(again.tensors().size() == source.names().size());
  for (const auto& tensor : again.tensors()) {
    const auto& old = source.file().tensor(tensor.name);
    require(tensor.type == old.type && tensor.rank == old.rank && tensor.ne == old.ne &&
            same(tensor.bytes, old.bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  auto file = nibble::GgufFile::try_from_memory(bytes);
  if (!file) {
    require(std::strlen(file.error().what()) < 2000);  // outside bytes do not flood a message
    return 0;
  }
  std::uint64_t sum = 0;
  for (const auto& [key, value] : file->metadata()) {
    require(file->find(key) == &value);
    sum += touch(value);
  }
  for (const auto& tensor : file->tensors()) {
    require(file->find_tensor(tensor.name) == &tensor);
    require(tensor.elements() >= 0);
    sum += touch(tensor.bytes);
  }
  volatile std::uint64_t used = sum;
  static_cast<void>(used);
  round_trip(std::move(*file));
  return 0;
}
