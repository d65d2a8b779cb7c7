// SPDX-License-Identifier: MIT
// Every line of src/cpu/kernels.def on one thread, driven by that list: a new line is a new row. Kernels that
// read packed weights have a row per format; their weights rotate through a set beyond any cache, as in
// decoding, where a row multiplies few activations.
//   nibble_bench_kernels --benchmark_filter=avx512/dot_small
// Rows are named isa/kernel[/format]; the columns are explained in rates.hpp.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "cpu/dispatch.hpp"
#include "cpu/packed_impl.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/format/formats.hpp"
#include "rates.hpp"
#include "weights.hpp"

namespace {

using namespace nibble;
using namespace nibble::cpu;
using namespace nibble::bench;

constexpr Index n = 1024;  // elements of an element-wise row: all arrays lie in the first cache
constexpr Index cols = 1024, tile_rows = dot_tile_rows, dim = 64, page = 256;

/// What a row gets: the table of its instruction set, the name of its kernel and, for some, a format.
struct Row {
  Cpu& context;
  std::string kernel;
  const FormatInfo* format = nullptr;
  const KernelTable& table() const { return context.kernels(); }
};

/// Whole cache lines, as kernels get them.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{memory_alignment};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }
  bool operator==(const LineAllocator&) const = default;
};
template <class T>
using Lines = std::vector<T, LineAllocator<T>>;

Lines<float> floats(Index count) {
  Lines<float> v(static_cast<std::size_t>(count));
  fill_normal(v);
  return v;
}

Work elements(Index arrays, double ops) { return {double(n * arrays) * sizeof(float), double(n) * ops}; }

// One function per signature: how to call such a kernel and what a call does.

