// SPDX-License-Identifier: MIT
// Llama 1 to 3 and what is shaped like it (SmolLM2, TinyLlama, Mistral 7B files of this name): RMS norms,
// rotary pairs of neighbours (files store queries and keys permuted for it), SiLU, optional biases.
#include "model/arch/metadata_reader.hpp"

namespace nibble::arch {

namespace {

ModelSpec spec(const Metadata& metadata) {
  const MetadataReader r(metadata);
  if (r.has("expert_count") && metadata.get<Index>(r.key("expert_count")) > 0)
    throw Error(Errc::unsupported, metadata.source() + ": mixture-of-experts llama files are not supported");
  ModelSpec m = read_common_spec(r, Rope::Pairs::neighbours);
  if (r.has("attention.sliding_window"))
    for (BlockSpec& b : m.blocks) b.attention.window = metadata.get<Index>(r.key("attention.sliding_window"));
  return m;
}

constexpr RoleUse roles[] = {
    {Role::token_embedding}, {Role::output_norm}, {Role::output, Presence::optional},
    {Role::rope_divisors, Presence::optional},
    {Role::attention_norm}, {Role::query}, {Role::query_bias, Presence::optional}, {Role::key},
    {Role::key_bias, Presence::optional}, {Role::value}, {Role::value_bias, Presence::optional},
    {Role::attention_output}, {Role::attention_output_bias, Presence::optional},
    {Role::ffn_norm}, {Role::ffn_gate}, {Role::ffn_up}, {Role::ffn_down}};

}  // namespace

extern const Architecture llama;
const Architecture llama{"llama", &spec, roles};

}  // namespace nibble::arch
