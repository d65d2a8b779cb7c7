// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5 (report of 2024, arXiv 2407.10671): Llama's block with biases on queries, keys and
// values, and rotary pairs of halves.
#include "model/arch/metadata_reader.hpp"

namespace nibble::arch {

namespace {

ModelSpec spec(const Metadata& metadata) {
  return read_common_spec(MetadataReader(metadata), Rope::Pairs::halves);
}

constexpr RoleUse roles[] = {
    {Role::token_embedding}, {Role::output_norm}, {Role::output, Presence::optional},
    {Role::attention_norm}, {Role::query}, {Role::query_bias}, {Role::key}, {Role::key_bias},
    {Role::value}, {Role::value_bias}, {Role::attention_output},
    {Role::ffn_norm}, {Role::ffn_gate}, {Role::ffn_up}, {Role::ffn_down}};

}  // namespace

extern const Architecture qwen2;
const Architecture qwen2{"qwen2", &spec, roles};

}  // namespace nibble::arch