void measure(benchmark::State& state, const Row& row, RmsNormFn kernel) {
  const auto x = floats(n), w = floats(n);
  auto y = floats(n);
  run_loop(state, row.context, elements(3, 4), [&] { kernel(x.data(), w.data(), y.data(), n, 1e-5f); });
}
void measure(benchmark::State& state, const Row& row, LayerNormFn kernel) {
  const auto x = floats(n), w = floats(n), b = floats(n);
  auto y = floats(n);
  run_loop(state, row.context, elements(4, 7),
           [&] { kernel(x.data(), w.data(), b.data(), y.data(), n, 1e-5f); });
}
void measure(benchmark::State& state, const Row& row, SoftmaxFn kernel) {
  const auto x = floats(n);
  auto y = floats(n);
  run_loop(state, row.context, elements(2, 5), [&] { kernel(x.data(), y.data(), n, 1.0f); });
}
void measure(benchmark::State& state, const Row& row, BinaryFn kernel) {
  const auto a = floats(n), b = floats(n);
  auto y = floats(n);
  const double ops = row.kernel == "swiglu" ? 5 : row.kernel == "geglu" ? 10 : 1;
  run_loop(state, row.context, elements(3, ops), [&] { kernel(a.data(), b.data(), y.data(), n); });
}
void measure(benchmark::State& state, const Row& row, UnaryFn kernel) {
  const auto x = floats(n);
  auto y = floats(n);
  run_loop(state, row.context, elements(2, 9), [&] { kernel(x.data(), y.data(), n); });
}
void measure(benchmark::State& state, const Row& row, ScaledFn kernel) {
  auto y = floats(n);
  const bool cap = row.kernel == "soft_cap";
  run_loop(state, row.context, elements(2, cap ? 3 : 1), [&] { kernel(y.data(), n, cap ? 30.0f : 1.0f); });
}
void measure(benchmark::State& state, const Row& row, RopeAnglesFn kernel) {
  const auto frequencies = floats(n);
  auto c = floats(n), s = floats(n);
  run_loop(state, row.context, elements(3, 2),
           [&] { kernel(100, frequencies.data(), 1.0f, c.data(), s.data(), n); });
}
void measure(benchmark::State& state, const Row& row, RopeHalvesFn kernel) {
  auto a = floats(n), b = floats(n);
  const Lines<float> c(n, 1.0f), s(n, 0.0f);
  run_loop(state, row.context, elements(6, 6), [&] { kernel(a.data(), b.data(), c.data(), s.data(), n); });
}
void measure(benchmark::State& state, const Row& row, RopeNeighboursFn kernel) {
  auto x = floats(2 * n);
  const Lines<float> c(n, 1.0f), s(n, 0.0f);
  run_loop(state, row.context, elements(6, 6), [&] { kernel(x.data(), c.data(), s.data(), n); });
}
void measure(benchmark::State& state, const Row& row, ToHalfFn kernel) {
  const auto x = floats(n);
  Lines<std::uint16_t> y(n);
  run_loop(state, row.context, {n * 6.0, n * 1.0}, [&] { kernel(x.data(), y.data(), n); });
}
void measure(benchmark::State& state, const Row& row, ToBytesFn kernel) {
  const auto x = floats(n);
  Lines<std::int8_t> y(n);
  run_loop(state, row.context, {n * 5.0, n * 2.0}, [&] { benchmark::DoNotOptimize(kernel(x.data(), y.data(), n)); });
}
void measure(benchmark::State& state, const Row& row, FromHalfFn kernel) {
  const Lines<std::uint16_t> x(n, 0x3C00);
  auto y = floats(n);
  run_loop(state, row.context, {n * 6.0, n * 1.0}, [&] { kernel(x.data(), y.data(), n); });
}
/// A block of 48 x 96 over 128 columns: both operands in the first cache.
void measure(benchmark::State& state, const Row& row, GemmF32Fn kernel) {
  constexpr Index m = 48, width = 96, k = 128;
  const auto a = floats(m * k), b = floats(k * width);
  auto c = floats(m * width);
  const GemmF32 g{a.data(), k, b.data(), width, c.data(), width, m, width, k, false};
  run_loop(state, row.context, {0, 2.0 * m * width * k}, [&] { kernel(g); });
}
void measure(benchmark::State& state, const Row& row, SoftmaxTileFn kernel) {
  constexpr Index rows = 32;
  auto scores = floats(rows * page), max = floats(rows), sum = floats(rows);
  run_loop(state, row.context, {rows * page * 8.0, rows * page * 4.0}, [&] {
    kernel({scores.data(), page, rows, page, max.data(), sum.data()});
  });
}
void measure(benchmark::State& state, const Row& row, SoftmaxRoundedFn kernel) {
  constexpr Index rows = 32;
  auto scores = floats(rows * page), max = floats(rows), sum = floats(rows);
  Lines<std::uint16_t> tiles(rows * page);
  run_loop(state, row.context, {rows * page * 6.0, rows * page * 4.0}, [&] {
    kernel({scores.data(), page, rows, page, max.data(), sum.data()}, nullptr, {tiles.data(), page / chunk_cols});
  });
}
void measure(benchmark::State& state, const Row& row, StoreSumsFn kernel) {
  constexpr Index rows = 32;
  const auto sums = floats(rows * panel_rows);
  auto y = floats(rows * panel_rows);
  run_loop(state, row.context, {rows * panel_rows * 12.0, rows * panel_rows * 1.0}, [&] {
    kernel({sums.data(), panel_rows, nullptr, y.data(), panel_rows, rows, panel_rows, true});
  });
}
void measure(benchmark::State& state, const Row& row, MergePageFn kernel) {
  const auto values = floats(dim);
  auto total = floats(dim);
  float max = 0, sum = 1;
  run_loop(state, row.context, {dim * 12.0, dim * 3.0}, [&] {
    sum = 1;
    kernel(0.0f, 1.0f, values.data(), &max, &sum, total.data(), dim);
  });
}
void measure(benchmark::State& state, const Row& row, ProbeFn kernel) {
  double sum = 0;
  const auto ops = static_cast<double>(kernel(1000, &sum));
  const auto arithmetic = row.kernel == "probe_dot"    ? Arithmetic::int8
                          : row.kernel == "probe_tile" ? Arithmetic::bfloat16
                                                       : Arithmetic::float32;
  run_loop(state, row.context, {0, ops, Level::cache, arithmetic}, [&] { kernel(1000, &sum); });
}
void measure(benchmark::State& state, const Row& row, ProbeReadFn kernel) {
  const Lines<std::uint32_t> words(cache_bytes / 4, 1);
  run_loop(state, row.context, {double(cache_bytes)},
           [&] { benchmark::DoNotOptimize(kernel(words.data(), static_cast<Index>(words.size()))); });
}

