// SPDX-License-Identifier: MIT
// Whole models: prefill of 512 tokens, decoding after one and after 4096 tokens, and loading.
//   nibble_bench_models MODEL.gguf... [--benchmark_filter=decode]
// Decoding reads all weights and the cache once a token: GB/s is of those bytes, beside the measured read
// rate of a set of the model's own size. `nibble bench` says where the time goes.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "nibble/core/random.hpp"
#include "nibble/model/model.hpp"
#include "rates.hpp"

namespace {

using namespace nibble;
using namespace nibble::bench;

struct Subject {
  Cpu& context;
  std::string path;
  std::shared_ptr<const Model> model()
      const {  // the last one stays loaded, as rows of one model follow each other
    static std::pair<std::string, std::shared_ptr<const Model>> last;
    if (last.first != path) {
      last = {};
      last = {path, std::make_shared<const Model>(Model::load(context, path, {.tokenizer = false}))};
    }
    return last.second;
  }
};

class Sequence {
 public:
  Sequence(const Subject& subject, Index room)
      : subject_(subject), model_(subject.model()), state_(model_->new_sequence({.max_tokens = room})) {}
  void step(Index tokens) {
    std::vector<Token> ids(static_cast<std::size_t>(tokens));
    for (Token& t : ids)
      t = static_cast<Token>(random_.next() % static_cast<std::uint64_t>(model_->vocabulary()));
    const BatchItem item{.sequence = &state_, .tokens = ids};
    model_->forward(subject_.context, {&item, 1});
  }
  Index tokens() const { return state_.tokens(); }
  const Model& model() const { return *model_; }

 private:
  const Subject& subject_;
  std::shared_ptr<const Model> model_;
  SequenceState state_;
  Random random_{1};
};

void prefill(benchmark::State& state, const Subject& subject) {
  constexpr Index tokens = 512;
  for (auto _ : state) Sequence(subject, tokens).step(tokens);
  state.counters["tokens/s"] =
      benchmark::Counter(double(state.iterations() * tokens), benchmark::Counter::kIsRate);
}

/// Steps of one token behind `depth` others; begins anew when 64 are done, so that the depth stays the row's.
void decode(benchmark::State& state, const Subject& subject, Index depth) {
  constexpr Index steps = 64;
  std::unique_ptr<Sequence> sequence;
  Index done = steps;
  double cache = 0;
  for (auto _ : state) {
    if (done == steps) {
      state.PauseTiming();
      sequence = std::make_unique<Sequence>(subject, depth + steps);
      sequence->step(depth);
      done = 0;
      state.ResumeTiming();
    }
    sequence->step(1);
    ++done;
    for (const BlockSpec& b : subject.model()->spec().blocks) {
      const Index seen = b.attention.window > 0 ? std::min(b.attention.window, depth + done) : depth + done;
      cache +=
          double(seen * b.attention.kv_heads * (b.attention.head_dim + b.attention.value_dim)) * 2;  // FP16
    }
  }
  const double weights = double(subject.model()->weight_bytes());
  const double bytes = weights + cache / double(std::max<Index>(state.iterations(), 1));
  state.counters["tokens/s"] = benchmark::Counter(double(state.iterations()), benchmark::Counter::kIsRate);
  const double read = measure_read(subject.context, std::size_t(weights));
  state.counters["GB/s"] =
      benchmark::Counter(bytes * double(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
  state.counters["read rate GB/s"] = read / 1e9;
}

void load(benchmark::State& state, const Subject& subject) {
  for (auto _ : state) benchmark::DoNotOptimize(Model::load(subject.context, subject.path).weight_bytes());
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  static Cpu context;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    if (!std::filesystem::exists(path)) {
      benchmark::ReportUnrecognizedArguments(2, argv + i - 1);
      return EXIT_FAILURE;
    }
    const auto subject = std::make_shared<const Subject>(Subject{context, path});
    const auto add = [&](const std::string& what, auto call) {
      const std::string name = what + "/" + std::filesystem::path(path).filename().string();
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { call(s, *subject); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    };
    add("prefill512", prefill);
    add("decode1", [](benchmark::State& s, const Subject& m) { decode(s, m, 1); });
    add("decode4096", [](benchmark::State& s, const Subject& m) { decode(s, m, 4096); });
    add("load", load);
  }
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
