// SPDX-License-Identifier: MIT
// Gemma 3 (report of 2025, arXiv 2503.19786): five layers with a sliding window for each global one, norms
// before and after each branch, norms on queries and keys, GeGLU, embeddings scaled by sqrt(hidden), tied
// head. Local layers rotate with their own base; only global layers stretch it. Files store norm gains as 1 + w.
#include <vector>

#include "model/arch/metadata_reader.hpp"

namespace nibble::arch {

namespace {

/// Which layers look back a window only: files give the distance between global layers, or a flag per layer.
std::vector<bool> local_layers(const MetadataReader& r, std::size_t layers) {
  constexpr const char* key = "attention.sliding_window_pattern";
  const MetadataValue* value = r.metadata().find(r.key(key));
  std::vector<bool> local(layers);
  if (value != nullptr && value->is_array()) {
    const auto flags = r.metadata().get<MetadataArray<bool>>(r.key(key));
    if (flags.size() != layers)
      r.fail(key, std::to_string(flags.size()) + " flags for " + std::to_string(layers) + " layers");
    for (std::size_t i = 0; i < layers; ++i) local[i] = flags[i];
    return local;
  }
  const auto pattern = static_cast<std::size_t>(r.size_or(key, 6, 4096));
  for (std::size_t i = 0; i < layers; ++i) local[i] = (i + 1) % pattern != 0;
  return local;
}

ModelSpec spec(const Metadata& metadata) {
  const MetadataReader r(metadata);
  ModelSpec m = read_common_spec(r, Rope::Pairs::halves);
  m.embedding_scale = double(std::sqrt(float(m.hidden)));
  m.logit_soft_cap = r.not_negative_or("final_logit_softcapping", 0.0);
  const double soft_cap = r.not_negative_or("attn_logit_softcapping", 0.0);
  const Index window = r.size("attention.sliding_window", Index{1} << 31);
  const std::vector<bool> local = local_layers(r, m.blocks.size());
  const double local_base = r.positive_or("rope.freq_base_swa", 10000.0);

  // The 27B model alone scales queries by its hidden size per head instead of the head's own size; its files
  // do not say so.
  const AttentionSpec& first = m.blocks.front().attention;
  const bool is_27b = m.blocks.size() == 62 && m.hidden == 5376 && !r.has("attention.scale");
  const double scale = is_27b ? 1.0 / std::sqrt(double(m.hidden) / double(first.heads)) : first.scale;

  for (std::size_t i = 0; i < m.blocks.size(); ++i) {
    BlockSpec& b = m.blocks[i];
    b.activation = Activation::gelu_tanh;
    b.attention.scale = scale;
    b.attention.soft_cap = soft_cap;
    if (!local[i]) continue;
    b.attention.window = window;
    b.attention.rope.base = local_base;
    b.attention.rope.scaling = {};
  }
  return m;
}

constexpr RoleUse roles[] = {
    {Role::token_embedding}, {Role::output_norm}, {Role::output, Presence::optional},
    {Role::attention_norm}, {Role::attention_post_norm}, {Role::query}, {Role::query_norm}, {Role::key},
    {Role::key_norm}, {Role::value}, {Role::attention_output},
    {Role::ffn_norm}, {Role::ffn_post_norm}, {Role::ffn_gate}, {Role::ffn_up}, {Role::ffn_down}};

}  // namespace

extern const Architecture gemma3;
const Architecture gemma3{"gemma3", &spec, roles};

}  // namespace nibble::arch
