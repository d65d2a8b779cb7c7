// SPDX-License-Identifier: MIT
#include "model/arch/metadata_reader.hpp"

namespace nibble::arch {

namespace {
// Far above every published model, far below what could overflow a product of two.
constexpr Index max_width = Index{1} << 20, max_layers = 4096, max_vocabulary = Index{1} << 24,
                max_context = Index{1} << 31;
}  // namespace

RopeScaling read_rope_scaling(const MetadataReader& r) {
  RopeScaling s;
  const std::string kind = r.text_or("rope.scaling.type", r.has("rope.scale_linear") ? "linear" : "none");
  if (kind == "none") return s;
  if (kind == "linear") {
    s.kind = RopeScaling::Kind::linear;
    s.factor = r.has("rope.scaling.factor") ? r.positive("rope.scaling.factor") : r.positive("rope.scale_linear");
    return s;
  }
  if (kind == "llama3") {
    s.kind = RopeScaling::Kind::llama3;
    s.factor = r.positive("rope.scaling.factor");
    s.low_freq_factor = r.positive_or("rope.scaling.low_freq_factor", 1.0);
    s.high_freq_factor = r.positive_or("rope.scaling.high_freq_factor", 4.0);
    s.original_context = r.positive("rope.scaling.original_context_length");
    return s;
  }
  throw Error(Errc::unsupported, r.metadata().source() + ": " + r.key("rope.scaling.type") +
                                     ": rotary scaling '" + kind + "' is not supported (none, linear, llama3 are)");
}

ModelSpec read_common_spec(const MetadataReader& r, Rope::Pairs pairs) {
  ModelSpec m;
  m.architecture = r.metadata().get<std::string>("general.architecture");
  m.name = r.metadata().get_or<std::string>("general.name", m.architecture);
  m.hidden = r.size("embedding_length", max_width);
  m.context = r.size("context_length", max_context);
  m.norm_eps = float(r.positive("attention.layer_norm_rms_epsilon"));
  m.vocabulary = r.size_or("vocab_size", 0, max_vocabulary);

  BlockSpec b;
  b.norm_eps = m.norm_eps;
  b.ffn_hidden = r.size("feed_forward_length", max_width);
  AttentionSpec& a = b.attention;
  a.heads = r.size("attention.head_count", max_width);
  a.kv_heads = r.size_or("attention.head_count_kv", a.heads, max_width);
  if (a.heads % a.kv_heads != 0)
    r.fail("attention.head_count_kv", std::to_string(a.kv_heads) + " does not divide the " +
                                          std::to_string(a.heads) + " query heads");
  if (r.has("attention.key_length")) {
    a.head_dim = r.size("attention.key_length", max_width);
  } else {
    if (m.hidden % a.heads != 0)
      r.fail("attention.head_count", std::to_string(a.heads) + " does not divide the embedding length " +
                                         std::to_string(m.hidden) + ", and no attention.key_length is given");
    a.head_dim = m.hidden / a.heads;
  }
  a.value_dim = r.size_or("attention.value_length", a.head_dim, max_width);
  a.scale = r.positive_or("attention.scale", 1.0 / std::sqrt(double(a.head_dim)));
  a.rope.pairs = pairs;
  a.rope.dimensions = r.size_or("rope.dimension_count", a.head_dim, max_width);
  if (a.rope.dimensions % 2 != 0 || a.rope.dimensions > a.head_dim)
    r.fail("rope.dimension_count", std::to_string(a.rope.dimensions) + " is not an even number within a head of " +
                                       std::to_string(a.head_dim));
  a.rope.base = r.positive_or("rope.freq_base", 10000.0);
  a.rope.scaling = read_rope_scaling(r);
  m.blocks.assign(static_cast<std::size_t>(r.size("block_count", max_layers)), b);
  return m;
}

}  // namespace nibble::arch
