// SPDX-License-Identifier: MIT
// Decoding with pruned weights, packed densely and as bitmaps, in 8 and 4 bits.
//   nibble_sparse_decode MODEL.gguf [ROUNDS=5] [THREADS=0] > sparse.md
// Of every matrix of the file, embedding and head included, each row loses its smallest weights by magnitude; the rest
// is quantized to q8_0 or q4_0 in memory. This says how fast sparse weights are, not how good: a model pruned in this
// way needs another method or training. Both packings compute the same bits, which is checked; they decode in turns.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>

#include "nibble/core/parallel.hpp"
#include "nibble/eval/report.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/model/model.hpp"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;

/// A file's matrices, pruned, in another format.
class Pruned final : public WeightSource {
 public:
  Pruned(const WeightSource& file, ExecutorRef executor, const FormatInfo& format, double zeros) : file_(file) {
    for (const std::string_view name : file.names()) {
      const StoredTensor t = file.require(name);
      if (t.rank < 2) continue;
      tensors_.emplace(name, make(t, executor, format, zeros));
      file.release(name);
    }
  }
  std::optional<StoredTensor> find(std::string_view name) const override { return file_.find(name); }
  std::optional<QuantizedView> quantized(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? std::nullopt : std::optional<QuantizedView>(found->second.view());
  }
  std::vector<std::string_view> names() const override { return file_.names(); }
  const Metadata& metadata() const override { return file_.metadata(); }
  const std::string& name() const override { return file_.name(); }

 private:
  static QuantizedTensor make(const StoredTensor& t, ExecutorRef executor, const FormatInfo& format, double zeros) {
    const FormatInfo* stored = find_format_by_gguf(t.gguf_type());
    if (stored == nullptr) throw Error(Errc::unsupported, "no decoder for " + std::string(t.type->name));
    const QuantizedView source = QuantizedView::from_blocks(*stored, t.rows(), t.cols(), t.bytes);
    QuantizedTensor made(format, t.rows(), t.cols());
    parallel_for(executor, t.rows(), 64, [&](Index begin, Index end, Index) {
      std::vector<float> row(static_cast<std::size_t>(t.cols())), sizes(row.size());
      for (Index r = begin; r < end; ++r) {
        source.decode_row(r, row);
        prune(row, sizes, zeros);
        format.encode(row.data(), nullptr, made.row_data(r).data(), t.cols() / format.block_size);
      }
    });
    return made;
  }
  static void prune(std::vector<float>& row, std::vector<float>& sizes, double zeros) {
    const auto count = static_cast<std::ptrdiff_t>(zeros * static_cast<double>(row.size()));
    if (count == 0) return;
    std::ranges::transform(row, sizes.begin(), [](float v) { return std::abs(v); });
    std::nth_element(sizes.begin(), sizes.begin() + (count - 1), sizes.end());
    const float most = sizes[static_cast<std::size_t>(count - 1)];
    for (float& v : row)
      if (std::abs(v) <= most) v = 0;
  }

  const WeightSource& file_;
  std::map<std::string, QuantizedTensor, std::less<>> tensors_;
};

struct Run {
  double tokens_per_s = 0;
  std::vector<float> logits;  ///< of the last step
};

/// 32 tokens one by one after one.
Run decode(const Model& model, Model::Context& context) {
  constexpr int steps = 32;
  SequenceState state = model.new_sequence({.max_tokens = steps + 1});
  Run run;
  auto start = Clock::now();
  for (int s = 0; s <= steps; ++s) {
    const Token token = static_cast<Token>(s * 97 % model.vocabulary());
    const BatchItem item{.sequence = &state, .tokens = {&token, 1}};
    const Logits logits = model.forward(context, {&item, 1});
    if (s == 0) start = Clock::now();
    if (s == steps) run.logits.assign(logits.row(0).begin(), logits.row(0).end());
  }
  run.tokens_per_s = steps / std::chrono::duration<double>(Clock::now() - start).count();
  return run;
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

void compare_packings(Model::Context& context, const WeightSource& file, const char* format, int zeros, int rounds,
                      ReportTable& table) {
  const Pruned source(file, context.executor(), *find_format(format), zeros / 100.0);
  const Model dense = Model::from_source(context, source, {.tokenizer = false});
  const Model sparse =
      Model::from_source(context, source, {.tokenizer = false, .packing = {SparsePacking::bitmap}});
  std::vector<double> dense_rates, sparse_rates, ratios;
  for (int i = 0; i <= rounds; ++i) {  // the first one warms up
    const Run a = decode(dense, context), b = decode(sparse, context);
    if (std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) != 0)
      throw Error(Errc::invalid_argument, "sparse weights gave other logits than dense ones");
    if (i == 0) continue;
    dense_rates.push_back(a.tokens_per_s);
    sparse_rates.push_back(b.tokens_per_s);
    ratios.push_back(b.tokens_per_s / a.tokens_per_s);
  }
  table.add({format, zeros, static_cast<double>(dense.weight_bytes()) / 1e6,
             static_cast<double>(sparse.weight_bytes()) / 1e6, median(dense_rates), median(sparse_rates),
             median(ratios), *std::ranges::min_element(ratios), *std::ranges::max_element(ratios)});
}

void run_all(const char* path, int rounds, Index threads) {
  Model::Context context({.threads = threads});
  const auto file = GgufWeightSource::open(path);
  Report report;
  report.add("model", path).add("isa", cpu::to_string(context.isa())).add("threads", context.concurrency());
  report.add("rounds", rounds);
  ReportTable& table = report.table("sparse", {"format", "% zeros", "dense MB", "bitmap MB", "dense t/s",
                                               "bitmap t/s", "median ratio", "worst", "best"});
  for (const char* format : {"q8_0", "q4_0"})
    for (const int zeros : {0, 50, 75, 85}) {
      std::fprintf(stderr, "%s, %d %% zeros\n", format, zeros);
      compare_packings(context, file, format, zeros, rounds, table);
    }
  std::fputs(report.render(ReportFormat::md).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: nibble_sparse_decode MODEL.gguf [ROUNDS] [THREADS]\n", stderr);
    return 2;
  }
  try {
    run_all(argv[1], argc > 2 ? std::atoi(argv[2]) : 5, argc > 3 ? std::atoll(argv[3]) : 0);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nibble_sparse_decode: %s\n", e.what());
    return 1;
  }
}
