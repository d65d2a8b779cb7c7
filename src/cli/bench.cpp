// SPDX-License-Identifier: MIT
// nibble bench: tokens per second of prefill and decode. Every repetition starts an empty sequence with fresh
// random tokens; only the last token's logits are made, as in generation.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "cli/common.hpp"
#include "nibble/core/random.hpp"
#include "nibble/eval/divergence.hpp"

namespace nibble::cli {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

/// Tokens per second: of the best repetition and on average.
struct Rate {
  double best = 0;
  RunningMean mean;
  void add(Index tokens, double seconds) {
    const double rate = static_cast<double>(tokens) / std::max(seconds, 1e-9);
    best = std::max(best, rate);
    mean.add(rate);
  }
};

class Bench {
 public:
  Bench(const Model& model, Model::Context& context) : model_(model), context_(context) {}

  double prefill(Index tokens) {
    const std::vector<Token> ids = random_tokens(tokens);
    SequenceState state = model_.new_sequence({.max_tokens = tokens});
    const auto start = Clock::now();
    step(state, ids);
    return since(start);
  }
  double decode(Index tokens) {
    SequenceState state = model_.new_sequence({.max_tokens = tokens + 1});
    step(state, random_tokens(1));
    const std::vector<Token> ids = random_tokens(tokens);
    const auto start = Clock::now();
    for (const Token& id : ids) step(state, {&id, 1});
    return since(start);
  }

 private:
  void step(SequenceState& state, std::span<const Token> ids) {
    const BatchItem item{.sequence = &state, .tokens = ids};
    model_.forward(context_, {&item, 1});
  }
  std::vector<Token> random_tokens(Index n) {
    std::vector<Token> ids(static_cast<std::size_t>(n));
    for (Token& t : ids) t = static_cast<Token>(random_.next() % static_cast<std::uint64_t>(model_.vocabulary()));
    return ids;
  }

  const Model& model_;
  Model::Context& context_;
  Random random_{1};
};

}  // namespace

int bench(const BenchOptions& o) {
  const Interrupt interrupt;
  Model::Context context(context_options(o.compute, Numerics::fast, interrupt.token()));
  const auto start = Clock::now();
  const Model model = Model::load(context, o.model, {.stop = interrupt.token(), .tokenizer = false});
  const double load_seconds = since(start);

  Bench runs(model, context);
  ProgressBar bar("bench");
  const Index steps = 1 + o.repetitions;
  runs.prefill(std::min<Index>(std::max<Index>(o.prompt, 1), 32));  // pages in weights and scratch
  bar.update(1, steps);
  Rate prefill, decode;
  for (Index r = 0; r < o.repetitions; ++r) {
    if (o.prompt > 0) prefill.add(o.prompt, runs.prefill(o.prompt));
    if (o.decode > 0) decode.add(o.decode, runs.decode(o.decode));
    bar.update(2 + r, steps);
  }

  Report report;
  const auto rate = [&](const std::string& key, const Rate& v) {
    report.add(key, v.mean.count() > 0 ? ReportValue(v.best) : ReportValue());
    report.add(key + "_mean", v.mean.count() > 0 ? ReportValue(v.mean.mean()) : ReportValue());
  };
  rate("prefill_tokens_per_s", prefill);
  rate("decode_tokens_per_s", decode);
  report.add("load_seconds", load_seconds).add("peak_rss_bytes", peak_rss_bytes());
  report.add("weight_bytes", model.weight_bytes()).add("threads", context.concurrency());
  report.add("isa", cpu::to_string(context.isa()));
  report.add("numerics", context.numerics() == Numerics::exact ? "exact" : "fast");
  report.add("prompt_tokens", o.prompt).add("decode_tokens", o.decode).add("repetitions", o.repetitions);
  write_out(report.render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
