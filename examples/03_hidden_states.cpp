// SPDX-License-Identifier: MIT
// Read the residual stream, and steer it: the difference of the hidden states of two prompts at one layer,
// added to every token of a third, pushes the answer in its direction (activation addition,
// https://arxiv.org/abs/2308.10248).
//   03_hidden_states MODEL.gguf
#include <iostream>
#include <nibble/nibble.hpp>

using namespace nibble;

/// The hidden state of the last token after `layer`, through the pieces of a forward pass.
std::vector<float> hidden_after(const Model& model, Context& context, const std::string& text, Index layer) {
  const std::vector<Token> tokens = model.tokenizer().encode(text);
  Matrix<float> hidden({static_cast<Index>(tokens.size()), model.hidden()});
  SequenceState state = model.new_sequence({.max_tokens = 64});
  model.embed(context, tokens, hidden);
  model.run_layers(context, hidden, state, 0, layer + 1);  // the layers above are never computed
  const auto last = hidden.view().row(hidden.extent(0) - 1);
  return {last.begin(), last.end()};
}

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: 03_hidden_states MODEL.gguf\n", 2;
  Context context;
  const Model model = Model::load(context, argv[1]);
  const Index layer = model.layers() / 2;
  std::vector<float> direction = hidden_after(model, context, "I love this, it is wonderful", layer);
  const std::vector<float> other = hidden_after(model, context, "I hate this, it is terrible", layer);
  for (std::size_t i = 0; i < direction.size(); ++i) direction[i] -= other[i];

  const std::vector<Token> prompt = model.tokenizer().encode("I think this book is");
  for (const float strength : {-2.0f, 0.0f, 2.0f}) {
    SequenceState state = model.new_sequence({.max_tokens = 64});
    const auto steer = [&](Index at, MatrixView<float> hidden) {
      if (at == layer)
        for (Index t = 0; t < hidden.rows(); ++t)
          for (Index i = 0; i < hidden.cols(); ++i) hidden(t, i) += strength * direction[static_cast<std::size_t>(i)];
      return LayerAction::proceed;  // stop would end the pass here, without logits
    };
    const BatchItem item{.sequence = &state, .tokens = prompt};
    const Logits logits = model.forward(context, {&item, 1}, LayerObserver(steer));
    std::cout << strength << ": '" << model.tokenizer().token_bytes(argmax(logits.row(0))) << "'\n";
  }
}
