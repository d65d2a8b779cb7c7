// SPDX-License-Identifier: MIT
// Any bytes as a chat template. The first byte picks a conversation; the rest is parsed and rendered under
// small limits. Whatever happens must be text or an Error, and the same both times.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nibble/text/chat_template.hpp"

namespace {

using nibble::ChatMessage;
using nibble::ChatRenderOptions;
using nibble::ChatTemplate;
using nibble::Value;

ChatRenderOptions options() {
  ChatRenderOptions o;
  o.bos_token = "<s>";
  o.tools =
      Value::list({Value::map({{"name", "f"}, {"parameters", Value::map({{"x", 1.5}, {"y", nullptr}})}})});
  o.variables = Value::map({{"n", 7},
                            {"l", Value::list({1, "b", true, Value::list({2})})},
                            {"d", Value::map({{"a", 1}, {"b", Value::list({1, "x"})}})},
                            {"ls", Value::list({"b", "A", "a"})},
                            {"i", 7},
                            {"s", "Gr\xC3\xBC\xC3\x9F \xF0\x9F\xA6\x99\x80"}});
  o.now = std::tm{};
  return o;
}

std::string outcome(const ChatTemplate& t, std::size_t turns) {
  static const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"user", " Hi {{ x }}\n"}, {"assistant", "<think>a</think>b"}, {"user", "?"}};
  static const ChatRenderOptions with_tools = options();
  const auto result = nibble::try_invoke(
      [&] { return t.render(std::span(messages).subspan(messages.size() - turns), with_tools); });
  return result.has_value() ? *result : result.error().what();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  nibble::ChatTemplateLimits limits;
  limits.max_output_bytes = 1 << 16;
  limits.max_steps = 20'000;
  limits.max_depth = 200;
  const std::string source(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto parsed = ChatTemplate::try_parse(source, limits);
  if (!parsed.has_value()) return 0;
  if (outcome(*parsed, data[0] % 5) != outcome(*parsed, data[0] % 5)) __builtin_trap();
  return 0;
}
