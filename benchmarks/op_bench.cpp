// SPDX-License-Identifier: MIT
// Whole ops on all threads, as a model calls them: linear layers of every format with 1 (decoding), 4 and 512
// (prefill) rows, pruned ones packed densely and sparsely, attention, and the element-wise ops. Weights rotate
// through a set of rates.hpp's memory_bytes (pruned ones: more) where few rows read them.
//   nibble_bench_ops --benchmark_filter=linear/q4_1
// Rows are named op/.../isa/tN; the columns are explained in rates.hpp.
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/ops/activation.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "nibble/ops/embedding.hpp"
#include "nibble/ops/linear.hpp"
#include "nibble/ops/norm.hpp"
#include "nibble/ops/rope.hpp"
#include "rates.hpp"
#include "weights.hpp"

namespace {

using namespace nibble;
using namespace nibble::bench;

constexpr Index hidden = 1024, out_rows = 4096;

Matrix<float> random_rows(Index rows, Index cols) {
  Matrix<float> m({rows, cols});
  fill_normal(m.span());
  return m;
}

void linear(benchmark::State& state, Cpu& context, const FormatInfo& format, Index tokens,
            Numerics numerics) {
  context.set_numerics(numerics);
  const QuantizedTensor source = random_weights(format, out_rows, hidden);
  std::vector<PackedMatrix<cpu::Backend>> set;
  std::size_t total = 0;
  do {
    set.push_back(PackedMatrix<cpu::Backend>::pack(context, source));
    total += set.back().bytes();
  } while (tokens <= 4 && total < memory_bytes);
  const auto x = random_rows(tokens, hidden);
  Matrix<float> y({tokens, out_rows});
  std::size_t next = 0;
  const bool codes = !format.dense, tiles = tokens > 8 && rates_of(context).bfloat_ops > 0;
  const Arithmetic arithmetic = numerics != Numerics::fast                            ? Arithmetic::float32
                                : tiles && (codes || std::string_view(format.name) == "bf16") ? Arithmetic::bfloat16
                                : codes                                               ? Arithmetic::int8
                                                                                      : Arithmetic::float32;
  run_loop(state, context,
           {double(set[0].traffic_bytes()), 2.0 * double(tokens * hidden * out_rows),
            tokens <= 4 ? Level::memory : Level::cache, arithmetic},
           [&] {
             run(context, Linear{}, x.view(), set[next], y.view());
             next = (next + 1) % set.size();
           });
  state.counters["bytes/weight"] = double(set[0].bytes()) / double(hidden * out_rows);
}

/// A pruned matrix beyond any cache, dense or sparse. Ops count the zeros, so that Gop/s of both compare.
void sparse(benchmark::State& state, Cpu& context, const FormatInfo& format, int zeros, PackOptions options,
            Index tokens) {
  constexpr Index size = 4096;
  constexpr std::size_t set_bytes = std::size_t{768} << 20;  // of dense weights: no level keeps the sparse ones either
  static std::vector<PackedMatrix<cpu::Backend>> set;  // of the last row, which is run several times
  static std::string key;
  const std::string wanted = std::string(format.name) + std::to_string(zeros) + "/" +
                             std::to_string(int(options.sparse)) + std::string(cpu::to_string(context.isa()));
  if (key != wanted) {
    set.clear();
    const QuantizedTensor source = pruned_weights(format, size, size, zeros / 100.0);
    for (std::size_t bytes = 0; bytes < set_bytes; bytes += source.view().bytes())
      set.push_back(PackedMatrix<cpu::Backend>::pack(context, source, options));
    key = wanted;
  }
  const auto x = random_rows(tokens, size);
  Matrix<float> y({tokens, size});
  std::size_t next = 0;
  run_loop(state, context,
           {double(set[0].traffic_bytes()), 2.0 * double(tokens * size * size),
            tokens <= 4 ? Level::memory : Level::cache, Arithmetic::int8},
           [&] {
             run(context, Linear{}, x.view(), set[next], y.view());
             next = (next + 1) % set.size();
           });
  state.counters["bytes/weight"] = double(set[0].traffic_bytes()) / double(size * size);
}

/// Causal attention of the last `queries` of `keys` positions: each query sees the keys up to its own.
void attention(benchmark::State& state, Cpu& context, Index queries, Index keys, DType dtype) {
  constexpr Index kv_heads = 3, group = 3, dim = 64;
  const Index pages = (keys + kv_page_tokens - 1) / kv_page_tokens;
  const auto page_bytes = static_cast<std::size_t>(kv_heads * kv_page_tokens * dim) * size_of(dtype);
  std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(2 * pages),
                                             std::vector<std::byte>(page_bytes));
  std::vector<std::byte*> k, v;
  for (std::size_t p = 0; p < memory.size(); ++p) (p % 2 == 0 ? k : v).push_back(memory[p].data());
  const KvView kv{{dtype, kv_heads, dim, dim}, keys, k, v};
  Tensor<float, 3> q({queries, kv_heads * group, dim}), out({queries, kv_heads * group, dim});
  std::vector<Index> positions(static_cast<std::size_t>(queries));
  for (Index t = 0; t < queries; ++t) positions[static_cast<std::size_t>(t)] = keys - queries + t;
  const double pairs = double(queries) * (double(keys) - double(queries - 1) / 2);
  run_loop(state, context,
           {double(keys * kv_heads * 2 * dim) * double(size_of(dtype)), pairs * kv_heads * group * 4 * dim},
           [&] { attend(context, 0.125f, CausalMask{}, NoHook{}, q.view(), positions, kv, out.view()); });
}

