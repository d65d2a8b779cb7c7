// SPDX-License-Identifier: MIT
// What each fusion is worth: the fused op against the single ops from the same kernels, on all threads.
//   nibble_bench_fusions --benchmark_filter=/m1/
// Rows are named fusion/model/mTOKENS/{fused,single}; `saved_bytes` is what the single ops store between each
// other and read again and the fused op does not, counted from the shapes. Interleaved repetitions
// (--benchmark_enable_random_interleaving=true --benchmark_repetitions=9) keep a busy machine fair to both.
#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/cache/sequence_state.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "nibble/ops/linear.hpp"
#include "weights.hpp"

namespace {

using namespace nibble;
using namespace nibble::bench;
using B = cpu::Backend;
using Cpu = ExecutionContext<B>;
using Packed = PackedMatrix<B>;

/// Layers of a model; biases left out.
struct Shape {
  const char* name;
  const char* format;
  Index hidden, ffn, heads, kv_heads, dim;
};
constexpr Shape small{"135M_q4_1", "q4_1", 576, 1536, 9, 3, 64};
constexpr Shape large{"1.5B_q4_k", "q4_k", 1536, 8960, 12, 2, 128};

/// Weights and buffers of one layer.
struct Layer {
  Shape s;
  Index m;
  Cpu context{};
  Packed query, key, value, output, gate, up, down;
  Matrix<float> x, normed, heads, inner, wide, branch;
  Tensor<float, 3> q, k, v;
  std::vector<float> ones, zeros, frequencies;
  std::vector<Index> positions;
  SequenceState state;

  static constexpr Index past = 256;

