// SPDX-License-Identifier: MIT
#include "ops/cpu/linear_region.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>

#include "nibble/core/trace.hpp"
#include "ops/cpu/block_tuner.hpp"

namespace nibble::cpu_ops {

using cpu::panel_rows;

namespace {

constexpr Index rows_per_block = 192;      ///< of activations, which then stay in L2
constexpr Index rounded_per_block = 512;   ///< of BF16 tiles, of which some columns at a time are in L2
constexpr Index few_rows = 16;             ///< up to here what follows on whole rows is the last worker's
constexpr Index task_ops = 4'000'000;      ///< a task of so many operations
constexpr Index task_bytes = 16 * 1024;    ///< or of so many bytes of weights costs more than its dispatch

Index panels_of(const RegionOutput& o) noexcept { return o.w->layout.panels; }

/// How panels and rows are cut into tasks. No result depends on it.
struct Split {
  Index panels_per_task, rows_per_task, row_tasks;
  Index together = 1;  ///< panels that share a reading of rounded activations
  // Where it is being found out:
  std::optional<BlockTuner::Shape> shape{};
  Index choice = 0;
};

/// The number of panels per task, all together, that promises the fewest rounds of tasks on all threads, weighed with
/// what each task reads again.
Index expected_panels(std::span<const RegionOutput> outputs, const Split& s, Index threads) {
  const RegionOutput& o = outputs.front();
  const Index weights = o.up != nullptr ? 2 : 1;
  const double reread = reread_cost(s.rows_per_task, o.w->layout.cols);
  const Index most = reread > 0 ? most_together / weights : 1;
  Index best = 1;
  double least = 0;
  for (Index p = 1; p <= most; ++p) {
    Index tasks = 0;
    for (const RegionOutput& each : outputs) tasks += (panels_of(each) + p - 1) / p * s.row_tasks;
    if (p > 1 && tasks < 3 * threads) break;  // one who is late must find help
    const Index rounds = (tasks + threads - 1) / threads;
    const double cost = double(rounds) * (double(p * weights) + reread);
    if (p > 1 && cost >= least) continue;
    best = p;
    least = cost;
  }
  return best;
}

/// Rounded products: what is expected, half of it or twice as much, whichever proves fastest here.
void split_rounded(const Context& context, std::span<const RegionOutput> outputs, Index panels, Split& s) {
  const RegionOutput& o = outputs.front();
  const Index threads = context.concurrency(), weights = o.up != nullptr ? 2 : 1;
  const Index expected = expected_panels(outputs, s, threads);
  std::array<Index, 3> choices{expected};
  Index count = 1;
  if (expected > 1) choices[static_cast<std::size_t>(count++)] = expected / 2;
  if (2 * expected <= std::min(most_together / weights, panels))
    choices[static_cast<std::size_t>(count++)] = 2 * expected;
  if (count > 1) {
    s.shape = {context.isa(), s.rows_per_task, o.w->layout.cols, panels, weights, threads};
    s.choice = BlockTuner::of_process().choose(*s.shape, count);
  }
  s.together = s.panels_per_task = choices[static_cast<std::size_t>(s.choice)];
}

/// Every worker gets at least 4 tasks, so that one who is late can be helped, and about 32 where they are large.
Split split_work(const Context& context, std::span<const RegionOutput> outputs, Index rows, const InputNeeds& needs) {
  Split s{};
  const Index terms = needs.refined ? 2 : 1;
  const Index per_block = needs.rounded ? rounded_per_block : rows_per_block;
  const Index tile = needs.rounded ? 2 * cpu::rounded_rows : 6;
  const Index blocks = std::max<Index>(1, (rows + per_block - 1) / per_block);
  s.rows_per_task = ((rows + blocks - 1) / blocks + tile - 1) / tile * tile;
  s.row_tasks = (rows + s.rows_per_task - 1) / s.rows_per_task;
  Index panels = 0;
  for (const RegionOutput& o : outputs) panels += panels_of(o);
  const RegionOutput& o = outputs.front();
  const Index threads = context.concurrency(), weights = o.up != nullptr ? 2 : 1;
  const Index ops = 2 * weights * panel_rows * o.w->layout.cols * std::min(rows, s.rows_per_task) * terms;
  const Index bytes = weights * static_cast<Index>(o.w->bytes) / std::max<Index>(1, o.w->layout.panels);
  const Index least = 1 + std::min(task_ops / std::max<Index>(1, ops), task_bytes / std::max<Index>(1, bytes));
  const Index most = std::max<Index>(1, panels * s.row_tasks / (4 * threads));
  s.panels_per_task = std::min(most, std::max(least, panels * s.row_tasks / (32 * threads)));
  if (needs.rounded) split_rounded(context, outputs, panels, s);
  if (threads == 1) s.panels_per_task = std::max<Index>(1, panels);
  if (weights == 1 && !needs.rounded && uses_tiles(context, {}, *o.w, s.rows_per_task * terms))
    s.panels_per_task = (s.panels_per_task + 1) / 2 * 2;  // a tile covers two panels
  return s;
}

class Region {
 public:
  Region(Context& context, LinearInput& input, std::span<const RegionOutput> outputs, const RowEpilogue& rows)
      : context_(context), input_(input), outputs_(outputs), rows_(rows),
        split_(split_work(context, outputs, input.rows(), input.needs())) {
    for (const RegionOutput& o : outputs) tasks_ += tasks_of(o);
    open_ = static_cast<std::uint32_t>(tasks_);
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    run_tasks();
    if (!split_.shape) return;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    BlockTuner::of_process().report(*split_.shape, split_.choice, seconds.count() / double(input_.rows()));
  }

