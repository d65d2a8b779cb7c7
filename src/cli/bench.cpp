// SPDX-License-Identifier: MIT
// nibble bench: tokens per second of prefill and decode, as shares of what the machine can do by rates measured
// in the same run, and where the time goes. Every repetition starts an empty sequence with fresh random tokens;
// only the last token's logits are made, as in generation. The profile comes from runs of its own, since
// tracing costs a little.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "cli/common.hpp"
#include "nibble/backend/machine_rates.hpp"
#include "nibble/core/random.hpp"
#include "nibble/eval/divergence.hpp"
#include "nibble/eval/profile.hpp"

namespace nibble::cli {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

/// Tokens per second: of the best repetition, on average, and of each.
struct Rate {
  double best = 0;
  RunningMean mean;
  std::vector<double> all;
  void add(Index tokens, double seconds) {
    const double rate = static_cast<double>(tokens) / std::max(seconds, 1e-9);
    best = std::max(best, rate);
    mean.add(rate);
    all.push_back(rate);
  }
  ReportValue::List list() const { return {all.begin(), all.end()}; }
};

class Bench {
 public:
  /// `profile`, the context's trace where there is one, begins anew with each timed part.
  Bench(const Model& model, Model::Context& context, const BenchOptions& o, Profile* profile = nullptr)
      : model_(model), context_(context), depth_(o.depth), kv_(kv_dtype(o.compute)), profile_(profile) {}

  double prefill(Index tokens) {
    const std::vector<Token> ids = random_tokens(tokens);
    SequenceState state = model_.new_sequence({.max_tokens = tokens, .dtype = kv_});
    const auto start = begin();
    step(state, ids);
    return since(start);
  }
  double decode(Index tokens) {
    const Index before = std::max<Index>(depth_, 1);
    SequenceState state = model_.new_sequence({.max_tokens = tokens + before, .dtype = kv_});
    step(state, random_tokens(before));
    const std::vector<Token> ids = random_tokens(tokens);
    const auto start = begin();
    for (const Token& id : ids) step(state, {&id, 1});
    return since(start);
  }

 private:
  Clock::time_point begin() const {
    if (profile_ != nullptr) profile_->clear();
    return Clock::now();
  }
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
  Index depth_;
  DType kv_;
  Profile* profile_;
  Random random_{1};
};

constexpr std::size_t memory_set = std::size_t{256} << 20;         ///< bytes, beyond any cache
constexpr std::size_t cache_set_per_thread = std::size_t{256} << 10;  ///< bytes, in a core's own cache
constexpr Index profiled_decode = 16;

/// Where the time of one phase went.
struct Phase {
  std::string_view name;
  Index tokens = 0;
  double seconds = 0;  ///< of the traced run
  std::vector<OpClassProfile> classes{};

  /// The least seconds for the phase: of its operations, or of its bytes from memory.
  double least_seconds(const RooflineRates& rates, bool of_bytes) const {
    double least = 0;
    for (const OpClassProfile& c : classes) {
      OpClassProfile part = c;
      if (of_bytes) part.integer_ops = part.bfloat_ops = part.float_ops = 0;
      else part.bytes = 0;
      const BoundTime bound = bound_of(part, rates);
      if (bound.bound != Bound::cache) least += bound.seconds;
    }
    return least;
  }
};

std::vector<Phase> profile_phases(const Model& model, const BenchOptions& o, ContextOptions options) {
  Profile profile;
  options.trace = &profile;
  Model::Context context(options);
  Bench runs(model, context, o, &profile);
  std::vector<Phase> phases;
  const auto add = [&](std::string_view name, Index tokens, auto&& run) {
    if (tokens == 0) return;
    run(std::min<Index>(tokens, 8));
    phases.push_back({name, tokens});
    phases.back().seconds = run(tokens);
    phases.back().classes = profile.classes();
  };
  add("prefill", o.prompt, [&](Index n) { return runs.prefill(n); });
  add("decode", std::min(o.decode, profiled_decode), [&](Index n) { return runs.decode(n); });
  return phases;
}

/// Read rates of 1, 2, 4 ... and of all threads, into a table; the last row's become `rates`.
void measure_rates(const ContextOptions& options, Index threads, std::size_t model_bytes, Report& report,
                   RooflineRates& rates) {
  ReportTable& table = report.table("read_rates", {"threads", "cache_bytes_per_s", "model_bytes_per_s",
                                                   "memory_bytes_per_s"});
  for (Index n = 1;; n = std::min(2 * n, threads)) {
    ContextOptions own = options;
    own.threads = n;
    Model::Context context(own);
    const auto at_least = [&](std::size_t bytes) { return std::max(bytes, std::size_t{64} * std::size_t(n)); };
    rates.cache_bytes = measure_read(context, cache_set_per_thread * std::size_t(n));
    rates.memory_bytes = measure_read(context, at_least(model_bytes));
    table.add({n, rates.cache_bytes, rates.memory_bytes, measure_read(context, at_least(memory_set))});
    if (n == threads) {
      rates.integer_ops = measure_integer_ops(context);
      rates.bfloat_ops = measure_bfloat_ops(context);
      rates.float_ops = measure_float_ops(context);
      return;
    }
  }
}

/// The measured rate as a share of the least time's: operations bound a prefill, bytes a decode step.
void add_share(Report& report, const char* key, const std::vector<Phase>& phases, std::string_view name,
               const Rate& rate, const RooflineRates& rates) {
  ReportValue value;
  for (const Phase& p : phases)
    if (p.name == name) value = rate.best * p.least_seconds(rates, name == "decode") / static_cast<double>(p.tokens);
  report.add(key, std::move(value));
}

void add_phases(Report& report, const std::vector<Phase>& phases, const RooflineRates& rates) {
  ReportTable& table = report.table(
      "ops", {"phase", "op", "calls", "us_per_token", "time_share", "ops_per_token", "bytes_per_token", "intensity",
              "ops_per_s", "bytes_per_s", "bound", "bound_share"});
  for (const Phase& p : phases) {
    const auto tokens = static_cast<double>(p.tokens);
    double rest = p.seconds;
    for (const OpClassProfile& c : p.classes) {
      const BoundTime bound = bound_of(c, rates);
      const double seconds = std::max(c.seconds, 1e-12);
      rest -= c.seconds;
      table.add({p.name, c.op, c.calls, 1e6 * c.seconds / tokens, c.seconds / p.seconds, c.ops() / tokens,
                 c.bytes / tokens, c.intensity(), c.ops() / seconds, c.bytes / seconds, to_string(bound.bound),
                 bound.bound == Bound::none ? ReportValue() : ReportValue(bound.seconds / seconds)});
    }
    table.add({p.name, "other", 0, 1e6 * rest / tokens, rest / p.seconds, 0, 0, 0, 0, 0, "-", ReportValue()});
  }
}

}  // namespace