  Layer(const Shape& shape, Index tokens)
      : s(shape), m(tokens), x({m, s.hidden}), normed({m, s.hidden}), heads({m, s.heads * s.dim}),
        inner({m, s.ffn}), wide({m, s.ffn}), branch({m, s.hidden}), q({m, s.heads, s.dim}), k({m, s.kv_heads, s.dim}),
        v({m, s.kv_heads, s.dim}), ones(std::size_t(s.ffn), 1.0f), zeros(std::size_t(s.ffn), 0.0f),
        state(std::vector<LayerState>{{{DType::f16, s.kv_heads, s.dim, s.dim}, 0}}, past + m) {
    const FormatInfo& f = *find_format(s.format);
    const auto pack = [&](Index rows, Index cols) { return Packed::pack(context, random_weights(f, rows, cols)); };
    query = pack(s.heads * s.dim, s.hidden);
    key = pack(s.kv_heads * s.dim, s.hidden);
    value = pack(s.kv_heads * s.dim, s.hidden);
    output = pack(s.hidden, s.heads * s.dim);
    gate = pack(s.ffn, s.hidden);
    up = pack(s.ffn, s.hidden);
    down = pack(s.hidden, s.ffn);
    for (Matrix<float>* t : {&x, &heads, &inner, &branch}) fill_normal(t->span());
    for (Tensor<float, 3>* t : {&q, &k, &v}) fill_normal(t->span());
    for (Index i = 0; i < s.dim / 2; ++i) frequencies.push_back(std::pow(10000.0f, -float(2 * i) / float(s.dim)));
    for (Index t = 0; t < m; ++t) positions.push_back(past + t);
    state.reserve(past + m);
  }
  VectorView<const float> weight(Index n) const { return VectorView<const float>(ones).slice(0, 0, n); }
  VectorView<const float> bias(Index n) const { return VectorView<const float>(zeros).slice(0, 0, n); }
  FoldedNorm rms() const { return {FoldedNorm::Kind::rms, weight(s.hidden), {}, 1e-5f}; }
  static MatrixView<float> flat(Tensor<float, 3>& t) { return {t.data(), {t.extent(0), t.extent(1) * t.extent(2)}}; }
  KvView kv() const { return state.view(0, past + m); }
  TensorView<float, 3> out() { return {heads.data(), {m, s.heads, s.dim}}; }
  Rope rope() const { return {Rope::Pairs::halves, frequencies}; }
};

/// Bytes of `n` floats of every row, stored and read again.
double there_and_back(const Layer& l, Index n) { return 2.0 * sizeof(float) * double(l.m * n); }
/// Bytes of `n` activations per row in INT8 groups: codes, scale, sum and scaled sum.
double quantized(const Layer& l, Index n) { return double(l.m * n) * (1 + 12.0 / 32); }

/// A fusion: both ways to compute it, and what is saved.
struct Fusion {
  const char* name;
  void (*fused)(Layer&);
  void (*single)(Layer&);
  double (*saved)(const Layer&);
};

const Fusion fusions[] = {
    {"norm_quantize_qkv",
     [](Layer& l) {
       const LinearOutput<B> out[] = {{&l.query, Layer::flat(l.q), {}}, {&l.key, Layer::flat(l.k), {}},
                                      {&l.value, Layer::flat(l.v), {}}};
       run(l.context, LinearGroup{false, l.rms()}, l.x.view(), std::span<const LinearOutput<B>>(out));
     },
     [](Layer& l) {
       run(l.context, RmsNorm{}, l.x.view(), l.weight(l.s.hidden), l.normed.view());
       run(l.context, Linear{}, l.normed.view(), l.query, Layer::flat(l.q));
       run(l.context, Linear{}, l.normed.view(), l.key, Layer::flat(l.k));
       run(l.context, Linear{}, l.normed.view(), l.value, Layer::flat(l.v));
     },
     [](const Layer& l) {  // normed rows written once and read three times, two of three quantizations
       return 2 * there_and_back(l, l.s.hidden) + 2 * 2 * quantized(l, l.s.hidden);
     }},
    {"rope_append_attention",
     [](Layer& l) {
       const SequenceRows rows{0, l.m, l.kv()};
       attend_cached(l.context, 0.1f, CausalMask{}, NoHook{}, l.rope(), {}, {},
                     l.q.view(), l.k.view(), l.v.view(), l.positions, {&rows, 1}, l.out());
     },
     [](Layer& l) {
       run(l.context, l.rope(), l.positions, l.q.view());
       run(l.context, l.rope(), l.positions, l.k.view());
       run(l.context, AppendKv{}, l.k.view(), l.v.view(), l.positions, l.kv());
       attend(l.context, 0.1f, CausalMask{}, NoHook{}, l.q.view(), l.positions, l.kv(), l.out());
     },
     [](const Layer& l) {  // queries and keys, turned where they are needed next
       return there_and_back(l, (l.s.heads + l.s.kv_heads) * l.s.dim);
     }},
    {"residual_add",
     [](Layer& l) { run(l.context, Linear{epilogue::Add{}}, l.heads.view(), l.output, l.x.view()); },
     [](Layer& l) {
       run(l.context, Linear{}, l.heads.view(), l.output, l.branch.view());
       run(l.context, Add{}, l.branch.view(), l.x.view());
     },
     [](const Layer& l) { return there_and_back(l, l.s.hidden); }},
    {"norm_gate_up_silu",
     [](Layer& l) { run(l.context, GatedLinear{.norm = l.rms()}, l.x.view(), l.gate, l.up, l.inner.view()); },
     [](Layer& l) {
       run(l.context, RmsNorm{}, l.x.view(), l.weight(l.s.hidden), l.normed.view());
       run(l.context, Linear{}, l.normed.view(), l.gate, l.inner.view());
       run(l.context, Linear{}, l.normed.view(), l.up, l.wide.view());
       run(l.context, SwiGlu{}, l.inner.view(), l.wide.view(), l.inner.view());
     },
     [](const Layer& l) {  // normed rows, one of two quantizations, gate and up
       return 1.5 * there_and_back(l, l.s.hidden) + 2 * quantized(l, l.s.hidden) + 2 * there_and_back(l, l.s.ffn);
     }},
    {"int8_between_gate_and_down",
     [](Layer& l) { run(l.context, FeedForward{}, l.x.view(), l.gate, l.up, l.down, l.branch.view()); },
     [](Layer& l) {
       run(l.context, GatedLinear{}, l.x.view(), l.gate, l.up, l.inner.view());
       run(l.context, Linear{epilogue::Add{}}, l.inner.view(), l.down, l.branch.view());
     },
     [](const Layer& l) { return there_and_back(l, l.s.ffn); }},
    {"linear_layer_norm_gelu",
     [](Layer& l) {
       const FoldedNorm norm{FoldedNorm::Kind::layer, l.weight(l.s.ffn), l.bias(l.s.ffn), 1e-5f};
       using epilogue::Normed;
       run(l.context, Linear{Normed{Normed::Then::gelu_erf, norm, {}}}, l.x.view(), l.gate, l.inner.view());
     },
     [](Layer& l) {
       run(l.context, Linear{}, l.x.view(), l.gate, l.inner.view());
       run(l.context, LayerNorm{}, l.inner.view(), l.weight(l.s.ffn), l.bias(l.s.ffn), l.inner.view());
       run(l.context, Gelu{}, l.inner.view(), l.inner.view());
     },
     [](const Layer& l) {  // the row is normalized and activated while the last block of it is in cache
       return 2 * there_and_back(l, l.s.ffn);
     }},
};

void measure(benchmark::State& state, const Fusion& f, const Shape& shape, Index tokens, bool fused) {
  static std::map<std::pair<std::string, Index>, std::unique_ptr<Layer>> layers;  // both ways on the same memory
  std::unique_ptr<Layer>& made = layers[{shape.name, tokens}];
  if (made == nullptr) made = std::make_unique<Layer>(shape, tokens);
  Layer& layer = *made;
  for (auto _ : state) {
    (fused ? f.fused : f.single)(layer);
    benchmark::ClobberMemory();
  }
  if (fused) state.counters["saved_bytes"] = f.saved(layer);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const Shape& shape : {small, large})
    for (const Index tokens : {1, 4, 512})
      for (const Fusion& f : fusions)
        for (const bool fused : {false, true}) {
          const std::string name = std::string(f.name) + "/" + shape.name + "/m" + std::to_string(tokens) +
                                   (fused ? "/fused" : "/single");
          benchmark::RegisterBenchmark(name.c_str(), [&f, shape, tokens, fused](benchmark::State& s) {
            measure(s, f, shape, tokens, fused);
          })->UseRealTime();
        }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
