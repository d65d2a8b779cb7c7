// SPDX-License-Identifier: MIT
// nibble inspect: what a file holds and what it takes to run it. Reads the header alone.
#include <map>

#include "cli/common.hpp"
#include "nibble/model/arch.hpp"

namespace nibble::cli {

namespace {

std::string shape_of(const GgufTensor& t) {
  std::string s;
  for (int d = t.rank; d-- > 0;) s += (s.empty() ? "" : " x ") + std::to_string(t.ne[static_cast<std::size_t>(d)]);
  return s.empty() ? "scalar" : s;
}

/// Keys and values of a whole sequence of `tokens`, in half precision; a window keeps no more than itself.
double kv_bytes(const ModelSpec& spec, Index tokens) {
  double bytes = 0;
  for (const BlockSpec& b : spec.blocks) {
    const AttentionSpec& a = b.attention;
    bytes += 2.0 * static_cast<double>(tokens) * static_cast<double>(a.kv_heads) *
             static_cast<double>(a.head_dim + a.value_dim);
  }
  return bytes;
}

void add_model(Report& report, const GgufFile& file, Index ctx) {
  double weight_bytes = 0;
  for (const GgufTensor& t : file.tensors()) weight_bytes += static_cast<double>(t.bytes.size());
  auto spec = try_invoke([&] {
    return find_architecture(file.get<std::string_view>("general.architecture")).spec(file.metadata());
  });
  report.add("runs_here", spec.has_value());
  if (!spec) {
    report.add("reason", spec.error().what());
    report.add("memory_bytes", static_cast<std::int64_t>(weight_bytes));
    return;
  }
  const Index tokens = ctx > 0 ? ctx : spec->context;
  const double kv = kv_bytes(*spec, tokens);
  report.add("layers", static_cast<Index>(spec->blocks.size())).add("hidden", spec->hidden);
  report.add("heads", spec->blocks.front().attention.heads).add("kv_heads", spec->blocks.front().attention.kv_heads);
  report.add("head_dim", spec->blocks.front().attention.head_dim).add("ffn_hidden", spec->blocks.front().ffn_hidden);
  report.add("context", spec->context);
  report.add("weight_bytes", static_cast<std::int64_t>(weight_bytes));
  report.add("kv_bytes", static_cast<std::int64_t>(kv)).add("kv_tokens", tokens);
  report.add("memory_bytes", static_cast<std::int64_t>(weight_bytes + kv));
  report.add("memory", readable_bytes(weight_bytes) + " of weights, " + readable_bytes(kv) +
                           " of keys and values for " + std::to_string(tokens) + " tokens");
}

void add_tables(Report& report, const GgufFile& file) {
  ReportTable& metadata = report.table("metadata", {"key", "type", "value"});
  for (const MetadataEntry& e : file.metadata())
    metadata.add({e.key, e.value.is_array() ? e.value.describe() : std::string(to_string(e.value.type())),
                  e.value.to_text(4, 60)});

  struct Sum { Index tensors = 0; double weights = 0, bytes = 0; };
  std::map<std::string_view, Sum> by_type;
  for (const GgufTensor& t : file.tensors()) {
    Sum& s = by_type[t.type->name];
    ++s.tensors;
    s.weights += static_cast<double>(t.elements());
    s.bytes += static_cast<double>(t.bytes.size());
  }
  ReportTable& types = report.table("types", {"type", "tensors", "weights", "bytes", "bits_per_weight"});
  for (const auto& [name, s] : by_type)
    types.add({name, s.tensors, static_cast<std::int64_t>(s.weights), static_cast<std::int64_t>(s.bytes),
               s.weights > 0 ? 8 * s.bytes / s.weights : 0.0});

  ReportTable& tensors = report.table("tensors", {"name", "type", "shape", "bytes"});
  for (const GgufTensor& t : file.tensors())
    tensors.add({t.name, t.type->name, shape_of(t), static_cast<std::int64_t>(t.bytes.size())});
}

}  // namespace

int inspect(const InspectOptions& o) {
  const GgufFile file = GgufFile::open(o.model);
  for (const std::string& w : file.warnings()) note(w);
  Report report;
  report.add("file", o.model).add("file_bytes", file.file_bytes()).add("gguf_version", file.version());
  report.add("architecture", file.get_or<std::string>("general.architecture", ""));
  report.add("name", file.get_or<std::string>("general.name", ""));
  report.add("weights", static_cast<std::int64_t>(weights_of(file)));
  report.add("bits_per_weight", bits_per_weight(file));
  report.add("tensor_count", file.tensors().size());
  report.add("chat_template", file.find("tokenizer.chat_template") != nullptr);
  add_model(report, file, o.ctx);
  add_tables(report, file);
  write_out(report.render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
