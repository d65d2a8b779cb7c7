// SPDX-License-Identifier: MIT
// Chat templates: the Jinja programs that model files carry to turn messages into prompt text. The
// dialect is jinja2 3.1 in the environment of Hugging Face transformers (immutable sandbox, trim_blocks,
// lstrip_blocks, loop controls, tojson, raise_exception, strftime_now), and output is equal to the byte.
// A template is a hostile program: steps, memory, recursion and output are bounded, it reaches no file
// and nothing but the data it is given, and what is not supported is an error naming it and its line.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nibble/core/export.hpp"
#include "nibble/core/result.hpp"
#include "nibble/text/value.hpp"

namespace nibble {

/// Bounds on one template; exceeding one is Error{out_of_memory} naming it.
struct ChatTemplateLimits {
  std::size_t max_template_bytes = std::size_t{1} << 20;
  std::size_t max_output_bytes = std::size_t{64} << 20;  ///< of the output, and of any one string on the way
  std::size_t max_steps = 5'000'000;  ///< nodes evaluated, list items made, 32-byte pieces of text copied
  std::size_t max_depth = 1000;        ///< nested evaluations: expressions, blocks and macro calls
};

/// One turn of a conversation.
struct ChatMessage {
  std::string role;
  std::string content;
  Value extra = {};  ///< a map of further members (name, tool_calls, a content of parts); may replace content
};

/// What a template sees besides the messages.
struct ChatRenderOptions {
  bool add_generation_prompt = true;
  std::string bos_token = {};
  std::string eos_token = {};
  Value tools = nullptr;                ///< list of tool descriptions; none when the model gets no tools
  Value variables = {};                 ///< a map of further variables (enable_thinking, ...)
  std::optional<std::tm> now = {};      ///< local time for strftime_now; the clock's when absent
};

/// A parsed template. Immutable; const members may be called from several threads at once.
class NIBBLE_API ChatTemplate {
 public:
  /// Parses `source`. Errors, each with the line: malformed (syntax), unsupported (a tag, filter or test
  /// that is not implemented), out_of_memory (too long, nested too deeply).
  explicit ChatTemplate(const std::string& source, const ChatTemplateLimits& limits = {});
  static Result<ChatTemplate> try_parse(const std::string& source, const ChatTemplateLimits& limits = {});

  /// The prompt text of a conversation. Errors, each with the line: invalid_argument with the template's own
  /// message (raise_exception), malformed (an operation that fails on this data, as in Python), unsupported,
  /// out_of_memory (a limit). Nothing of the text is returned then.
  std::string render(std::span<const ChatMessage> messages, const ChatRenderOptions& options = {}) const;

  /// Renders with `context`, a map of all variables (messages included), and nothing else.
  std::string render(const Value& context, const std::optional<std::tm>& now = {}) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace nibble
