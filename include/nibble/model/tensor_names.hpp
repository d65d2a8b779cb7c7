// SPDX-License-Identifier: MIT
// Roles of a model's tensors, and what files call them. An architecture lists the roles it has; loading
// asks for each by role and layer, so that no other code spells a tensor's name.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "nibble/core/view.hpp"

namespace nibble {

enum class Role {
  token_embedding, output_norm, output, rope_divisors,  // of the whole model
  attention_norm, attention_post_norm,
  query, query_bias, query_norm, key, key_bias, key_norm, value, value_bias, attention_output,
  attention_output_bias, ffn_norm, ffn_post_norm, ffn_gate, ffn_up, ffn_down
};

/// GGUF's name of a role: "blk.3.attn_q.weight"; `layer` is ignored for tensors of the whole model.
inline std::string gguf_name(Role role, Index layer = 0) {
  constexpr std::array<std::string_view, 21> names = {
      "token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight",
      "attn_norm.weight", "post_attention_norm.weight",
      "attn_q.weight", "attn_q.bias", "attn_q_norm.weight", "attn_k.weight", "attn_k.bias", "attn_k_norm.weight",
      "attn_v.weight", "attn_v.bias", "attn_output.weight",
      "attn_output.bias", "ffn_norm.weight", "post_ffw_norm.weight", "ffn_gate.weight", "ffn_up.weight",
      "ffn_down.weight"};
  const std::string_view name = names[static_cast<std::size_t>(role)];
  if (role <= Role::rope_divisors) return std::string(name);
  return "blk." + std::to_string(layer) + "." + std::string(name);
}

}  // namespace nibble
