// SPDX-License-Identifier: MIT
#include "nibble/runtime/score.hpp"

#include <algorithm>
#include <string>

#include "nibble/core/parallel.hpp"
#include "nibble/runtime/logits.hpp"

namespace nibble {

Index logit_rows_at_once(Index vocabulary) noexcept {
  constexpr Index values = 8 << 20;
  return std::clamp<Index>(values / std::max<Index>(vocabulary, 1), 1, 64);
}

std::vector<float> score(const Model& model, Model::Context& context, std::span<const Token> tokens) {
  for (const Token t : tokens)
    NIBBLE_EXPECTS(t >= 0 && t < model.vocabulary(), "token " + std::to_string(t) + " is outside the vocabulary of " +
                                                         std::to_string(model.vocabulary()));
  if (tokens.size() < 2) return {};
  const auto n = static_cast<Index>(tokens.size()) - 1;  // the last token predicts nothing that was given
  const DType dtype = context.numerics() == Numerics::exact ? DType::f32 : DType::f16;
  SequenceState state = model.new_sequence({.max_tokens = n, .dtype = dtype});
  Matrix<float> hidden({n, model.hidden()});
  model.embed(context, tokens.first(static_cast<std::size_t>(n)), hidden);
  model.run_layers(context, hidden, state, 0, model.layers());

  std::vector<float> result(static_cast<std::size_t>(n));
  Matrix<float> logits({std::min(n, logit_rows_at_once(model.vocabulary())), model.vocabulary()});
  for (Index begin = 0; begin < n; begin += logits.extent(0)) {
    const Index rows = std::min(logits.extent(0), n - begin);
    const auto block = logits.view().slice(0, 0, rows);
    model.head(context, hidden.view().slice(0, begin, rows), block);
    parallel_for(context.executor(), rows, 1, [&](Index first, Index last, Index) {
      for (Index r = first; r < last; ++r) {
        const auto row = std::span<const float>(block.row(r));
        const Token next = tokens[static_cast<std::size_t>(begin + r + 1)];
        result[static_cast<std::size_t>(begin + r)] =
            static_cast<float>(static_cast<double>(row[static_cast<std::size_t>(next)]) - log_sum_exp(row));
      }
    });
  }
  return result;
}

}  // namespace nibble
