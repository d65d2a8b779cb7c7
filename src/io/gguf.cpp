// SPDX-License-Identifier: MIT
// The GGUF parser: header, keys, tensor infos, data section, in file order, each checked before it is used.
#include "nibble/io/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "io/byte_cursor.hpp"
#include "io/metadata_parser.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/io/weight_source.hpp"

namespace nibble {

class GgufParser {
 public:
  GgufParser(GgufFile& file, const GgufLimits& limits)
      : file_(file), limits_(limits), cursor_(file.file_.bytes()) {}

  void parse() {
    header();
    file_.metadata_ = MetadataParser(cursor_, limits_).parse(keys_, file_.name());
    read_alignment();
    refuse_split();
    for (std::uint64_t i = 0; i < tensors_; ++i) file_.tensors_.push_back(tensor_info(i));
    file_.by_name_ = index_by_name(
        file_.tensors_.size(), [&](std::uint32_t i) { return file_.tensors_[i].name; }, "tensor");
    place_data();
  }

 private:
  void header();
  std::uint64_t count(const char* what, std::uint64_t smallest, std::uint64_t limit);
  void read_alignment();
  void refuse_split() const;
  GgufTensor tensor_info(std::uint64_t index);
  void read_dims(GgufTensor& tensor, const std::string& what);
  const GgufTypeInfo* read_type(const std::string& what);
  static std::uint64_t bytes_of(const GgufTensor& tensor);
  void place_data();
  void check_offset(const GgufTensor& tensor, std::uint64_t bytes, std::uint64_t expected,
                    std::uint64_t available) const;

