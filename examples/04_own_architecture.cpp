// SPDX-License-Identifier: MIT
// An architecture that nibble does not ship, built from its layers: attention and feed-forward side by side
// on the same normalized input (x += attention(norm(x)) + ffn(norm(x)), as in GPT-J), with random weights
// that exist only in memory. Nothing is registered anywhere.
#include <cmath>
#include <iostream>
#include <nibble/nibble.hpp>

using namespace nibble;
using B = cpu::Backend;
using Cpu = ExecutionContext<B>;

constexpr Index vocabulary = 64, hidden = 64, heads = 4, head_dim = 16, ffn = 128, depth = 2;

/// Any matrix will do: FP32 from memory here, a quantized one just as well (PackedMatrix::pack takes both).
layers::Linear<B> random_linear(Cpu& context, Random& random, Index out, Index in) {
  Matrix<float> w({out, in});
  for (float& x : w.span()) x = float(random.normal() / std::sqrt(double(in)));
  return {PackedMatrix<B>::pack(context, std::as_const(w).view()), {}};
}

layers::RmsNorm<B> unit_norm() {
  Vector<float> weight({hidden});
  for (float& x : weight.span()) x = 1;
  return {std::move(weight), 1e-5f};
}

struct ParallelBlock {
  layers::RmsNorm<B> norm;
  layers::SelfAttention<B> attention;
  layers::GatedFeedForward<B> feed_forward;

  void operator()(Cpu& context, MatrixView<float> x, VectorView<const Index> positions, SequenceRows sequence) const {
    ArenaScope scope(context.arena());
    const auto normed = context.arena().take<float>(x.extents());
    const auto head_rows = context.arena().take<float>(x.extents());
    const auto inner = context.arena().take<float>(Extents<2>{x.rows(), ffn});
    norm(context, x, normed);
    attention.heads(context, normed, positions, {&sequence, 1}, head_rows);
    feed_forward.inner(context, normed, inner);
    attention.output.add_to(context, head_rows, x);
    feed_forward.down.add_to(context, inner, x);
  }
};

int main() {
  Cpu context;
  Random random(7);
  std::vector<ParallelBlock> blocks(depth);
  for (ParallelBlock& b : blocks) {
    const RopeSpec rope{.dimensions = head_dim};
    b.norm = unit_norm();
    b.attention.spec = {.heads = heads, .kv_heads = heads, .head_dim = head_dim, .value_dim = head_dim,
                        .scale = 1 / std::sqrt(double(head_dim)), .rope = rope};
    b.attention.frequencies = layers::rope_frequencies(rope);
    for (auto* l : {&b.attention.query, &b.attention.key, &b.attention.value, &b.attention.output})
      *l = random_linear(context, random, hidden, hidden);
    b.feed_forward.gate = random_linear(context, random, ffn, hidden);
    b.feed_forward.up = random_linear(context, random, ffn, hidden);
    b.feed_forward.down = random_linear(context, random, hidden, ffn);
  }
  const layers::Linear<B> embedding = random_linear(context, random, vocabulary, hidden);  // tied with the head
  const layers::RmsNorm<B> final_norm = unit_norm();

  const std::vector<LayerState> shape(depth, LayerState{{DType::f32, heads, head_dim, head_dim}, 0});
  SequenceState state(shape, 32);
  Sampler sample({.temperature = 0});
  Matrix<float> x({1, hidden}), logits({1, vocabulary});
  Token token = 1;
  for (Index position = 0; position < 16; ++position) {
    std::cout << token << ' ';
    run(context, Embedding{1.0f}, VectorView<const Token>(std::span(&token, 1)), embedding.weight, x.view());
    state.reserve(1);
    for (Index l = 0; l < depth; ++l)
      blocks[std::size_t(l)](context, x, VectorView<const Index>(std::span(&position, 1)), {0, 1, state.view(l, 1)});
    state.advance(1);
    final_norm(context, x, x);
    embedding(context, x, logits);
    token = sample(logits.view().row(0));
  }
  std::cout << '\n';
}
