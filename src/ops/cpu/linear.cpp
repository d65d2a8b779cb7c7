// SPDX-License-Identifier: MIT
// Linear on the CPU. Three paths over the same panels, all of which give a token the same bits whatever
// its batch, since every output is summed over K in ascending order by the same instructions:
//   exact or dense   panels as floats, FP32 FMA chains
//   fast, m <= 4     codes straight from the panel: the weights are read once for all rows
//   fast, more       the panel is widened to bytes once per block of rows, then a register tile
// A refined layer runs the fast paths on two rows per token: INT8 activations, and what they left over.
#include "nibble/ops/linear.hpp"

#include <algorithm>
#include <array>

#include "cpu/packed_impl.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/arena.hpp"
#include "nibble/core/trace.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;
using cpu::panel_rows;

namespace {

constexpr Index small_rows = 4;    ///< up to here codes are not widened
constexpr Index float_chunks = 4;  ///< chunks dequantized at a time: 128 columns x 32 rows x 4 bytes, in L1
constexpr Index rows_per_block = 192;  ///< of activations, which then stay in L2

/// What happens to a tile of sums on its way to y; decided once per call.
struct Finish {
  const float* bias = nullptr;
  bool add = false;

  void operator()(const float* sums, Index stride, Index rows, Index cols, float* y, Index y_stride,
                  Index first_col) const {
    for (Index r = 0; r < rows; ++r, sums += stride, y += y_stride) {
      if (bias != nullptr)
        for (Index c = 0; c < cols; ++c) y[c] = sums[c] + bias[first_col + c];
      else if (add)
        for (Index c = 0; c < cols; ++c) y[c] += sums[c];
      else std::copy_n(sums, cols, y);
    }
  }
};

struct Work {
  Context& context;
  const PackedMatrix<cpu::Backend>::Impl& w;
  MatrixView<const float> x;
  MatrixView<float> y;
  Finish finish;
};

/// How panels and rows are cut into tasks. No result depends on it.
struct Split {
  Index panels_per_task, rows_per_task, panel_tasks, row_tasks;
  Index tasks() const noexcept { return panel_tasks * row_tasks; }
};

Split split_work(Index panels, Index rows, Index threads, Index panel_step, Index row_step, Index max_rows) {
  Split s{};
  const Index row_blocks = std::max<Index>(1, (rows + max_rows - 1) / max_rows);
  s.rows_per_task = (rows + row_blocks - 1) / row_blocks;
  s.rows_per_task = (s.rows_per_task + row_step - 1) / row_step * row_step;
  s.row_tasks = (rows + s.rows_per_task - 1) / s.rows_per_task;
  const Index wanted = threads == 1 ? 1 : threads * 4;
  const Index pieces = std::max<Index>(1, wanted / s.row_tasks);
  s.panels_per_task = std::max(panel_step, (panels / pieces + panel_step - 1) / panel_step * panel_step);
  s.panel_tasks = (panels + s.panels_per_task - 1) / s.panels_per_task;
  return s;
}

/// Calls body(first panel, end panel, first row, end row, worker).
template <class Body>
void for_tasks(Context& context, const Split& s, Index panels, Index rows, Body&& body) {
  context.executor().run(s.tasks(), [&](Index task, Index worker) {
    const Index p = task / s.row_tasks * s.panels_per_task, r = task % s.row_tasks * s.rows_per_task;
    body(p, std::min(panels, p + s.panels_per_task), r, std::min(rows, r + s.rows_per_task), worker);
  });
}

void finish_panel(const Work& k, const float* sums, Index stride, Index panel, Index row, Index rows) {
  const Index col = panel * panel_rows, cols = std::min(panel_rows, k.w.layout.rows - col);
  k.finish(sums, stride, rows, cols, k.y.data() + row * k.y.stride(0) + col, k.y.stride(0), col);
}

/// One panel's sums[rows][32] in FP32, dequantizing a few chunks at a time.
void float_panel(const Work& k, Index panel, Index row, Index rows, float* scratch, float* sums) {
  const cpu::PackedLayout& l = k.w.layout;
  const std::uint8_t* data = k.w.panel(panel);
  cpu::GemmF32 g{nullptr, k.x.stride(0), nullptr, panel_rows, sums, panel_rows, rows, panel_rows, 0, false};
  if (l.cols == 0) std::fill_n(sums, rows * panel_rows, 0.0f);
  for (Index chunk = 0; chunk < l.chunks; chunk += float_chunks) {
    const Index first_col = chunk * cpu::chunk_cols;
    g.k = std::min(float_chunks * cpu::chunk_cols, l.cols - first_col);
    g.a = k.x.data() + row * k.x.stride(0) + first_col;
    if (l.kind == cpu::PanelKind::f32) {
      g.b = reinterpret_cast<const float*>(data) + first_col * panel_rows;
    } else {
      k.context.kernels().dequantize(l, data, chunk, std::min(float_chunks, l.chunks - chunk), scratch);
      g.b = scratch;
    }
    k.context.kernels().gemm_f32(g);
    g.accumulate = true;
  }
}

void run_float(const Work& k) {
  const Index rows = k.x.rows(), panels = k.w.layout.panels;
  const Split split = split_work(panels, rows, k.context.concurrency(), 1, 6, rows_per_block);
  for_tasks(k.context, split, panels, rows, [&](Index p0, Index p1, Index r0, Index r1, Index worker) {
    Arena& arena = k.context.worker_arena(worker);
    const ArenaScope own(arena);
    float* scratch = arena.take<float>(float_chunks * cpu::chunk_cols * panel_rows).data();
    float* sums = arena.take<float>((r1 - r0) * panel_rows).data();
    for (Index p = p0; p < p1; ++p) {
      float_panel(k, p, r0, r1 - r0, scratch, sums);
      finish_panel(k, sums, panel_rows, p, r0, r1 - r0);
    }
  });
}

cpu::QuantizedRows quantize(const Work& k) {
  const cpu::PackedLayout& l = k.w.layout;
  const Index rows = k.x.rows();
  Arena& arena = k.context.arena();
  cpu::QuantizedRows q{};
  q.chunks = l.chunks;
  q.sets = l.sets;
  q.q = arena.take<std::int8_t>(rows * l.chunks * cpu::chunk_cols).data();
  q.scale = arena.take<float>(rows * l.chunks).data();
  q.sum = arena.take<std::int32_t>(rows * l.chunks * l.sets).data();
  q.scaled_sum = arena.take<float>(rows * l.chunks * l.sets).data();
  for_rows(k.context, rows, l.cols,
           [&](Index r) { k.context.kernels().quantize_row(k.x.data() + r * k.x.stride(0), l.cols, r, q); });
  return q;
}

/// Any number of rows, up to four at a time, from packed codes.
void run_dot_small(const Work& k, const cpu::QuantizedRows& q) {
  const Index rows = k.x.rows(), panels = k.w.layout.panels;
  const Split split = split_work(panels, rows, k.context.concurrency(), 1, small_rows, rows_per_block);
  for_tasks(k.context, split, panels, rows, [&](Index p0, Index p1, Index r0, Index r1, Index) {
    alignas(64) std::array<float, small_rows * panel_rows> sums;
    for (Index p = p0; p < p1; ++p) {
      for (Index r = r0; r < r1; r += small_rows) {
        const Index m = std::min(small_rows, r1 - r);
        k.context.kernels().dot_small(k.w.layout, k.w.panel(p), q, r, m, sums.data());
        finish_panel(k, sums.data(), panel_rows, p, r, m);
      }
    }
  });
}

cpu::WidePanel take_wide(Arena& arena, const cpu::PackedLayout& l) {
  cpu::WidePanel w{};
  w.codes = arena.take<std::uint8_t>(l.chunks * cpu::chunk_cols * panel_rows).data();
  w.scales = arena.take<float>(l.chunks * l.sets * panel_rows).data();
  const bool min = l.min.kind != cpu::ParameterKind::none;
  w.mins = arena.take<float>(min ? l.chunks * l.sets * panel_rows : 0).data();
  return w;
}

void run_dot_tile(const Work& k, const cpu::QuantizedRows& q) {
  constexpr Index tile_rows = 6;
  const cpu::PackedLayout& l = k.w.layout;
  const Index rows = k.x.rows();
  const Split split = split_work(l.panels, rows, k.context.concurrency(), 2, tile_rows, rows_per_block);
  const cpu::KernelTable& kernels = k.context.kernels();
  for_tasks(k.context, split, l.panels, rows, [&](Index p0, Index p1, Index r0, Index r1, Index worker) {
    Arena& arena = k.context.worker_arena(worker);
    const ArenaScope own(arena);
    cpu::WidePanel a = take_wide(arena, l), b = take_wide(arena, l);
    float* sums = arena.take<float>(tile_rows * 2 * panel_rows).data();
    for (Index p = p0; p < p1; p += 2) {
      const bool two = p + 1 < p1;
      kernels.widen(l, k.w.panel(p), a);
      if (two) kernels.widen(l, k.w.panel(p + 1), b);
      for (Index r = r0; r < r1; r += tile_rows) {
        const Index m = std::min(tile_rows, r1 - r);
        kernels.dot_tile(l, a, two ? b : cpu::WidePanel{}, q, r, m, sums);
        finish_panel(k, sums, 2 * panel_rows, p, r, m);
        if (two) finish_panel(k, sums + panel_rows, 2 * panel_rows, p + 1, r, m);
      }
    }
  });
}

void run_linear(Context& context, MatrixView<const float> x, const PackedMatrix<cpu::Backend>& w,
                MatrixView<float> y, const Finish& finish) {
  const bool integer = context.numerics() == Numerics::fast && !w.empty() && w.impl()->has_codes();
  const TraceSpan span(context.trace(), "linear",
                       {static_cast<Index>(w.traffic_bytes()), 2 * x.rows() * w.rows() * w.cols(), integer});
  NIBBLE_EXPECTS(x.cols() == w.cols() && y.cols() == w.rows() && x.rows() == y.rows(),
                 "Linear: x " + to_string(x.extents()) + " and weights " +
                     to_string(Extents<2>{w.rows(), w.cols()}) + " do not give y " + to_string(y.extents()));
  require_rows("Linear", "x", x);
  require_rows("Linear", "y", y);
  if (y.empty()) return;
  const Work work{context, *w.impl(), x, y, finish};
  if (!integer) return run_float(work);
  const ArenaScope scope(context.arena());
  const cpu::QuantizedRows q = quantize(work);
  if (x.rows() > small_rows && context.kernels().dot_tile != nullptr) run_dot_tile(work, q);
  else run_dot_small(work, q);
}

/// terms[2 rows, cols] = x, and x minus its INT8 groups, row by row.
void split_activations(const Work& k, MatrixView<float> terms) {
  const ArenaScope scope(k.context.arena());
  const cpu::QuantizedRows q = quantize(k);
  for (Index r = 0; r < k.x.rows(); ++r) {
    const std::int8_t* codes = q.q + r * q.chunks * cpu::chunk_cols;
    for (Index c = 0; c < k.x.cols(); ++c) {
      terms(2 * r, c) = k.x(r, c);
      terms(2 * r + 1, c) = k.x(r, c) - q.scale[r * q.chunks + c / cpu::chunk_cols] * float(codes[c]);
    }
  }
}

/// Both terms go through the layer as rows of one batch, so that a decode step reads the weights once.
void run_refined(Context& context, MatrixView<const float> x, const PackedMatrix<cpu::Backend>& w,
                 MatrixView<float> y, const Finish& finish) {
  constexpr Index rows_at_once = 8;  // bounds the scratch of wide outputs
  for (Index first = 0; first < x.rows(); first += rows_at_once) {
    const ArenaScope scope(context.arena());
    const Index rows = std::min(rows_at_once, x.rows() - first);
    const auto terms = context.arena().take<float>(Extents<2>{2 * rows, x.cols()});
    const auto sums = context.arena().take<float>(Extents<2>{2 * rows, y.cols()});
    split_activations({context, *w.impl(), x.slice(0, first, rows), sums, {}}, terms);
    run_linear(context, terms, w, sums, {});
    for_rows(context, rows, y.cols(), [&](Index r) {
      float* sum = sums.row(2 * r).data();
      const float* rest = sums.row(2 * r + 1).data();
      for (Index c = 0; c < y.cols(); ++c) sum[c] += rest[c];
      finish(sum, y.cols(), 1, y.cols(), y.data() + (first + r) * y.stride(0), y.stride(0), 0);
    });
  }
}

void run_any(Context& context, MatrixView<const float> x, const PackedMatrix<cpu::Backend>& w,
             MatrixView<float> y, const Finish& finish, bool refined) {
  const bool splits = refined && context.numerics() == Numerics::fast && !y.empty() &&
                      w.impl()->has_codes() && x.cols() == w.cols() && y.cols() == w.rows() &&
                      x.rows() == y.rows();
  if (splits) run_refined(context, x, w, y, finish);
  else run_linear(context, x, w, y, finish);
}

}  // namespace

