// SPDX-License-Identifier: MIT
// Real models against llama.cpp (tests/parity/make_llama_cpp.py): the exact mode on the quantized file must
// equal an FP32 forward pass of the dequantized weights; the fast mode must lose no more than llama.cpp
// itself loses between the two; greedy decoding must give the same text up to near ties.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nibble/model/model.hpp"
#include "support/catch.hpp"
#include "support/golden_reader.hpp"

using namespace nibble;

namespace {

constexpr double max_kl = 1e-5;
constexpr std::size_t top = 64, greedy_top = 8;

struct Oracle {
  GgufFile file;
  std::optional<GgufFile> full;  ///< all logits, when they were made on this machine
  std::string model;
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;      ///< compared in the exact mode
  std::vector<std::int32_t> own_positions;  ///< llama.cpp's own divergence is a mean over these
};

/// Nothing, and a visible word why, when the model is not here.
std::optional<Oracle> open_oracle(const std::string& name) {
  const std::string golden = std::string(NIBBLE_GOLDEN_DIR) + "/llama_cpp_" + name + ".gguf";
  const std::string dump = std::string(NIBBLE_GOLDEN_DIR) + "/../../build/parity/llama_cpp_" + name + ".gguf";
  Oracle o{GgufFile::open(golden), std::nullopt, "", {}, {}, {}};
  o.model = std::string(NIBBLE_MODELS_DIR) + "/" + o.file.get<std::string>("golden.model_file");
  std::error_code none;
  if (!std::filesystem::exists(o.model, none)) {
    WARN("skipped: " << o.model << " is absent");
    return std::nullopt;
  }
  REQUIRE(std::filesystem::file_size(o.model) == o.file.get<std::uint64_t>("golden.model_bytes"));
  if (std::filesystem::exists(dump, none)) o.full = GgufFile::open(dump);
  else WARN("no " << dump << ": comparing the " << top << " likeliest tokens of each position only");
  o.tokens = golden::values<Token>(o.file, "tokens");
  o.positions = golden::values<std::int32_t>(o.full ? *o.full : o.file, "positions");
  o.own_positions = golden::values<std::int32_t>(o.file, "own_positions");
  return o;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = double(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - max);
  return max + std::log(sum);
}

/// KL(p || q) in nats.
double divergence(std::span<const float> p, std::span<const float> q) {
  const double lp = log_sum_exp(p), lq = log_sum_exp(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = double(p[i]) - lp;
    sum += std::exp(log_p) * (log_p - (double(q[i]) - lq));
  }
  return sum;
}

/// KL with all but p's likeliest tokens lumped into one: never larger than KL (log-sum inequality), and equal
/// to it when the lumped tokens keep their proportions.
double lumped_divergence(std::span<const std::int32_t> ids, std::span<const float> logits, double lp,
                         std::span<const float> q) {
  const double lq = log_sum_exp(q);
  double sum = 0, rest_p = 1, rest_q = 1;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double log_p = double(logits[i]) - lp, log_q = double(q[static_cast<std::size_t>(ids[i])]) - lq;
    sum += std::exp(log_p) * (log_p - log_q);
    rest_p -= std::exp(log_p);
    rest_q -= std::exp(log_q);
  }
  if (rest_p > 1e-9) sum += rest_p * std::log(rest_p / std::max(rest_q, 1e-300));
  return sum;
}

/// Final hidden states of all tokens, keys and values in FP32.
Matrix<float> hidden_states(Model::Context& ctx, const Model& model, std::span<const Token> tokens) {
  const auto n = static_cast<Index>(tokens.size());
  Matrix<float> hidden({n, model.hidden()});
  SequenceState state = model.new_sequence({.max_tokens = n, .dtype = DType::f32});
  model.embed(ctx, tokens, hidden);
  model.run_layers(ctx, hidden, state, 0, model.layers());
  return hidden;
}

/// Logits of up to `block` positions, [positions, vocabulary].
constexpr std::size_t block = 8;

Matrix<float> logits_at(Model::Context& ctx, const Model& model, const Matrix<float>& hidden,
                        std::span<const std::int32_t> positions) {
  const auto n = static_cast<Index>(positions.size());
  Matrix<float> rows({n, model.hidden()}), logits({n, model.vocabulary()});
  for (Index i = 0; i < n; ++i)
    std::ranges::copy(hidden.view().row(positions[static_cast<std::size_t>(i)]), rows.view().row(i).begin());
  model.head(ctx, rows.view(), logits);
  return logits;
}

/// The position's KL of our exact logits from llama.cpp's, or a lower bound of it.
double exact_divergence(const Oracle& o, std::size_t row, std::span<const float> logits) {
  if (o.full) {
    const auto all = std::span(reinterpret_cast<const float*>(o.full->tensor("logits").bytes.data()),
                               o.positions.size() * logits.size());
    return divergence(all.subspan(row * logits.size(), logits.size()), logits);
  }
  const auto ids = golden::values<std::int32_t>(o.file, "top_ids");
  const auto values = golden::values<float>(o.file, "top_logits");
  return lumped_divergence(std::span(ids).subspan(row * top, top), std::span(values).subspan(row * top, top),
                           golden::values<double>(o.file, "log_sum_exp")[row], logits);
}

