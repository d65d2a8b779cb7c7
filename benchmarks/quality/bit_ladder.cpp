// SPDX-License-Identifier: MIT
// One model at 16, 8, 6, 5, 4, 3, 2 and 1 bits: bits per weight with scales and minima, loss, and speed.
//   nibble_bit_ladder MODEL.gguf TEXT [CHUNKS=4] [REPETITIONS=3] [THREADS=0] > ladder.md
// Every matrix of the layers is decoded from the file and rounded to nearest in groups of 64 columns, each
// with an FP16 scale and minimum chosen by search (RtnInteger); 16 bits are FP16. Embedding and head keep 8
// bits, as `nibble quantize` does, so that all rows differ in the layers alone. Models are made of in-memory
// weights: files have no type for these groups. Divergence is that of exact numerics from the file's own
// weights.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "nibble/core/parallel.hpp"
#include "nibble/core/random.hpp"
#include "nibble/eval/perplexity.hpp"
#include "nibble/eval/report.hpp"
#include "nibble/model/model.hpp"
#include "nibble/quant/rtn.hpp"

namespace {

using namespace nibble;
using Clock = std::chrono::steady_clock;

constexpr Index group = 64;

/// A file's matrices in other widths.
class Requantized final : public WeightSource {
 public:
  Requantized(const WeightSource& file, ExecutorRef executor, int bits) : file_(file) {
    for (const std::string_view name : file.names()) {
      const StoredTensor t = file.require(name);
      if (t.rank < 2) continue;
      const bool in_layer = name.starts_with("blk.");
      const QuantizedTensor& made =
          tensors_.emplace(name, make(t, executor, in_layer ? bits : std::max(bits, 8))).first->second;
      file.release(name);
      const auto weights = static_cast<double>(made.rows() * made.cols());
      all_bits_ += 8.0 * static_cast<double>(made.bytes());
      all_weights_ += weights;
      if (in_layer) layer_bits_ += 8.0 * static_cast<double>(made.bytes());
      if (in_layer) layer_weights_ += weights;
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

  double layer_bits_per_weight() const { return layer_bits_ / layer_weights_; }
  double bits_per_weight() const { return all_bits_ / all_weights_; }
  double weights() const { return all_weights_; }

 private:
  /// Rows are independent of each other: parts are quantized by themselves and put together.
  static QuantizedTensor make(const StoredTensor& t, ExecutorRef executor, int bits) {
    const FormatInfo* format = find_format_by_gguf(t.gguf_type());
    if (format == nullptr) throw Error(Errc::unsupported, "no decoder for " + std::string(t.type->name));
    const QuantizedView source = QuantizedView::from_blocks(*format, t.rows(), t.cols(), t.bytes);
    QuantizedTensor whole = bits == 16
                                ? QuantizedTensor(*find_format("f16"), t.rows(), t.cols())
                                : QuantizedTensor(integer::affine_min(bits, group), t.rows(), t.cols());
    parallel_for(executor, t.rows(), 16, [&](Index begin, Index end, Index) {
      Matrix<float> values({end - begin, t.cols()});
      source.slice_rows(begin, end - begin).decode(values.view());
      if (bits == 16) {
        for (Index r = begin; r < end; ++r)
          find_format("f16")->encode(values.view().row(r - begin).data(), nullptr, whole.row_data(r).data(),
                                     t.cols());
        return;
      }
      const QuantizedTensor part = quant::RtnInteger(whole.spec()).quantize(values.view(), {});
      copy_rows(part, whole, begin);
    });
    return whole;
  }
  /// Codes, scales and minima of `part` as rows `first`... of `whole`; scales are already FP16 numbers.
  static void copy_rows(const QuantizedTensor& part, QuantizedTensor& whole, Index first) {
    const auto groups = static_cast<std::size_t>(part.view().groups_per_row());
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(part.cols()));
    std::vector<float> scales(groups), mins(groups);
    for (Index r = 0; r < part.rows(); ++r) {
      part.unpack_row(r, {codes, scales, mins});
      whole.set_codes(first + r, 0, codes);
      for (std::size_t g = 0; g < groups; ++g) {
        whole.set_scale(first + r, static_cast<Index>(g), scales[g]);
        whole.set_offset(first + r, static_cast<Index>(g), mins[g]);
      }
    }
  }

  const WeightSource& file_;
  std::map<std::string, QuantizedTensor, std::less<>> tensors_;
  double all_bits_ = 0, all_weights_ = 0, layer_bits_ = 0, layer_weights_ = 0;
};

/// Tokens per second of the best of some repetitions: 512 at once, and 64 one by one after one.
std::pair<double, double> speed(const Model& model, Model::Context& context, int repetitions) {
  Random random(1);
  double prefill = 0, decode = 0;
  const auto run = [&](SequenceState& state, Index count) {
    std::vector<Token> ids(static_cast<std::size_t>(count));
    for (Token& t : ids)
      t = static_cast<Token>(random.next() % static_cast<std::uint64_t>(model.vocabulary()));
    const BatchItem item{.sequence = &state, .tokens = ids};
    const auto start = Clock::now();
    model.forward(context, {&item, 1});
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (int i = 0; i <= repetitions; ++i) {  // the first one warms up
    SequenceState state = model.new_sequence({.max_tokens = 512});
    const double seconds = run(state, 512);
    SequenceState one = model.new_sequence({.max_tokens = 65});
    run(one, 1);
    double steps = 0;
    for (int s = 0; s < 64; ++s) steps += run(one, 1);
    if (i == 0) continue;
    prefill = std::max(prefill, 512 / seconds);
    decode = std::max(decode, 64 / steps);
  }
  return {prefill, decode};
}

struct Options {
  std::string model, text;
  Index chunks = 4, threads = 0;
  int repetitions = 3;
};

void run_ladder(const Options& o) {
  Model::Context context({.threads = o.threads});
  const auto file = GgufWeightSource::open(o.model);
  const Model reference = Model::from_source(context, file);
  std::ifstream stream(o.text, std::ios::binary);
  if (!stream) throw Error(Errc::io, "cannot read " + o.text);
  const EvalText text =
      eval_text(reference.tokenizer(), std::string(std::istreambuf_iterator<char>(stream), {}));
  Report report;
  report.add("model", o.model).add("chunks", o.chunks).add("isa", cpu::to_string(context.isa()));
  report.add("threads", context.concurrency()).add("repetitions", o.repetitions);
  ReportTable& table = report.table(
      "ladder", {"bits", "layer bits/weight", "model bits/weight", "weights MB", "packed MB", "prefill t/s",
                 "decode t/s", "mean KL", "KL stderr", "top-1 agreement", "perplexity"});
  for (const int bits : {16, 8, 6, 5, 4, 3, 2, 1}) {
    std::fprintf(stderr, "%d bits\n", bits);
    const Requantized source(file, context.executor(), bits);
    const Model model = Model::from_source(context, source, {.tokenizer = false});
    const ComparisonResult loss = compare(model, reference, context, text, {.chunks = o.chunks});
    context.set_numerics(Numerics::fast);
    const auto [prefill, decode] = speed(model, context, o.repetitions);
    const double weights = source.bits_per_weight() / 8 * source.weights();
    table.add({bits, source.layer_bits_per_weight(), source.bits_per_weight(), weights / 1e6,
               static_cast<double>(model.weight_bytes()) / 1e6, prefill, decode, loss.mean_kl,
               loss.mean_kl_stderr, loss.top1_agreement, loss.model.perplexity});
    if (bits == 16) report.add("reference perplexity", loss.reference.perplexity);
  }
  std::fputs(report.render(ReportFormat::md).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: nibble_bit_ladder MODEL.gguf TEXT [CHUNKS] [REPETITIONS] [THREADS]\n", stderr);
    return 2;
  }
  try {
    Options o{.model = argv[1], .text = argv[2]};
    if (argc > 3) o.chunks = std::atoll(argv[3]);
    if (argc > 4) o.repetitions = std::atoi(argv[4]);
    if (argc > 5) o.threads = std::atoll(argv[5]);
    run_ladder(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nibble_bit_ladder: %s\n", e.what());
    return 1;
  }
}