/// Activations as integer kernels read them.
struct Activations {
  Lines<float> x = floats(tile_rows * cols), scale, scaled_sum;
  Lines<std::int8_t> q;
  Lines<std::int32_t> sum;
  QuantizedRows rows{};

  Activations(const PackedLayout& l, QuantizeRowFn quantize) {
    const auto groups = static_cast<std::size_t>(tile_rows * l.chunks);
    q.resize(groups * chunk_cols);
    scale.resize(groups);
    sum.resize(groups * l.sets);
    scaled_sum.resize(groups * l.sets);
    rows = {q.data(), scale.data(), sum.data(), scaled_sum.data(), l.chunks, l.sets};
    for (Index r = 0; r < tile_rows; ++r) quantize(x.data() + r * cols, cols, r, rows);
  }
};

/// Kernels that read bitmap panels; here half of their weights are pruned.
bool reads_bitmaps(const std::string& kernel) { return kernel == "dot_sparse" || kernel == "expand_panel"; }

/// Packed panels, walked through again and again.
class Panels {
 public:
  Panels(const Row& row, std::size_t at_least) {
    const Index rows = count_for(*row.format, at_least) * panel_rows;
    const QuantizedTensor source = reads_bitmaps(row.kernel) ? pruned_weights(*row.format, rows, cols, 0.5)
                                                      : random_weights(*row.format, rows, cols);
    const PackOptions options{reads_bitmaps(row.kernel) ? SparsePacking::bitmap : SparsePacking::dense};
    matrix_ = PackedMatrix<cpu::Backend>::pack(row.context, source, options);
  }
  const PackedLayout& layout() const { return matrix_.impl()->layout; }
  const std::uint8_t* next() {
    at_ = at_ + 1 == layout().panels ? 0 : at_ + 1;
    return matrix_.impl()->panel(at_);
  }
  double panel_bytes() const { return double(matrix_.traffic_bytes()) / double(layout().panels); }

 private:
  static Index count_for(const FormatInfo& f, std::size_t bytes) {
    return std::max<Index>(2, Index(double(bytes) / (f.bits_per_weight() / 8 * double(panel_rows * cols))));
  }
  PackedMatrix<cpu::Backend> matrix_;
  Index at_ = 0;
};

constexpr double weights = double(panel_rows * cols);

/// The panels of a row; kept until another row asks, since a row is run several times.
Panels& panels_of(const Row& row, std::size_t at_least) {
  static std::unique_ptr<Panels> last;
  static std::tuple<const FormatInfo*, Cpu*, std::size_t, bool> key;
  const std::tuple wanted{row.format, &row.context, at_least, reads_bitmaps(row.kernel)};
  if (!last || key != wanted) {
    last.reset();
    last = std::make_unique<Panels>(row, at_least);
    key = wanted;
  }
  return *last;
}

