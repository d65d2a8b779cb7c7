// SPDX-License-Identifier: MIT
// Load a model, continue a prompt, print the text as it is made.
//   01_generate MODEL.gguf ["Once upon a time"]
#include <iostream>
#include <nibble/nibble.hpp>

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: 01_generate MODEL.gguf [PROMPT]\n", 2;
  const std::string prompt = argc > 2 ? argv[2] : "Once upon a time";
  try {
    nibble::Context context;
    const auto model = nibble::Model::load(context, argv[1]);
    nibble::Generator generator(model, context, {.sampler = {.temperature = 0}, .max_tokens = 48});

    std::cout << prompt;
    const auto result = generator.generate(model.tokenizer().encode(prompt), [](std::string_view text, nibble::Token) {
      std::cout << text << std::flush;
      return true;  // false would end it here
    });
    std::cout << "\n[" << result.tokens.size() << " tokens, finish: " << to_string(result.finish) << "]\n";
  } catch (const nibble::Error& e) {
    return std::cerr << e.what() << "\n", 1;
  }
}
