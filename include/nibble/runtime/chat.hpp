// SPDX-License-Identifier: MIT
// Chat: a conversation through the model's own template. Each turn renders the whole conversation, keeps what
// the sequence already holds of it and evaluates the rest, so that templates which rewrite earlier turns (and
// drop their reasoning, say) work too.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/model/model.hpp"
#include "nibble/runtime/generator.hpp"
#include "nibble/text/chat_template.hpp"

namespace nibble {

/// The tokens of a conversation as the model's template spells it, with the start of the answer. Special
/// tokens come from the template only: where a message spells one ("<|im_end|>"), it stays plain text. BOS is
/// put in front where the tokenizer wants it and the template left it out.
/// Throws Error{unsupported} when the model has no template, and what ChatTemplate::render throws.
NIBBLE_API std::vector<Token> chat_tokens(const Model& model, std::span<const ChatMessage> messages,
                                          ChatRenderOptions options = {});

/// Not thread-safe; model and context must outlive it.
class NIBBLE_API Chat {
 public:
  /// `system`: the first message, when not empty. Throws Error{unsupported} when the model has no template.
  Chat(const Model& model, Model::Context& context, GeneratorOptions options = {}, std::string system = {});

  /// One turn: the user's text in, the model's answer out. Both join the messages; after an error neither.
  GenerateResult send(std::string user, const TextCallback& callback = {}, std::stop_token stop = {});

  std::span<const ChatMessage> messages() const noexcept { return messages_; }
  Generator& generator() noexcept { return generator_; }

 private:
  const Model* model_;
  Generator generator_;
  std::vector<ChatMessage> messages_;
};

}  // namespace nibble
