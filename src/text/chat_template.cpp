// SPDX-License-Identifier: MIT
// ChatTemplate: the parsed program behind the public class, and the variables a conversation becomes.
#include "nibble/text/chat_template.hpp"

#include "text/jinja/interpreter.hpp"
#include "text/jinja/parser.hpp"

namespace nibble {

struct ChatTemplate::Program {
  jinja::Tree tree;
  ChatTemplateLimits limits;
};

ChatTemplate::ChatTemplate(const std::string& source, const ChatTemplateLimits& limits) {
  if (source.size() > limits.max_template_bytes) {
    throw Error(Errc::out_of_memory, "chat template: " + std::to_string(source.size()) +
                                         " bytes, the limit is " + std::to_string(limits.max_template_bytes));
  }
  try {
    program_ = std::make_shared<const Program>(Program{jinja::parse(source), limits});
  } catch (const Error& e) {
    throw e.in("chat template");
  }
}

Result<ChatTemplate> ChatTemplate::try_parse(const std::string& source, const ChatTemplateLimits& limits) {
  return try_invoke([&] { return ChatTemplate(source, limits); });
}

std::string ChatTemplate::render(const Value& context, const std::optional<std::tm>& now) const {
  NIBBLE_EXPECTS(context.is_undefined() || context.as_map(), "a chat template's context must be a map");
  try {
    return jinja::Interpreter(program_->tree, program_->limits, now).run(context);
  } catch (const Error& e) {
    throw e.in("chat template");
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options) const {
  NIBBLE_EXPECTS(options.variables.is_undefined() || options.variables.as_map(), "variables must be a map");
  Value::List turns;
  turns.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    Value turn = Value::map({{"role", message.role}, {"content", message.content}});
    NIBBLE_EXPECTS(message.extra.is_undefined() || message.extra.as_map(),
                   "a message's extra members must be a map");
    if (const Value::Map* extra = message.extra.as_map()) {
      for (const Value::Member& m : *extra) turn.set(m.key, m.value);
    }
    turns.push_back(std::move(turn));
  }
  Value context = Value::map({{"messages", Value::list(std::move(turns))},
                              {"tools", options.tools},
                              {"documents", nullptr},
                              {"add_generation_prompt", options.add_generation_prompt},
                              {"bos_token", options.bos_token},
                              {"eos_token", options.eos_token}});
  if (const Value::Map* variables = options.variables.as_map()) {
    for (const Value::Member& m : *variables) context.set(m.key, m.value);
  }
  return render(context, options.now);
}

}  // namespace nibble