 private:
  void run_tasks() {
    context_.executor().run(tasks_ * split_.row_tasks, [&](Index task, Index worker) {
      const Index block = task % split_.row_tasks;
      Index piece = task / split_.row_tasks;
      const RegionOutput* o = outputs_.data();
      for (; piece >= tasks_of(*o); ++o) piece -= tasks_of(*o);
      const Index first = block * split_.rows_per_task,
                  end = std::min(input_.rows(), first + split_.rows_per_task);
      run_task(*o, piece * split_.panels_per_task, first, end, worker);
      if (finishes_itself() && open_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        for (Index r = first; r < end; ++r) finish_row(r);
    });
    if (rows_.normed == nullptr || finishes_itself()) return;
    for_rows(context_, input_.rows(), rows_.sums.cols() * 4, [&](Index r) { finish_row(r); });
  }

  Index tasks_of(const RegionOutput& o) const noexcept {
    return (panels_of(o) + split_.panels_per_task - 1) / split_.panels_per_task;
  }

  void run_task(const RegionOutput& o, Index panel, Index first, Index end, Index worker) {
    const InputRows& in = input_.ready(first, end, worker);
    const PanelRange panels{panel, std::min(panels_of(o), panel + split_.panels_per_task)};
    const auto ready = [&](Index at, const PanelSums& s) {
      if (o.up != nullptr) finish_gated(o, at, s);
      else finish(o, at, s.a, s.a_stride, s.row, s.rows);
    };
    panel_sums(context_, in, *o.w, o.up, panels, {first, end}, split_.together, worker, ready);
  }

  static Index width(const RegionOutput& o, Index panel) noexcept {
    return std::min(panel_rows, o.w->layout.rows - panel * panel_rows);
  }

  void finish(const RegionOutput& o, Index panel, const float* sums, Index stride, Index row, Index rows) const {
    const Index col = panel * panel_rows;
    float* y = o.y.data() + row * o.y.stride(0) + col;
    context_.kernels().store_sums({sums, stride, o.bias == nullptr ? nullptr : o.bias + col, y, o.y.stride(0), rows,
                                   width(o, panel), o.add});
  }

  void finish_gated(const RegionOutput& o, Index panel, const PanelSums& s) const {
    const cpu::KernelTable& k = context_.kernels();
    const Index col = panel * panel_rows, cols = width(o, panel);
    for (Index r = 0; o.bias != nullptr && r < s.rows; ++r)
      k.add(s.a + r * s.a_stride, o.bias + col, s.a + r * s.a_stride, cols);
    for (Index r = 0; o.up_bias != nullptr && r < s.rows; ++r)
      k.add(s.b + r * s.b_stride, o.up_bias + col, s.b + r * s.b_stride, cols);
    // A contiguous block goes through the gate at once: outputs that are not there are zeros.
    const bool contiguous = s.a_stride == panel_rows && s.b_stride == panel_rows;
    const Index times = contiguous ? 1 : s.rows, values = contiguous ? s.rows * panel_rows : cols;
    for (Index r = 0; r < times; ++r) o.gate(s.a + r * s.a_stride, s.b + r * s.b_stride, s.a + r * s.a_stride, values);
    if (o.rounded != nullptr) return round_chunk(*o.rounded, s.row, s.rows, panel, s.a, s.a_stride, cols);
    if (o.quantized == nullptr)
      return k.store_sums({s.a, s.a_stride, nullptr, o.y.data() + s.row * o.y.stride(0) + col, o.y.stride(0), s.rows,
                           cols, false});
    const cpu::QuantizedRows& q = *o.quantized;  // a panel's 32 outputs are one group of the next input
    for (Index r = 0; r < s.rows; ++r) {
      const Index group = (s.row + r) * q.chunks + panel;
      k.quantize_row(s.a + r * s.a_stride, cols, 0,
                     {q.q + group * cpu::chunk_cols, q.scale + group, q.sum + group * q.sets,
                      q.scaled_sum + group * q.sets, 1, q.sets});
    }
  }

  /// A panel's 32 outputs as one chunk of the next input.
  void round_chunk(const cpu::RoundedRows& to, Index row, Index rows, Index chunk, const float* values, Index stride,
                   Index cols) const {
    constexpr Index tile = cpu::rounded_rows * cpu::chunk_cols;
    for (Index end = row + rows, n = 0; row < end; row += n, values += n * stride) {  // a tile's rows are contiguous
      n = std::min(end - row, cpu::rounded_rows - row % cpu::rounded_rows);
      std::uint16_t* first = to.tiles + (row / cpu::rounded_rows * to.chunks + chunk) * tile;
      context_.kernels().round_rows(values, stride, n, cols, row % cpu::rounded_rows, {first, 1});
    }
  }

  /// Few rows are finished by whoever ends the last task, when all sums are visible to it.
  bool finishes_itself() const noexcept { return rows_.normed != nullptr && input_.rows() <= few_rows; }

  void finish_row(Index r) const {
    const cpu::KernelTable& k = context_.kernels();
    const epilogue::Normed& e = *rows_.normed;
    const Index cols = rows_.sums.cols();
    float* t = rows_.sums.data() + r * rows_.sums.stride(0);
    float* y = rows_.y.data() + r * rows_.y.stride(0);
    if (e.norm.present()) apply_norm(k, e.norm, t, t, cols);
    switch (e.then) {
      case epilogue::Normed::Then::store: if (t != y) std::copy_n(t, cols, y); break;
      case epilogue::Normed::Then::gelu_erf: k.gelu_erf(t, y, cols); break;
      case epilogue::Normed::Then::gelu_tanh: k.gelu_tanh(t, y, cols); break;
      case epilogue::Normed::Then::add: k.add(t, y, y, cols); break;
    }
  }

  Context& context_;
  LinearInput& input_;
  std::span<const RegionOutput> outputs_;
  RowEpilogue rows_;
  Split split_;
  Index tasks_ = 0;  ///< per block of rows
  std::atomic<std::uint32_t> open_{0};  ///< tasks left of the only block, where rows are few
};

}  // namespace

InputNeeds needs_of(const Context& context, std::span<const RegionOutput> outputs, Index rows, bool refined) {
  InputNeeds needs{};
  const auto add = [&](const PackedImpl* w) {
    if (w == nullptr) return;
    switch (path_of(context, *w, rows, refined)) {
      case ProductPath::floats: needs.floats = true; break;
      case ProductPath::codes: needs.sums[static_cast<std::size_t>(w->layout.sets - 1)] = true; break;
      case ProductPath::rounded: needs.rounded = true; break;
    }
  };
  for (const RegionOutput& o : outputs) {
    add(o.w);
    add(o.up);
  }
  needs.refined = refined && needs.codes();
  return needs;
}

void run_region(Context& context, LinearInput& input, std::span<const RegionOutput> outputs,
                const RowEpilogue& rows) {
  TraceWork work{};
  const auto add = [&](const PackedImpl* w) {
    if (w == nullptr) return;
    const ProductPath path = path_of(context, *w, input.rows(), input.needs().refined);
    work.arithmetic = path == ProductPath::codes     ? Arithmetic::int8
                      : path == ProductPath::rounded ? Arithmetic::bfloat16
                                                     : work.arithmetic;
    work.bytes += static_cast<std::int64_t>(w->bytes);
    work.ops += 2 * input.rows() * w->layout.rows * w->layout.cols * (path == ProductPath::codes ? input.terms() : 1);
  };
  for (const RegionOutput& o : outputs) {
    add(o.w);
    add(o.up);
  }
  const TraceSpan span(context.trace(), "linear", work);
  if (input.rows() > 0) Region(context, input, outputs, rows).run();
}

}  // namespace nibble::cpu_ops