Work element_work(Index tokens, Index arrays, double ops) {
  return {double(tokens * hidden * arrays) * sizeof(float), double(tokens * hidden) * ops};
}

using Run = void (*)(benchmark::State&, Cpu&, Index tokens);
constexpr std::pair<const char*, Run> element_wise[] = {
    {"rms_norm",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       const auto x = random_rows(tokens, hidden), w = random_rows(1, hidden);
       Matrix<float> y({tokens, hidden});
       const VectorView<const float> weight(w.span());
       run_loop(state, context, element_work(tokens, 2, 4),
                [&] { run(context, RmsNorm{}, x.view(), weight, y.view()); });
     }},
    {"swiglu",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       const auto gate = random_rows(tokens, hidden), up = random_rows(tokens, hidden);
       Matrix<float> y({tokens, hidden});
       run_loop(state, context, element_work(tokens, 3, 5),
                [&] { run(context, SwiGlu{}, gate.view(), up.view(), y.view()); });
     }},
    {"geglu",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       const auto gate = random_rows(tokens, hidden), up = random_rows(tokens, hidden);
       Matrix<float> y({tokens, hidden});
       run_loop(state, context, element_work(tokens, 3, 10),
                [&] { run(context, GeGlu{}, gate.view(), up.view(), y.view()); });
     }},
    {"add",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       const auto x = random_rows(tokens, hidden);
       auto y = random_rows(tokens, hidden);
       run_loop(state, context, element_work(tokens, 3, 1), [&] { run(context, Add{}, x.view(), y.view()); });
     }},
    {"rope",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       constexpr Index dim = 64;
       Tensor<float, 3> x({tokens, hidden / dim, dim});
       const std::vector<float> frequencies(dim / 2, 1e-3f);
       std::vector<Index> positions(static_cast<std::size_t>(tokens));
       for (std::size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<Index>(t);
       run_loop(state, context, element_work(tokens, 2, 3), [&] {
         run(context, Rope{Rope::Pairs::halves, frequencies}, positions, x.view());
       });
     }},
    {"embedding",
     [](benchmark::State& state, Cpu& context, Index tokens) {
       const auto table =
           PackedMatrix<cpu::Backend>::pack(context, random_weights(*find_format("q8_0"), out_rows, hidden));
       std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
       for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(t * 7919 % out_rows);
       Matrix<float> y({tokens, hidden});
       run_loop(state, context, element_work(tokens, 1, 2),
                [&] { run(context, Embedding{}, ids, table, y.view()); });
     }},
};

Cpu& context_of(cpu::Isa isa, Index threads) {
  static std::map<std::pair<cpu::Isa, Index>, std::unique_ptr<Cpu>> all;
  auto& context = all[{isa, threads}];
  if (!context) context = std::make_unique<Cpu>(ContextOptions{.threads = threads, .isa = isa});
  return *context;
}

template <class Call>
void add_row(const std::string& name, cpu::Isa isa, Index threads, Call call) {
  const std::string full = name + "/" + std::string(cpu::to_string(isa)) + "/t" + std::to_string(threads);
  benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
    call(state, context_of(isa, threads));
  })->UseRealTime();
}

void add_all(cpu::Isa isa, Index threads) {
  for (const FormatInfo* f : all_formats())
    for (const Index tokens : {1, 4, 512})
      for (const Numerics numerics : {Numerics::fast, Numerics::exact})
        add_row("linear/" + std::string(f->name) + "/m" + std::to_string(tokens) +
                    (numerics == Numerics::fast ? "/fast" : "/exact"),
                isa, threads, [=](benchmark::State& s, Cpu& c) { linear(s, c, *f, tokens, numerics); });
  for (const char* name : {"q8_0", "q4_0"})
    for (const int zeros : {0, 25, 50, 75, 85})
      for (const auto& [packing, packed] :
           {std::pair{"dense", SparsePacking::dense}, {"bitmap", SparsePacking::bitmap}})
        for (const Index tokens : {1, 4, 512})
          add_row("sparse/" + std::string(name) + "/z" + std::to_string(zeros) + "/" + packing + "/m" +
                      std::to_string(tokens),
                  isa, threads, [=, options = PackOptions{packed}](benchmark::State& s, Cpu& c) {
                    sparse(s, c, *find_format(name), zeros, options, tokens);
                  });
  for (const auto& [queries, keys] : {std::pair<Index, Index>{1, 512}, {1, 4096}, {512, 512}})
    for (const DType t : {DType::f16, DType::f32})
      add_row("attention/q" + std::to_string(queries) + "/k" + std::to_string(keys) + "/" +
                  std::string(to_string(t)),
              isa, threads,
              [=, q = queries, k = keys](benchmark::State& s, Cpu& c) { attention(s, c, q, k, t); });
  for (const auto& [name, call] : element_wise)
    for (const Index tokens : {1, 512})
      add_row(std::string(name) + "/m" + std::to_string(tokens), isa, threads,
              [=, run = call](benchmark::State& s, Cpu& c) { run(s, c, tokens); });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  for (const cpu::Isa isa : cpu::available_isas())
    if (isa != cpu::Isa::scalar)
      for (const Index threads : std::set<Index>{1, available_processors()}) add_all(isa, threads);
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
