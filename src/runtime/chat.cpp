// SPDX-License-Identifier: MIT
#include "nibble/runtime/chat.hpp"

#include <algorithm>
#include <utility>

namespace nibble {

namespace {

const ChatTemplate& template_of(const Model& model) {
  const ChatTemplate* t = model.chat_template();
  if (t == nullptr)
    throw Error(Errc::unsupported, "the model has no chat template; generate from a plain prompt instead");
  return *t;
}

/// Spellings of control tokens, the longest first.
std::vector<std::string> control_texts(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (std::size_t t = 0; t < tokenizer.vocab_size(); ++t) {
    const auto token = static_cast<Token>(t);
    if (tokenizer.token_type(token) == TokenType::control) texts.push_back(tokenizer.token_bytes(token));
  }
  std::erase_if(texts, [](const std::string& s) { return s.empty(); });
  std::sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return texts;
}

/// Texts taken out of messages before rendering, each with a stand-in that no vocabulary has: the template
/// sees the stand-in, and the text is put back as plain text when its neighbours are tokens already.
class Substitutes {
 public:
  /// Replaces spellings of control tokens in `text`.
  std::string take_out(const std::string& text, const std::vector<std::string>& spellings) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto found = std::find_if(spellings.begin(), spellings.end(),
                                      [&](const std::string& s) { return text.compare(at, s.size(), s) == 0; });
      if (found == spellings.end()) {
        out += text[at++];
        continue;
      }
      // U+10FFFE is a noncharacter: it has no meaning in any text.
      out += "\xF4\x8F\xBF\xBE" + std::to_string(originals_.size()) + "\xF4\x8F\xBF\xBE";
      originals_.push_back(*found);
      at += found->size();
    }
    return out;
  }

  std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view rendered) const {
    static constexpr std::string_view mark = "\xF4\x8F\xBF\xBE";
    std::vector<Token> tokens;
    const auto append = [&](std::string_view text, bool special) {
      const auto more = tokenizer.encode(text, {.add_special = false, .parse_special = special});
      tokens.insert(tokens.end(), more.begin(), more.end());
    };
    while (!originals_.empty()) {
      const std::size_t begin = rendered.find(mark);
      const std::size_t end = begin == rendered.npos ? rendered.npos : rendered.find(mark, begin + mark.size());
      if (end == rendered.npos) break;
      const auto digits = rendered.substr(begin + mark.size(), end - begin - mark.size());
      append(rendered.substr(0, begin), true);
      append(original(digits), false);
      rendered.remove_prefix(end + mark.size());
    }
    append(rendered, true);
    return tokens;
  }

 private:
  std::string_view original(std::string_view digits) const {
    std::size_t index = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || index >= originals_.size()) return digits;
      index = index * 10 + static_cast<std::size_t>(c - '0');
    }
    return index < originals_.size() ? std::string_view(originals_[index]) : digits;
  }
  std::vector<std::string> originals_;
};

}  // namespace

std::vector<Token> chat_tokens(const Model& model, std::span<const ChatMessage> messages, ChatRenderOptions options) {
  const ChatTemplate& chat_template = template_of(model);
  const Tokenizer& tokenizer = model.tokenizer();
  if (options.bos_token.empty() && tokenizer.bos()) options.bos_token = tokenizer.token_bytes(*tokenizer.bos());
  if (options.eos_token.empty() && tokenizer.eos()) options.eos_token = tokenizer.token_bytes(*tokenizer.eos());

  Substitutes substitutes;
  std::vector<ChatMessage> plain(messages.begin(), messages.end());
  const std::vector<std::string> spellings = control_texts(tokenizer);
  for (ChatMessage& m : plain) m.content = substitutes.take_out(m.content, spellings);
  std::vector<Token> tokens = substitutes.encode(tokenizer, chat_template.render(plain, options));
  if (tokenizer.add_bos() && tokenizer.bos() && (tokens.empty() || tokens.front() != *tokenizer.bos()))
    tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

Chat::Chat(const Model& model, Model::Context& context, GeneratorOptions options, std::string system)
    : model_((template_of(model), &model)), generator_(model, context, std::move(options)) {
  if (!system.empty()) messages_.push_back({"system", std::move(system)});
}

GenerateResult Chat::send(std::string user, const TextCallback& callback, std::stop_token stop) {
  messages_.push_back({"user", std::move(user)});
  try {
    const std::vector<Token> conversation = chat_tokens(*model_, messages_);
    const auto kept = static_cast<std::size_t>(generator_.rewind(conversation));
    GenerateResult result = generator_.generate(std::span(conversation).subspan(kept), callback, std::move(stop));
    messages_.push_back({"assistant", result.text});
    return result;
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

}  // namespace nibble
