// SPDX-License-Identifier: MIT
// The small random decoders of tests/golden/make_tiny_models.py and what transformers computed with them:
// reading both, running a model under observation, and sources that tamper with weights or metadata.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nibble/model/model.hpp"
#include "support/golden_reader.hpp"

namespace tiny {

using nibble::Index;
using nibble::Token;

inline constexpr std::string_view names[] = {"llama", "llama_linear", "llama3",
                                             "qwen2", "gemma3",       "gemma3_caps"};

inline std::string path(std::string_view name, std::string_view ending) {
  return std::string(NIBBLE_GOLDEN_DIR) + "/tiny_" + std::string(name) + std::string(ending);
}

/// Golden rows exist at `positions` only.
struct Golden {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<float>> stages;  ///< after the embedding, after each layer, logits: row-major
  std::vector<double> tolerance;           ///< per stage, in units of the stage's root mean square

  static Golden load(std::string_view name) {
    const auto file = nibble::GgufFile::open(path(name, ".golden.gguf"));
    Golden g;
    g.tokens = golden::values<Token>(file, "tokens");
    g.positions = golden::values<std::int32_t>(file, "positions");
    for (int layer = -1; file.find_tensor("hidden." + std::to_string(layer)) != nullptr; ++layer)
      g.stages.push_back(golden::values<float>(file, "hidden." + std::to_string(layer)));
    g.stages.push_back(golden::values<float>(file, "logits"));
    // The golden values are exact to one FP32 rounding. transformers' own FP32 run is off by float32_error,
    // the largest of thousands of sums of the same lengths as ours in another order: a correct FP32 run stays
    // within a small multiple of that, while a wrong formula is off by orders of magnitude. Four times it,
    // plus four roundings where that error happens to be zero.
    for (const float e : file.get<std::vector<float>>("golden.float32_error"))
      g.tolerance.push_back(4.0 * double(e) + 4.0 * std::ldexp(1.0, -24) * 4.0);
    return g;
  }
};

/// Stages as in Golden, but of all positions: [tokens, hidden] each, then logits [tokens, vocabulary].
struct Run {
  std::vector<std::vector<float>> stages;
};

inline nibble::SequenceState new_state(const nibble::Model& model, nibble::DType dtype = nibble::DType::f32) {
  return model.new_sequence({.max_tokens = 512, .dtype = dtype});
}

/// Feeds `tokens` in pieces of `chunk` (0: all at once) and keeps hidden states and logits of every position.
inline Run run(nibble::Model::Context& ctx, const nibble::Model& model, std::span<const Token> tokens,
               Index chunk = 0, nibble::DType dtype = nibble::DType::f32) {
  nibble::SequenceState state = new_state(model, dtype);
  Run result;
  result.stages.resize(static_cast<std::size_t>(model.layers()) + 2);
  const auto append = [](std::vector<float>& to, nibble::MatrixView<const float> rows) {
    for (Index r = 0; r < rows.rows(); ++r) to.insert(to.end(), rows.row(r).begin(), rows.row(r).end());
  };
  const auto keep = [&](Index layer, nibble::MatrixView<float> hidden) {
    append(result.stages[static_cast<std::size_t>(layer + 1)], hidden);
    return nibble::LayerAction::proceed;
  };
  const std::size_t step = chunk > 0 ? static_cast<std::size_t>(chunk) : tokens.size();
  for (std::size_t at = 0; at < tokens.size(); at += step) {
    const nibble::BatchItem item{.sequence = &state,
                                 .tokens = tokens.subspan(at, std::min(step, tokens.size() - at)),
                                 .logits = nibble::LogitsOf::all};
    const nibble::Logits logits = model.forward(ctx, {&item, 1}, keep);
    append(result.stages.back(), logits.view());
  }
  return result;
}

/// Logits of every position, without an observer.
inline std::vector<float> logits_of(nibble::Model::Context& ctx, const nibble::Model& model,
                                    std::span<const Token> tokens) {
  nibble::SequenceState state = new_state(model);
  const nibble::BatchItem item{.sequence = &state, .tokens = tokens, .logits = nibble::LogitsOf::all};
  const nibble::Logits logits = model.forward(ctx, {&item, 1});
  return {logits.row(0).data(), logits.row(0).data() + logits.rows() * logits.vocabulary()};
}

/// Largest difference of a stage at the golden positions, in units of its root mean square. Infinite when
/// shapes differ or anything is not finite.
inline double distance(const Golden& golden, const Run& got, std::size_t stage) {
  const double never = std::numeric_limits<double>::infinity();
  if (got.stages.size() != golden.stages.size()) return never;
  const std::vector<float>& want = golden.stages[stage];
  const std::vector<float>& have = got.stages[stage];
  const std::size_t width = want.size() / golden.positions.size();
  if (have.size() != width * golden.tokens.size()) return never;
  double worst = 0, square = 0;
  for (std::size_t r = 0; r < golden.positions.size(); ++r) {
    for (std::size_t c = 0; c < width; ++c) {
      const double w = double(want[r * width + c]);
      const double d = std::abs(double(have[static_cast<std::size_t>(golden.positions[r]) * width + c]) - w);
      if (!(d < never)) return never;
      worst = std::max(worst, d);
      square += w * w;
    }
  }
  return worst / std::sqrt(square / double(want.size()));
}

/// Largest distance of any stage, in units of its tolerance: at most 1 for a correct model.
inline double mismatch(const Golden& golden, const Run& got) {
  double worst = 0;
  for (std::size_t s = 0; s < golden.stages.size(); ++s)
    worst = std::max(worst, distance(golden, got, s) / golden.tolerance[s]);
  return worst;
}

/// A source with one tensor hidden or replaced by FP32 values of its own.
class TamperedSource final : public nibble::WeightSource {
 public:
  explicit TamperedSource(const nibble::WeightSource& base) : base_(base) {}
  void hide(std::string_view name) { hidden_ = name; }
  void replace(std::string_view name, std::span<const Index> dims, std::vector<float> values) {
    values_ = std::move(values);
    replacement_.add(std::string(name), dims, values_);
  }

  std::optional<nibble::StoredTensor> find(std::string_view name) const override {
    if (name == hidden_) return std::nullopt;
    const auto own = replacement_.find(name);
    return own ? own : base_.find(name);
  }
  std::vector<std::string_view> names() const override {
    auto all = base_.names();
    std::erase(all, std::string_view(hidden_));
    for (std::string_view n : replacement_.names())
      if (!base_.find(n)) all.push_back(n);
    return all;
  }
  const nibble::Metadata& metadata() const override { return base_.metadata(); }
  const std::string& name() const override { return base_.name(); }

 private:
  const nibble::WeightSource& base_;
  nibble::MemoryWeightSource replacement_;
  std::vector<float> values_;
  std::string hidden_;
};

}  // namespace tiny
