// SPDX-License-Identifier: MIT
// A generation loop of one's own: the model, a sequence and a sampler are plain objects.
//   02_custom_loop MODEL.gguf
#include <iostream>
#include <nibble/nibble.hpp>

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: 02_custom_loop MODEL.gguf\n", 2;
  nibble::Context context;
  const auto model = nibble::Model::load(context, argv[1]);
  auto sequence = model.new_sequence({.max_tokens = 256});
  nibble::Sampler sample({.temperature = 0});
  nibble::TokenStream text(model.tokenizer());

  std::cout << "The three primary colours are";
  std::vector<nibble::Token> tokens = model.tokenizer().encode("The three primary colours are");
  for (int step = 0; step < 24; ++step) {
    const nibble::BatchItem item{.sequence = &sequence, .tokens = tokens};
    const nibble::Logits logits = model.forward(context, {&item, 1});
    const nibble::Token next = sample(logits.row(0));
    if (model.tokenizer().is_end(next)) break;
    std::cout << text.push(next) << std::flush;  // never half a character
    tokens = {next};
  }
  std::cout << text.flush() << "\n";
}