template <>
NIBBLE_API void Kernel<Linear<epilogue::None>, cpu::Backend>::run(Context& context, const Linear<epilogue::None>& op,
                                                       MatrixView<const float> x,
                                                       const PackedMatrix<cpu::Backend>& w,
                                                       MatrixView<float> y) {
  run_any(context, x, w, y, {}, op.refined);
}

template <>
NIBBLE_API void Kernel<Linear<epilogue::Bias>, cpu::Backend>::run(Context& context, const Linear<epilogue::Bias>& op,
                                                       MatrixView<const float> x,
                                                       const PackedMatrix<cpu::Backend>& w,
                                                       MatrixView<float> y) {
  require_length("Linear", "bias", op.epilogue.bias.size(), w.rows());
  require_rows("Linear", "bias", op.epilogue.bias);
  run_any(context, x, w, y, {op.epilogue.bias.data(), false}, op.refined);
}

template <>
NIBBLE_API void Kernel<Linear<epilogue::Add>, cpu::Backend>::run(Context& context, const Linear<epilogue::Add>& op,
                                                      MatrixView<const float> x,
                                                      const PackedMatrix<cpu::Backend>& w,
                                                      MatrixView<float> y) {
  run_any(context, x, w, y, {nullptr, true}, op.refined);
}

}  // namespace nibble