void measure(benchmark::State& state, const Row& row, QuantizeRowFn kernel) {
  PackedLayout l;
  l.chunks = cols / chunk_cols;
  Activations a(l, kernel);
  run_loop(state, row.context, {cols * 5.0, cols * 3.0}, [&] { kernel(a.x.data(), cols, 0, a.rows); });
}
void measure(benchmark::State& state, const Row& row, DequantizeFn kernel) {
  Panels& panels = panels_of(row, 0);
  const PackedLayout& l = panels.layout();
  auto out = floats(4 * chunk_cols * panel_rows);  // as linear layers call it, four chunks at a time
  run_loop(state, row.context, {panels.panel_bytes(), 2 * weights}, [&] {
    const std::uint8_t* panel = panels.next();
    for (Index c = 0; c < l.chunks; c += 4) kernel(l, panel, c, 4, out.data());
  });
}
void measure(benchmark::State& state, const Row& row, DotSmallFn kernel) {
  Panels& panels = panels_of(row, memory_bytes);
  const Activations a(panels.layout(), row.table().quantize_row);
  Lines<float> c(4 * panel_rows);
  run_loop(state, row.context, {panels.panel_bytes(), 2 * weights, Level::memory, Arithmetic::int8},
           [&] { kernel(panels.layout(), panels.next(), a.rows, 0, 1, c.data()); });
}

void measure(benchmark::State& state, const Row& row, ExpandPanelFn kernel) {
  Panels& panels = panels_of(row, 0);
  const PackedLayout& l = panels.layout();
  Lines<std::uint8_t> out(static_cast<std::size_t>(l.panel_bytes));
  run_loop(state, row.context, {panels.panel_bytes() + double(l.panel_bytes)},
           [&] { kernel(l, panels.next(), out.data()); });
}

/// Room for a widened panel.
struct Wide {
  Lines<std::uint8_t> codes;
  Lines<float> scales, mins;
  WidePanel panel{};
  explicit Wide(const PackedLayout& l) {
    codes.resize(static_cast<std::size_t>(l.chunks * chunk_cols * panel_rows));
    scales.resize(static_cast<std::size_t>(l.chunks * l.sets * panel_rows));
    mins.resize(scales.size());
    panel = {codes.data(), scales.data(), mins.data(), 0};
  }
};

void measure(benchmark::State& state, const Row& row, WidenFn kernel) {
  Panels& panels = panels_of(row, 0);
  Wide wide(panels.layout());
  run_loop(state, row.context, {panels.panel_bytes() + weights},
           [&] { kernel(panels.layout(), panels.next(), wide.panel); });
}
void measure(benchmark::State& state, const Row& row, DotTileFn kernel) {
  Panels& panels = panels_of(row, 0);
  const PackedLayout& l = panels.layout();
  const Activations activations(l, row.table().quantize_row);
  Wide a(l), b(l);
  row.table().widen(l, panels.next(), a.panel);
  row.table().widen(l, panels.next(), b.panel);
  Lines<float> c(tile_rows * 2 * panel_rows);
  run_loop(state, row.context, {0, 2 * 2 * weights * tile_rows, Level::cache, Arithmetic::int8},
           [&] { kernel(l, a.panel, b.panel, activations.rows, 0, tile_rows, c.data()); });
}