struct Mean {
  double sum = 0, largest = 0;
  std::size_t count = 0;
  void add(double x) {
    sum += x;
    largest = std::max(largest, x);
    ++count;
  }
  double value() const { return sum / double(count); }
};

std::ptrdiff_t best(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

/// The exact mode against the oracle, the fast mode against the exact one.
void check_divergence(const Oracle& o, const Model& model, Model::Context& ctx) {
  ctx.set_numerics(Numerics::exact);
  const Matrix<float> exact_hidden = hidden_states(ctx, model, o.tokens);
  ctx.set_numerics(Numerics::fast);
  const Matrix<float> fast_hidden = hidden_states(ctx, model, o.tokens);
  Index window = 0;
  for (const BlockSpec& b : model.spec().blocks) window = std::max(window, b.attention.window);

  Mean exact, beyond, fast, same;
  std::size_t row = 0;  // of o.positions, which are among own_positions
  for (std::size_t at = 0; at < o.own_positions.size(); at += block) {
    const auto positions =
        std::span(o.own_positions).subspan(at, std::min(block, o.own_positions.size() - at));
    ctx.set_numerics(Numerics::exact);
    const Matrix<float> p = logits_at(ctx, model, exact_hidden, positions);
    ctx.set_numerics(Numerics::fast);
    const Matrix<float> q = logits_at(ctx, model, fast_hidden, positions);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto exact_row = p.view().row(Index(i)), fast_row = q.view().row(Index(i));
      fast.add(divergence(exact_row, fast_row));
      same.add(best(exact_row) == best(fast_row));
      if (row == o.positions.size() || o.positions[row] != positions[i]) continue;
      const double kl = exact_divergence(o, row++, exact_row);
      exact.add(kl);
      if (window > 0 && positions[i] >= window) beyond.add(kl);
    }
  }
  ctx.set_numerics(Numerics::exact);
  REQUIRE(row == o.positions.size());

  WARN("exact mode: mean KL " << exact.value() << ", largest " << exact.largest << " over " << exact.count
                              << " positions");
  CHECK(exact.value() <= max_kl);
  CHECK(exact.largest <= 10 * max_kl);
  if (window > 0) {
    REQUIRE(beyond.count >= 40);
    WARN("beyond the window of " << window << ": mean KL " << beyond.value());
    CHECK(beyond.value() <= max_kl);
  }
  const double own = o.file.get<double>("golden.own_kl");
  WARN("fast mode: mean KL to exact " << fast.value() << " (llama.cpp's own " << own << "), same top-1 "
                                      << same.value() << " (llama.cpp's own "
                                      << o.file.get<double>("golden.own_top1") << ")");
  CHECK(fast.value() > 0);
  CHECK(fast.value() <= own);
}

/// Token by token; where the choice differs, the two must be closer than twice the logits' difference, and
/// the oracle's token goes on.
void check_greedy(const Oracle& o, const Model& model, Model::Context& ctx) {
  const auto want = golden::values<std::int32_t>(o.file, "greedy_ids");
  const auto ids = golden::values<std::int32_t>(o.file, "greedy_top_ids");
  const auto values = golden::values<float>(o.file, "greedy_top_logits");
  const auto prompt = o.file.get<std::size_t>("golden.prompt_tokens");
  SequenceState state = model.new_sequence({.max_tokens = 512, .dtype = DType::f32});
  std::vector<Token> next(o.tokens.begin(), o.tokens.begin() + static_cast<std::ptrdiff_t>(prompt));
  int ties = 0;
  for (std::size_t step = 0; step < want.size(); ++step) {
    const BatchItem item{.sequence = &state, .tokens = next};
    const Logits logits = model.forward(ctx, {&item, 1});
    const auto row = logits.row(0);
    const auto choice = static_cast<Token>(best(row));
    double difference = 0;
    for (std::size_t i = step * greedy_top; i < (step + 1) * greedy_top; ++i)
      difference =
          std::max(difference, std::abs(double(row[static_cast<std::size_t>(ids[i])]) - double(values[i])));
    if (choice != want[step]) {
      const double gap = double(values[step * greedy_top]) - double(values[step * greedy_top + 1]);
      INFO("step " << step << ": token " << choice << " instead of " << want[step] << ", whose lead is "
                   << gap);
      CHECK(gap < 2 * difference);
      ++ties;
    }
    next = {want[step]};
  }
  WARN("greedy: " << want.size() << " tokens, " << ties << " near ties decided otherwise");
}

void check_model(const std::string& name) {
  const std::optional<Oracle> o = open_oracle(name);
  if (!o) return;
  Model::Context ctx({.numerics = Numerics::exact});
  const Model model = Model::load(ctx, o->model, {.tokenizer = false});
  check_divergence(*o, model, ctx);
  check_greedy(*o, model, ctx);
}

}  // namespace

TEST_CASE("SmolLM2-135M Q4_1 equals llama.cpp on dequantized weights", "[model]") { check_model("smollm2"); }
TEST_CASE("Qwen2.5-Coder-0.5B Q4_K_M equals llama.cpp on dequantized weights", "[model]") {
  check_model("qwen2");
}
TEST_CASE("Gemma-3-270M Q4_K_M equals llama.cpp on dequantized weights", "[model]") { check_model("gemma3"); }
