// SPDX-License-Identifier: MIT
#include "model/weight_loader.hpp"

#include <cmath>
#include <vector>

#include "nibble/format/formats.hpp"

namespace nibble {

namespace {

const FormatInfo& format_of(const WeightSource& source, const StoredTensor& tensor) {
  const FormatInfo* format = find_format_by_gguf(tensor.gguf_type());
  if (format == nullptr)
    throw Error(Errc::unsupported, source.name() + ": tensor '" + std::string(tensor.name) + "' has type " +
                                       std::string(tensor.type->name) + ", which cannot be computed with yet");
  return *format;
}

std::string shape_text(const StoredTensor& t) {
  std::string s = "[";
  for (std::size_t i = 0; i < t.rank; ++i) s += (i ? ", " : "") + std::to_string(t.dims[i]);
  return s + "]";
}

}  // namespace

WeightLoader::WeightLoader(Context& context, const WeightSource& source, const Architecture& architecture,
                           const LoadOptions& options)
    : context_(context), source_(source), architecture_(architecture), options_(options),
      total_(static_cast<long long>(source.names().size())) {}

bool WeightLoader::has(Role role, Index layer) const {
  for (const RoleUse& use : architecture_.roles)
    if (use.role == role) return source_.find(gguf_name(role, layer)).has_value();
  return false;
}

std::optional<StoredTensor> WeightLoader::find(Role role, Index layer) {
  throw_if_stopped(options_.stop, "loading");
  for (const RoleUse& use : architecture_.roles) {
    if (use.role != role) continue;
    const std::string name = gguf_name(role, layer);
    if (use.presence == Presence::required) return source_.require(name);
    return source_.find(name);
  }
  return std::nullopt;
}

void WeightLoader::wrong_shape(const StoredTensor& tensor, const std::string& expected) const {
  throw Error(Errc::malformed, source_.name() + ": tensor '" + std::string(tensor.name) + "' has shape " +
                                   shape_text(tensor) + ", expected " + expected);
}

void WeightLoader::done(const StoredTensor& tensor) {
  used_.emplace(tensor.name);
  if (options_.progress) options_.progress(static_cast<long long>(used_.size()), total_, tensor.name);
  source_.release(tensor.name);
}

PackedMatrix<cpu::Backend> WeightLoader::matrix(Role role, Index layer, Index rows, Index cols) {
  const auto tensor = find(role, layer);
  if (!tensor) return {};
  if (tensor->rank > 2 || tensor->rows() != rows || tensor->cols() != cols)
    wrong_shape(*tensor, to_string(Extents<2>{rows, cols}));
  auto view = source_.quantized(tensor->name);
  if (!view) view = QuantizedView::from_blocks(format_of(source_, *tensor), rows, cols, tensor->bytes);
  if (view->rows() != rows || view->cols() != cols)
    throw Error(Errc::malformed, source_.name() + ": tensor '" + std::string(tensor->name) + "' is given as " +
                                     to_string(Extents<2>{view->rows(), view->cols()}) + " groups, expected " +
                                     to_string(Extents<2>{rows, cols}));
  // Row by row: a large embedding would else lie in memory twice.
  auto packed = PackedMatrix<cpu::Backend>::pack(context_, *view, options_.packing, [&](Index first, Index end) {
    source_.release_part(view->data().subspan(static_cast<std::size_t>(first * view->row_bytes()),
                                              static_cast<std::size_t>((end - first) * view->row_bytes())));
  });
  done(*tensor);
  return packed;
}

Vector<float> WeightLoader::vector(Role role, Index layer, Index size) {
  const auto tensor = find(role, layer);
  if (!tensor) return {};
  if (tensor->rank != 1 || tensor->cols() != size) wrong_shape(*tensor, to_string(Extents<1>{size}));
  Vector<float> values({size});
  QuantizedView::from_blocks(format_of(source_, *tensor), 1, size, tensor->bytes).decode_row(0, values.span());
  for (Index i = 0; i < size; ++i)
    if (!std::isfinite(values(i)))
      throw Error(Errc::not_finite, source_.name() + ": tensor '" + std::string(tensor->name) + "' element " +
                                        std::to_string(i) + " is not a finite number");
  done(*tensor);
  return values;
}

std::pair<Index, Index> WeightLoader::shape(Role role) const {
  const StoredTensor tensor = source_.require(gguf_name(role));
  if (tensor.rank != 2) wrong_shape(tensor, "a matrix");
  return {tensor.rows(), tensor.cols()};
}

void WeightLoader::finish() const {
  for (std::string_view name : source_.names())
    if (!used_.contains(name))
      throw Error(Errc::unsupported, source_.name() + ": tensor '" + std::string(name) +
                                         "' is not part of the architecture '" + std::string(architecture_.name) +
                                         "': running without it would give wrong results");
}

Tokenizer load_tokenizer(const Metadata& m) {
  TokenizerData d;
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  d.model = m.get<std::string>(key("model"));
  d.pre = m.get_or<std::string>(key("pre"), "");
  const auto views = [&](const std::string& k, std::vector<std::string_view>& to) {
    if (m.find(k) == nullptr) return;
    const auto list = m.get<MetadataStrings>(k);
    to.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) to.push_back(list[i]);
  };
  views(key("tokens"), d.tokens);
  views(key("merges"), d.merges);
  if (m.find(key("scores"))) d.scores = m.get<std::vector<float>>(key("scores"));
  if (m.find(key("token_type"))) d.types = m.get<std::vector<std::int32_t>>(key("token_type"));
  const auto id = [&](const char* name) { return m.get_optional<Token>(key(name)); };
  d.bos = id("bos_token_id");
  d.eos = id("eos_token_id");
  d.eot = id("eot_token_id");
  d.unk = id("unknown_token_id");
  d.pad = id("padding_token_id");
  d.add_bos = m.get_optional<bool>(key("add_bos_token"));
  d.add_eos = m.get_optional<bool>(key("add_eos_token"));
  d.add_space_prefix = m.get_optional<bool>(key("add_space_prefix"));
  return Tokenizer(d);
}

}  // namespace nibble