  GgufFile& file_;
  const GgufLimits& limits_;
  ByteCursor cursor_;
  std::uint64_t tensors_ = 0;
  std::uint64_t keys_ = 0;
};

void GgufParser::header() {
  const auto magic = cursor_.number<std::uint32_t>("the GGUF magic");
  constexpr std::uint32_t gguf = 0x46554747;  // "GGUF" in file order
  const char* const wrong_order =
      "wrong byte order: this is a big-endian GGUF file, convert it to little-endian first";
  if (magic == std::uint32_t{0x47475546}) throw Error(Errc::unsupported, wrong_order);
  if (magic != gguf) throw Error(Errc::malformed, "not a GGUF file: it does not begin with \"GGUF\"");
  const auto version = cursor_.number<std::uint32_t>("the GGUF version");
  if (version != 0 && (version & 0xFFFFu) == 0) throw Error(Errc::unsupported, wrong_order);
  if (version == 1) throw Error(Errc::unsupported, "GGUF version 1 is obsolete; 2 and 3 are read");
  if (version != 2 && version != 3)
    throw Error(Errc::unsupported,
                "GGUF version " + std::to_string(version) + " is unknown; 2 and 3 are read");
  file_.version_ = version;
  // The smallest info: empty name (8), rank (4), type (4), offset (8). The smallest key: 8 + 1 + 4 + 1.
  tensors_ = count("tensors", 24, limits_.tensors);
  keys_ = count("metadata keys", 14, limits_.keys);
  if (tensors_ > cursor_.remaining() / 24)
    throw Error(Errc::malformed, "claims " + std::to_string(tensors_) + " tensors, only " +
                                     std::to_string(cursor_.remaining()) + " bytes follow the header");
}

std::uint64_t GgufParser::count(const char* what, std::uint64_t smallest, std::uint64_t limit) {
  const auto n = cursor_.number<std::int64_t>(std::string("the number of ") + what);
  if (n < 0) throw Error(Errc::malformed, std::string("claims ") + std::to_string(n) + " " + what);
  const auto value = static_cast<std::uint64_t>(n);
  if (value > cursor_.remaining() / smallest)
    throw Error(Errc::malformed, "claims " + std::to_string(value) + " " + what + ", only " +
                                     std::to_string(cursor_.remaining()) + " bytes remain");
  if (value > limit)
    throw Error(Errc::out_of_memory,
                "has " + std::to_string(value) + " " + what + ", over the limit of " + std::to_string(limit));
  return value;
}

void GgufParser::read_alignment() {
  constexpr std::string_view key = "general.alignment";
  const MetadataValue* value = file_.metadata_.find(key);
  if (!value) return;
  if (value->type() != MetadataType::u32)
    throw Error(Errc::malformed, "key 'general.alignment': expected u32, found " + value->describe());
  const std::uint32_t alignment = *value->as<std::uint32_t>();
  if (!std::has_single_bit(alignment) || alignment > limits_.alignment)
    throw Error(Errc::malformed, "key 'general.alignment' is " + std::to_string(alignment) +
                                     ": a power of two up to " + std::to_string(limits_.alignment) +
                                     " is needed");
  file_.alignment_ = alignment;
}

void GgufParser::refuse_split() const {
  const MetadataValue* value = file_.metadata_.find("split.count");
  if (!value) return;
  const auto parts = value->as<std::uint64_t>();
  if (!parts) throw Error(Errc::malformed, "key 'split.count': expected a count, found " + value->describe());
  if (*parts > 1)
    throw Error(Errc::unsupported, "is one of " + std::to_string(*parts) +
                                       " parts of a split model; merge the parts into one file first");
}

GgufTensor GgufParser::tensor_info(std::uint64_t index) {
  const std::uint64_t start = cursor_.position();
  const std::string number = "tensor " + std::to_string(index);
  GgufTensor tensor;
  tensor.name = cursor_.string(limits_.tensor_name_bytes, "name of " + number);
  if (tensor.name.empty())
    throw Error(Errc::malformed, "name of " + number + " at byte " + std::to_string(start) + " is empty");
  const std::string what = "tensor '" + printable(tensor.name) + "'";
  if (!is_utf8(tensor.name))
    throw Error(Errc::malformed, what + " at byte " + std::to_string(start) + ": the name is not UTF-8");
  constexpr std::size_t longest_portable = 63;  // others keep names in 64 bytes, with a terminator
  if (tensor.name.size() > longest_portable)
    file_.warnings_.push_back(what + ": the name has " + std::to_string(tensor.name.size()) +
                              " bytes, more than other readers allow");
  read_dims(tensor, what);
  tensor.type = read_type(what);
  const auto block = static_cast<std::int64_t>(tensor.type->block_size);
  if (tensor.ne[0] % block != 0)
    throw Error(Errc::malformed, what + ": rows of " + std::to_string(tensor.ne[0]) +
                                     " elements are no multiple of " + std::string(tensor.type->name) +
                                     "'s block of " + std::to_string(block));
  tensor.offset = cursor_.number<std::uint64_t>("offset of " + what);
  return tensor;
}

void GgufParser::read_dims(GgufTensor& tensor, const std::string& what) {
  const auto rank = cursor_.number<std::uint32_t>("rank of " + what);
  if (rank > tensor.ne.size())
    throw Error(Errc::malformed,
                what + " has " + std::to_string(rank) + " dimensions; at most 4 are allowed");
  tensor.rank = static_cast<int>(rank);
  std::int64_t product = 1;  // of the non-zero dimensions, so that a zero hides no overflow
  for (std::size_t d = 0; d < rank; ++d) {
    const auto n = cursor_.number<std::int64_t>("dimensions of " + what);
    if (n < 0)
      throw Error(Errc::malformed, what + ": dimension " + std::to_string(d) + " is " + std::to_string(n));
    if (n > 0 && product > std::numeric_limits<std::int64_t>::max() / n)
      throw Error(Errc::malformed, what + ": the number of elements overflows at dimension " +
                                       std::to_string(d) + " of " + std::to_string(n));
    if (n > 0) product *= n;
    tensor.ne[d] = n;
  }
}

const GgufTypeInfo* GgufParser::read_type(const std::string& what) {
  const auto id = cursor_.number<std::uint32_t>("type of " + what);
  if (const GgufTypeInfo* type = find_gguf_type(id)) return type;
  const std::string_view retired = retired_gguf_type(id);
  if (!retired.empty())
    throw Error(Errc::unsupported, what + " has the retired type " + std::to_string(id) + " (" +
                                       std::string(retired) + "); convert the original model again");
  throw Error(Errc::unsupported, what + " has the unknown type " + std::to_string(id));
}

/// Where a dimension is zero the others must still make a size that can be written again.
std::uint64_t GgufParser::bytes_of(const GgufTensor& tensor) {
  std::array<Index, 4> dims{};
  const auto rank = static_cast<std::size_t>(tensor.rank);
  std::reverse_copy(tensor.ne.begin(), tensor.ne.begin() + tensor.rank, dims.begin());
  const auto bytes = try_invoke([&] { return stored_bytes(*tensor.type, {dims.data(), rank}); });
  if (!bytes) throw Error(Errc::malformed, "tensor '" + printable(tensor.name) + "': " + bytes.error().what());
  return *bytes;
}

void GgufParser::place_data() {
  const std::uint64_t size = file_.file_.size();
  const auto alignment = std::uint64_t{file_.alignment_};
  file_.data_offset_ = checked::round_up(cursor_.position(), alignment, "the start of the data");
  const std::uint64_t available = file_.data_offset_ < size ? size - file_.data_offset_ : 0;
  std::uint64_t expected = 0;  // where the next tensor must start
  std::uint64_t used = 0;
  for (GgufTensor& tensor : file_.tensors_) {
    const std::string what = "size of tensor '" + printable(tensor.name) + "'";
    const std::uint64_t bytes = bytes_of(tensor);
    check_offset(tensor, bytes, expected, available);
    if (bytes > 0) {
      tensor.bytes = file_.file_.bytes().subspan(static_cast<std::size_t>(file_.data_offset_ + tensor.offset),
                                                 static_cast<std::size_t>(bytes));
      used = tensor.offset + bytes;
    }
    expected = checked::round_up(checked::add(tensor.offset, bytes, what.c_str()), alignment, what.c_str());
  }
  const std::uint64_t end = std::min(checked::round_up(used, alignment, "the data"), available);
  if (available > end)
    file_.warnings_.push_back(std::to_string(available - end) + " bytes follow the last tensor");
}

void GgufParser::check_offset(const GgufTensor& tensor, std::uint64_t bytes, std::uint64_t expected,
                              std::uint64_t available) const {
  if (tensor.offset == expected && checked::fits(tensor.offset, bytes, available)) return;
  const std::string place = "tensor '" + printable(tensor.name) + "' (offset " +
                            std::to_string(tensor.offset) + ", " + std::to_string(bytes) + " bytes)";
  // A zero-element tensor at the very end of a file without padding still lies in it.
  if (bytes == 0 && tensor.offset == expected) return;
  if (!checked::fits(tensor.offset, bytes, available))
    throw Error(Errc::malformed, place + " lies outside the file's " + std::to_string(available) +
                                     " bytes of data: the file is truncated or its offsets are wrong");
  if (tensor.offset % file_.alignment_ != 0)
    throw Error(Errc::malformed, place + " is not aligned to " + std::to_string(file_.alignment_) + " bytes");
  throw Error(Errc::malformed, place +
                                   (tensor.offset < expected ? " overlaps the tensor before it"
                                                             : " leaves a gap after the tensor before it") +
                                   ": offset " + std::to_string(expected) + " is due");
}

// --- GgufFile --------------------------------------------------------------------------------------------

GgufFile GgufFile::parse(MappedFile file, const GgufLimits& limits) {
  GgufFile result;
  result.file_ = std::move(file);
  try {
    GgufParser(result, limits).parse();
  } catch (const Error& error) { throw error.in(result.name()); }
  return result;
}

GgufFile GgufFile::open(const std::filesystem::path& path, const GgufOpenOptions& options) {
  return parse(MappedFile::open(path, options.mode), options.limits);
}

Result<GgufFile> GgufFile::try_open(const std::filesystem::path& path, const GgufOpenOptions& options) {
  return try_invoke([&] { return open(path, options); });
}

GgufFile GgufFile::from_memory(std::span<const std::byte> bytes, const GgufLimits& limits, std::string name) {
  return parse(MappedFile::borrow(bytes, std::move(name)), limits);
}

Result<GgufFile> GgufFile::try_from_memory(std::span<const std::byte> bytes, const GgufLimits& limits,
                                           std::string name) {
  return try_invoke([&] { return from_memory(bytes, limits, std::move(name)); });
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const noexcept {
  const auto name_of = [&](std::uint32_t i) { return tensors_[i].name; };
  const std::size_t at = find_by_name(by_name_, name, name_of);
  return at < by_name_.size() ? &tensors_[by_name_[at]] : nullptr;
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  if (const GgufTensor* found = find_tensor(name)) return *found;
  throw Error(Errc::malformed, file_.name() + ": tensor '" + printable(name) + "' is missing");
}

}  // namespace nibble
