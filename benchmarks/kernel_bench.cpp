// SPDX-License-Identifier: MIT
// Rates of the CPU kernels: linear layers of every format with one row (decode: the figure is GB/s of
// packed weights) and 512 rows (prefill: Gop/s, two per multiply-add), and attention.
//   nibble_bench_kernels --benchmark_filter=linear/q4_1
// Weights rotate through a set of at least 64 MiB, so that decode reads what a model would read.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "nibble/ops/linear.hpp"

namespace {

using namespace nibble;
using Cpu = ExecutionContext<cpu::Backend>;

constexpr Index hidden = 1024, out_rows = 4096;

QuantizedTensor random_weights(const FormatInfo& format, Index rows, Index cols) {
  std::mt19937 random(1);
  QuantizedTensor t(format, rows, cols);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (Index r = 0; r < rows; ++r) {
    if (format.has_encode() && r == 0) {
      for (float& v : row) v = normal(random);
      format.encode(row.data(), nullptr, t.row_data(0).data(), cols / format.block_size);
    } else if (r == 0) {  // no encoder: small bytes give small, finite scales in every format
      for (std::byte& b : t.row_data(0)) b = static_cast<std::byte>(random() & 0x2F);
    } else {
      std::memcpy(t.row_data(r).data(), t.row_data(0).data(), t.row_data(0).size());
    }
  }
  return t;
}

void linear(benchmark::State& state, const FormatInfo* format, Index tokens, Numerics numerics,
            ContextOptions options) {
  options.numerics = numerics;
  Cpu context(options);
  const QuantizedTensor source = random_weights(*format, out_rows, hidden);
  std::vector<PackedMatrix<cpu::Backend>> set;
  std::size_t total = 0;
  do {
    set.push_back(PackedMatrix<cpu::Backend>::pack(context, source));
    total += set.back().bytes();
  } while (tokens == 1 && total < (std::size_t{64} << 20));
  Matrix<float> x({tokens, hidden}), y({tokens, out_rows});
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (float& v : x.span()) v = normal(random);
  std::size_t next = 0;
  for (auto _ : state) {
    run(context, Linear{}, x.view(), set[next], y.view());
    benchmark::ClobberMemory();
    next = (next + 1) % set.size();
  }
  const double calls = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(calls * static_cast<double>(set[0].traffic_bytes()) / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["Gop/s"] = benchmark::Counter(
      calls * 2.0 * static_cast<double>(tokens * hidden * out_rows) / 1e9, benchmark::Counter::kIsRate);
  state.counters["bytes/weight"] =
      static_cast<double>(set[0].bytes()) / static_cast<double>(hidden * out_rows);
}

void attention(benchmark::State& state, Index queries, Index keys, DType dtype,
               const ContextOptions& options) {
  Cpu context(options);
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
  for (auto _ : state) {
    attend(context, 0.125f, CausalMask{}, NoHook{}, q.view(), positions, kv, out.view());
    benchmark::ClobberMemory();
  }
  state.counters["tokens/s/layer"] =
      benchmark::Counter(static_cast<double>(state.iterations() * queries), benchmark::Counter::kIsRate);
}

void register_all() {
  for (const cpu::Isa isa : cpu::available_isas()) {
    if (isa == cpu::Isa::scalar) continue;
    for (const Index threads : {1, 2}) {
      ContextOptions options;
      options.isa = isa;
      options.threads = threads;
      const std::string suffix = "/" + std::string(cpu::to_string(isa)) + "/t" + std::to_string(threads);
      for (const FormatInfo* f : all_formats())
        for (const Index tokens : {1, 4, 512})
          for (const Numerics n : {Numerics::fast, Numerics::exact}) {
            const std::string name = "linear/" + std::string(f->name) + "/m" + std::to_string(tokens) +
                                     (n == Numerics::fast ? "/fast" : "/exact") + suffix;
            benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
              linear(s, f, tokens, n, options);
            })->UseRealTime();
          }
      for (const auto& [queries, keys] : {std::pair<Index, Index>{1, 512}, {1, 4096}, {512, 512}})
        for (const DType t : {DType::f16, DType::f32}) {
          const std::string name = "attention/q" + std::to_string(queries) + "/k" + std::to_string(keys) +
                                   "/" + std::string(to_string(t)) + suffix;
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
            attention(s, queries, keys, t, options);
          })->UseRealTime();
        }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