int bench(const BenchOptions& o) {
  const Interrupt interrupt;
  const ContextOptions options = context_options(o.compute, Numerics::fast, interrupt.token());
  Model::Context context(options);
  const auto start = Clock::now();
  const Model model = Model::load(context, o.model, {.stop = interrupt.token(), .tokenizer = false});
  const double load_seconds = since(start);

  Bench runs(model, context, o);
  ProgressBar bar("bench");
  const Index steps = 3 + o.repetitions;
  runs.prefill(std::min<Index>(std::max<Index>(o.prompt, 1), 32));  // pages in weights and scratch
  bar.update(1, steps);
  Rate prefill, decode;
  for (Index r = 0; r < o.repetitions; ++r) {
    if (o.prompt > 0) prefill.add(o.prompt, runs.prefill(o.prompt));
    if (o.decode > 0) decode.add(o.decode, runs.decode(o.decode));
    bar.update(2 + r, steps);
  }
  const std::int64_t peak_rss = peak_rss_bytes();  // before the buffers of the measurements below
  const std::vector<Phase> phases = profile_phases(model, o, options);
  bar.update(steps - 1, steps);

  Report report;
  const auto rate = [&](const std::string& key, const Rate& v) {
    report.add(key, v.mean.count() > 0 ? ReportValue(v.best) : ReportValue());
    report.add(key + "_mean", v.mean.count() > 0 ? ReportValue(v.mean.mean()) : ReportValue());
  };
  rate("prefill_tokens_per_s", prefill);
  rate("decode_tokens_per_s", decode);
  report.add("load_seconds", load_seconds).add("peak_rss_bytes", peak_rss);
  report.add("weight_bytes", model.weight_bytes()).add("threads", context.concurrency());
  report.add("isa", cpu::to_string(context.isa()));
  report.add("numerics", context.numerics() == Numerics::exact ? "exact" : "fast");
  report.add("kv", to_string(kv_dtype(o.compute))).add("prompt_tokens", o.prompt);
  report.add("decode_tokens", o.decode).add("depth", o.depth).add("repetitions", o.repetitions);
  report.add("prefill_repetitions", prefill.list()).add("decode_repetitions", decode.list());
  RooflineRates rates;
  measure_rates(options, context.concurrency(), model.weight_bytes(), report, rates);
  bar.update(steps, steps);
  report.add("integer_ops_per_s", rates.integer_ops).add("bfloat_ops_per_s", rates.bfloat_ops);
  report.add("float_ops_per_s", rates.float_ops);
  report.add("read_bytes_per_s", rates.memory_bytes);
  add_share(report, "prefill_roofline_share", phases, "prefill", prefill, rates);
  add_share(report, "decode_roofline_share", phases, "decode", decode, rates);
  add_phases(report, phases, rates);
  write_out(report.render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
