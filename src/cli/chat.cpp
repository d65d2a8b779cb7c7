// SPDX-License-Identifier: MIT
// nibble chat: a conversation through the model's own template, at a terminal or through pipes: each line of
// standard input is one message, answers go to stdout. /exit or the end of input ends it; Ctrl-C ends an
// answer, and at the prompt the program.
#include <unistd.h>

#include <iostream>
#include <memory>

#include "cli/common.hpp"
#include "nibble/runtime/chat.hpp"

namespace nibble::cli {

namespace {

/// False at the end of input, after /exit or when interrupted.
bool read_message(std::string& message, bool terminal) {
  do {
    if (terminal) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, message)) return false;
    if (!message.empty() && message.back() == '\r') message.pop_back();
    if (message == "/exit") return false;
  } while (message.empty());
  return true;
}

}  // namespace

int chat(const ChatOptions& o) {
  const GeneratorOptions options = generator_options(o.sampling, o.compute);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  auto interrupt = std::make_unique<Interrupt>();
  Model::Context context(context_options(o.compute, Numerics::fast));
  const Model model = Model::load(context, o.model, {.stop = interrupt->token()});
  Chat conversation(model, context, options, o.system);
  if (terminal) note("/exit ends the conversation, Ctrl-C an answer");
  std::string message;
  while (read_message(message, terminal)) {
    const GenerateResult r = conversation.send(message, [](std::string_view text, Token) {
      write_out(text);
      return true;
    }, interrupt->token());
    write_out("\n");
    if (r.finish == FinishReason::context_full) note("the context is full; start a new conversation, or raise --ctx");
    if (!interrupt->requested()) continue;
    if (!terminal) return exit_interrupted;
    interrupt.reset();  // one at a time: the old one must have let go of the signals
    interrupt = std::make_unique<Interrupt>();
  }
  if (terminal) std::cerr << std::endl;
  return interrupt->requested() ? exit_interrupted : exit_ok;
}

}  // namespace nibble::cli