void measure(benchmark::State& state, const Row& row, RoundRowsFn kernel) {
  const auto x = floats(cols);
  Lines<std::uint16_t> tiles(rounded_rows * cols);
  run_loop(state, row.context, {cols * 6.0, cols * 1.0},
           [&] { kernel(x.data(), cols, 1, cols, 0, {tiles.data(), cols / chunk_cols}); });
}
void measure(benchmark::State& state, const Row& row, RoundPanelFn kernel) {
  Panels& panels = panels_of(row, 0);
  const PackedLayout& l = panels.layout();
  constexpr Index pieces = 8;  // chunks, as linear layers call it
  Lines<std::uint16_t> out(pieces * chunk_cols * panel_rows);
  run_loop(state, row.context, {panels.panel_bytes(), 2 * weights}, [&] {
    const std::uint8_t* panel = panels.next();
    for (Index c = 0; c < l.chunks; c += pieces) kernel(l, panel, c, pieces, out.data());
  });
}
/// The 256 values of a page, 16 features wide.
void measure(benchmark::State& state, const Row& row, RoundHalvesFn kernel) {
  const Lines<std::uint16_t> x(page * 16, 0x3C00);
  Lines<std::uint16_t> out(2 * page * 16);
  run_loop(state, row.context, {page * 16 * 4.0, page * 16 * 1.0}, [&] { kernel(x.data(), 16, page, out.data()); });
}
void measure(benchmark::State& state, const Row& row, RoundBytesFn kernel) {
  const Lines<std::int8_t> x(page * 16, 1);
  Lines<std::uint16_t> out(2 * page * 16);
  run_loop(state, row.context, {page * 16 * 3.0, page * 16 * 1.0}, [&] { kernel(x.data(), 16, page, out.data()); });
}
/// A piece of a layer: 32 rows stay in L1, the columns of 16 panels pass through it.
void measure(benchmark::State& state, const Row& row, DotRoundedFn kernel) {
  constexpr Index m = 32, panels = 16, chunks = 8, tile = rounded_rows * chunk_cols;
  const Lines<std::uint16_t> a(m * chunks * chunk_cols, 0x3F80), b(panels * 2 * tile * chunks, 0x3F80);
  auto c = floats(panels * m * panel_rows);
  const RoundedProduct p{a.data(), chunks * tile, b.data(), 2 * tile * chunks,
                         c.data(), panel_rows, m * panel_rows, 0, m, panels, chunks, true};
  run_loop(state, row.context,
           {0, 2.0 * m * panels * panel_rows * chunks * chunk_cols, Level::cache, Arithmetic::bfloat16},
           [&] { kernel(p); });
}

template <class Fn>
concept Measurable = requires(benchmark::State& state, const Row& row, Fn kernel) {
  measure(state, row, kernel);
};

template <class Fn>
constexpr bool per_format = std::is_same_v<Fn, DequantizeFn> || std::is_same_v<Fn, DotSmallFn> ||
                            std::is_same_v<Fn, ExpandPanelFn> || std::is_same_v<Fn, WidenFn> ||
                            std::is_same_v<Fn, DotTileFn> || std::is_same_v<Fn, RoundPanelFn>;

/// Formats that a kernel has rows for: dense ones have no codes, and bitmaps hold the two that can be pruned here.
template <class Fn>
bool has_row(const std::string& kernel, const FormatInfo& f) {
  if (reads_bitmaps(kernel)) return f.name == "q8_0" || f.name == "q4_0";
  return !f.dense || std::is_same_v<Fn, DequantizeFn>;
}

Cpu& context_of(Isa isa) {
  static std::map<Isa, std::unique_ptr<Cpu>> all;
  auto& context = all[isa];
  if (!context) context = std::make_unique<Cpu>(ContextOptions{.threads = 1, .isa = isa});
  return *context;
}

template <class Fn>
void add_row(Isa isa, const std::string& kernel, Fn KernelTable::*member, const FormatInfo* format) {
  const std::string name =
      std::string(to_string(isa)) + "/" + kernel + (format ? "/" + std::string(format->name) : "");
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const Row row{context_of(isa), kernel, format};
    if constexpr (Measurable<Fn>) measure(state, row, row.table().*member);
  })->UseRealTime();
}

/// A line of kernels.def. Lines of instruction sets that this machine or build lacks are named, not left out.
template <class Fn>
void add_line(Isa isa, const std::string& kernel, Fn KernelTable::*member) {
  const auto available = available_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end()) {
    std::fprintf(stderr, "not here: %s/%s\n", std::string(to_string(isa)).c_str(), kernel.c_str());
    return;
  }
  if (!Measurable<Fn>) {
    std::fprintf(stderr, "no case for this signature: %s/%s\n", std::string(to_string(isa)).c_str(), kernel.c_str());
    return;
  }
  if (!per_format<Fn>) return add_row(isa, kernel, member, nullptr);
  for (const FormatInfo* f : all_formats()) {
    if (has_row<Fn>(kernel, *f)) add_row(isa, kernel, member, f);
  }
}

void add_all() {
#define NIBBLE_CPU_KERNEL(isa, kernel) add_line(Isa::isa, #kernel, &KernelTable::kernel);
#include "cpu/kernels.def"
#undef NIBBLE_CPU_KERNEL
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
