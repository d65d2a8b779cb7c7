// SPDX-License-Identifier: MIT
#include "ops/cpu/panel_sums.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/pack_sparse.hpp"

#include "nibble/config.hpp"
#if NIBBLE_HAS_ONEDNN
#include "onednn/dense.hpp"
#endif

namespace nibble::cpu_ops {

using cpu::panel_rows;

namespace {

constexpr Index small_rows = 4;    ///< up to here codes are not widened
constexpr Index many_rows = 8;     ///< beyond, rounding a panel pays
/// Rounded at a time. Of one panel 320 columns (20 KiB) stay in L1 while all rows pass through it. Of up to 16 panels
/// 256 columns (256 KiB) and the sums pass through L1, beside 32 rows; rows that L2 cannot hold are read once for all.
constexpr Index one_chunks = 10, together_chunks = 8;
constexpr Index block_rows = 2 * cpu::rounded_rows;
constexpr Index float_chunks = 4;  ///< chunks dequantized at a time: 128 columns x 32 rows x 4 bytes, in L1

struct PanelRef {
  const PackedImpl* w = nullptr;  ///< null: no panel
  Index index = 0;
};
using SumsReady = FunctionRef<void(const PanelSums&)>;

struct Call {
  Context& context;
  const InputRows& in;
  Index first, end;
  Arena& arena;
  Index rows() const noexcept { return end - first; }
};

/// The panel as kernels read it; a sparse one is expanded into scratch, which the caller's ArenaScope frees.
const std::uint8_t* dense_panel(const Call& k, PanelRef p) {
  const std::uint8_t* data = p.w->panel(p.index);
  if (p.w->dense()) return data;
  std::uint8_t* scratch = k.arena.take<std::uint8_t>(p.w->layout.panel_bytes).data();
  if (p.w->bitmap()) k.context.kernels().expand_panel(p.w->layout, data, scratch);
  else cpu::expand_blocks(p.w->block_layout, p.w->layout, data, scratch);
  return scratch;
}

/// A panel for integer kernels, and the activations beside it.
struct CodePanel {
  cpu::PackedLayout layout;
  const std::uint8_t* data = nullptr;
  cpu::DotSmallFn dot_small = nullptr;
  cpu::QuantizedRows x{};
  Index first = 0;              ///< row of x that the call's first is
  const float* lost = nullptr;  ///< [rows of x] what chunks that are missing add; null: nothing

  /// Adds `lost` to sums of rows [r, r + m) of x.
  void add_lost(Index r, Index m, Index stride, float* sums) const {
    for (Index i = 0; lost != nullptr && i < m; ++i)
      for (Index c = 0; c < panel_rows; ++c) sums[i * stride + c] += lost[r + i];
  }
};

/// The activations of a panel's chunks alone. A missing chunk would add 0 to every sum, or NaN where the activations'
/// scale is not finite.
void gather_chunks(const Call& k, const cpu::BlockPanel& blocks, const cpu::QuantizedRows& from, CodePanel& to) {
  const Index rows = k.rows() * k.in.terms, sets = from.sets, n = blocks.count;
  to.x = take_quantized(k.arena, rows, n * cpu::chunk_cols, sets);
  float* lost = k.arena.take<float>(rows).data();
  for (Index r = 0; r < rows; ++r) {
    const Index row = (k.first * k.in.terms + r) * from.chunks;
    lost[r] = 0;
    for (Index i = 0, chunk = 0; chunk < from.chunks; ++chunk) {
      const Index g = row + chunk, at = r * n + i;
      if (i == n || blocks.chunks[i] != chunk) {
        lost[r] += from.scale[g] * 0.0f;
        continue;
      }
      std::memcpy(to.x.q + at * cpu::chunk_cols, from.q + g * cpu::chunk_cols, cpu::chunk_cols);
      to.x.scale[at] = from.scale[g];
      std::copy_n(from.sum + g * sets, sets, to.x.sum + at * sets);
      std::copy_n(from.scaled_sum + g * sets, sets, to.x.scaled_sum + at * sets);
      ++i;
    }
  }
  to.lost = lost;
}

/// In the arena are activations of blocks, and where no kernel reads bitmaps the panel.
CodePanel code_panel(const Call& k, PanelRef p, bool tiles) {
  const cpu::KernelTable& kernels = k.context.kernels();
  CodePanel c{p.w->layout, nullptr, kernels.dot_small, k.in.with_sums(p.w->layout.sets), k.first * k.in.terms};
  if (p.w->blocks()) {
    const cpu::BlockPanel blocks(p.w->panel(p.index));
    c.layout = p.w->block_layout;
    c.layout.chunks = blocks.count;
    c.data = blocks.records;
    c.first = 0;
    const cpu::QuantizedRows all = c.x;
    gather_chunks(k, blocks, all, c);
  } else if (p.w->bitmap() && !tiles && kernels.dot_sparse != nullptr) {
    c.data = p.w->panel(p.index);
    c.dot_small = kernels.dot_sparse;
  } else {
    c.data = dense_panel(k, p);
  }
  return c;
}

/// sums[rows][32] in FP32, dequantizing a few chunks at a time.
void float_panel(const Call& k, PanelRef p, float* sums) {
  const cpu::PackedLayout& l = p.w->layout;
  const ArenaScope own(k.arena);
  const std::uint8_t* data = dense_panel(k, p);
  float* scratch = k.arena.take<float>(float_chunks * cpu::chunk_cols * panel_rows).data();
  cpu::GemmF32 g{nullptr, k.in.stride, nullptr, panel_rows, sums, panel_rows, k.rows(), panel_rows, 0, false};
  if (l.cols == 0) std::fill_n(sums, k.rows() * panel_rows, 0.0f);
  for (Index chunk = 0; chunk < l.chunks; chunk += float_chunks) {
    const Index first_col = chunk * cpu::chunk_cols;
    g.k = std::min(float_chunks * cpu::chunk_cols, l.cols - first_col);
    g.a = k.in.floats + k.first * k.in.stride + first_col;
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

#if NIBBLE_HAS_ONEDNN
/// Rows from which oneDNN beats gemm_f32: 1.2 to 1.4 times on AVX-512, measured (docs/performance.md).
constexpr Index onednn_rows = 64;

/// Dense weights only: its sums depend on the number of rows, which exact numerics promise they do not.
bool uses_onednn(const Call& k, const PackedImpl& w) noexcept {
  return !w.has_codes() && k.rows() >= onednn_rows && k.context.numerics() == Numerics::fast &&
         !k.context.batch_invariant() && k.context.isa() >= cpu::Isa::avx2 && w.layout.cols > 0;
}

/// sums[rows][32] by oneDNN, from a panel unpacked to floats.
void onednn_panel(const Call& k, PanelRef p, float* sums) {
  const cpu::PackedLayout& l = p.w->layout;
  const ArenaScope own(k.arena);
  const float* b = reinterpret_cast<const float*>(p.w->panel(p.index));
  if (l.kind != cpu::PanelKind::f32) {
    float* scratch = k.arena.take<float>(l.chunks * cpu::chunk_cols * panel_rows).data();
    k.context.kernels().dequantize(l, p.w->panel(p.index), 0, l.chunks, scratch);
    b = scratch;
  }
  onednn::product(k.in.floats + k.first * k.in.stride, k.in.stride, b, panel_rows, sums, panel_rows, k.rows(),
                  panel_rows, l.cols, k.arena);
}
#endif

/// Adds a refined token's second row of sums to its first. Returns what follows from token to token.
Index join_terms(Index terms, Index rows, Index stride, float* sums) {
  if (terms == 1) return stride;
  for (Index r = 0; r < rows; ++r) {
    float* sum = sums + 2 * r * stride;
    for (Index c = 0; c < panel_rows; ++c) sum[c] += sum[stride + c];
  }
  return 2 * stride;
}

/// One panel from packed codes, up to four rows at a time.
void small_panel(const Call& k, PanelRef p, SumsReady done) {
  alignas(64) std::array<float, small_rows * panel_rows> sums;
  const ArenaScope own(k.arena);
  const CodePanel panel = code_panel(k, p, false);
  const Index terms = k.in.terms, rows = k.rows() * terms;
  for (Index r = 0; r < rows; r += small_rows) {
    const Index m = std::min(small_rows, rows - r);
    panel.dot_small(panel.layout, panel.data, panel.x, panel.first + r, m, sums.data());
    panel.add_lost(r, m, panel_rows, sums.data());
    const Index stride = join_terms(terms, m / terms, panel_rows, sums.data());
    done({sums.data(), stride, nullptr, 0, k.first + r / terms, m / terms});
  }
}

bool has_min(const cpu::PackedLayout& l) noexcept { return l.min.kind != cpu::ParameterKind::none; }

cpu::WidePanel widened(const Call& k, const CodePanel& p) {
  const cpu::PackedLayout& l = p.layout;
  cpu::WidePanel w{};
  w.codes = k.arena.take<std::uint8_t>(l.chunks * cpu::chunk_cols * panel_rows).data();
  w.scales = k.arena.take<float>(l.chunks * l.sets * panel_rows).data();
  w.mins = k.arena.take<float>(has_min(l) ? l.chunks * l.sets * panel_rows : 0).data();
  k.context.kernels().widen(l, p.data, w);
  return w;
}

/// Panels that one tile can multiply together: with the same activations, so not in blocks.
bool alike(const PackedImpl& one, const PackedImpl& other) noexcept {
  const cpu::PackedLayout &a = one.layout, &b = other.layout;
  return !one.blocks() && !other.blocks() && a.kind == b.kind && a.bits == b.bits && a.sets == b.sets &&
         has_min(a) == has_min(b) && a.has_codebook == b.has_codebook && a.zero == b.zero && a.chunks == b.chunks;
}

void tile_panels(const Call& k, PanelRef a, PanelRef b, SumsReady done) {
  const ArenaScope own(k.arena);
  const CodePanel panel = code_panel(k, a, true);
  const cpu::WidePanel wide_a = widened(k, panel),
                       wide_b = b.w != nullptr ? widened(k, code_panel(k, b, true)) : cpu::WidePanel{};
  float* sums = k.arena.take<float>(cpu::dot_tile_rows * 2 * panel_rows).data();
  float* second = b.w != nullptr ? sums + panel_rows : nullptr;
  const Index terms = k.in.terms, rows = k.rows() * terms;
  for (Index r = 0; r < rows; r += cpu::dot_tile_rows) {
    const Index m = std::min(cpu::dot_tile_rows, rows - r);
    k.context.kernels().dot_tile(panel.layout, wide_a, wide_b, panel.x, panel.first + r, m, sums);
    panel.add_lost(r, m, 2 * panel_rows, sums);
    const Index stride = join_terms(terms, m / terms, 2 * panel_rows, sums);
    if (second != nullptr) join_terms(terms, m / terms, 2 * panel_rows, second);
    done({sums, stride, second, stride, k.first + r / terms, m / terms});
  }
}

/// Panels [panel, panel + n) of w, and of up beside it, each rounded once for all rows, a few chunks at a time.
void rounded_sums(const Call& k, const PackedImpl& w, const PackedImpl* up, Index panel, Index n, PanelReady done) {
  const ArenaScope own(k.arena);
  const Index panels = up != nullptr ? 2 * n : n, chunks = w.layout.chunks, rows = k.rows();
  const bool together = n > 1;
  const Index per_call = together ? panels : 1;  // all rows: the unit runs dry at the end of each call
  const Index most = together ? together_chunks : one_chunks, pieces = (chunks + most - 1) / most;
  constexpr Index chunk_elements = cpu::chunk_cols * panel_rows, block = block_rows * panel_rows;
  const auto layout = [&](Index i) -> const cpu::PackedLayout& { return (i < n ? w : *up).layout; };
  const std::uint8_t** data = k.arena.take<const std::uint8_t*>(panels).data();
  for (Index i = 0; i < panels; ++i)
    data[i] = dense_panel(k, i < n ? PanelRef{&w, panel + i} : PanelRef{up, panel + i - n});
  std::uint16_t* scratch = k.arena.take<std::uint16_t>(per_call * most * chunk_elements).data();
  const Index blocks = (rows + block_rows - 1) / block_rows;
  float* sums = k.arena.take<float>(blocks * panels * block).data();  // [blocks][panels][32][32]
  const cpu::RoundedRows& x = k.in.rounded;
  const Index stride = x.chunks * cpu::chunk_cols * cpu::rounded_rows;
  const std::uint16_t* first = x.tiles + k.first / cpu::rounded_rows * stride;
  const cpu::KernelTable& kernels = k.context.kernels();
  for (Index piece = 0; piece < pieces; ++piece) {  // of even sizes: a short one is mostly loads and stores of sums
    const Index chunk = piece * chunks / pieces, count = (piece + 1) * chunks / pieces - chunk;
    for (Index i = 0; i < panels; i += per_call) {
      for (Index j = 0; j < per_call; ++j)
        kernels.round_panel(layout(i + j), data[i + j], chunk, count, scratch + j * count * chunk_elements);
      kernels.dot_rounded({first + chunk * cpu::chunk_cols * cpu::rounded_rows, stride, scratch, count * chunk_elements,
                           sums + i * block, panel_rows, block, panels * block, rows, per_call, count, chunk > 0});
    }
  }
  for (Index r = 0; r < rows; r += block_rows)
    for (Index i = 0; i < n; ++i) {
      float* a = sums + (r / block_rows * panels + i) * block;
      done(panel + i, {a, panel_rows, up != nullptr ? a + n * block : nullptr, panel_rows, k.first + r,
                       std::min(block_rows, rows - r)});
    }
}

/// Other dense weights would lose bits that the fast mode promises to keep.
bool can_round(const PackedImpl& w) noexcept { return w.has_codes() || w.layout.kind == cpu::PanelKind::bf16; }

bool uses_rounded(const InputRows& in, const PackedImpl& w) noexcept {
  return in.rounded.tiles != nullptr && can_round(w);
}

bool uses_codes(const Context& context, const PackedImpl& w) noexcept {
  return context.numerics() == Numerics::fast && w.has_codes();
}

/// One panel by its own path.
void one_panel(const Call& k, PanelRef p, SumsReady done) {
  if (uses_rounded(k.in, *p.w))
    return rounded_sums(k, *p.w, nullptr, p.index, 1, [&](Index, const PanelSums& s) { done(s); });
  if (uses_tiles(k.context, k.in, *p.w, k.rows() * k.in.terms)) return tile_panels(k, p, {}, done);
  if (uses_codes(k.context, *p.w)) return small_panel(k, p, done);
  const ArenaScope own(k.arena);
  float* sums = k.arena.take<float>(k.rows() * panel_rows).data();
#if NIBBLE_HAS_ONEDNN
  if (uses_onednn(k, *p.w)) onednn_panel(k, p, sums);
  else
#endif
    float_panel(k, p, sums);
  done({sums, panel_rows, nullptr, 0, k.first, k.rows()});
}

void two_panels(const Call& k, PanelRef a, PanelRef b, SumsReady done) {
  if (alike(*a.w, *b.w) && uses_tiles(k.context, k.in, *a.w, k.rows() * k.in.terms)) return tile_panels(k, a, b, done);
  const ArenaScope own(k.arena);
  float* kept = k.arena.take<float>(k.rows() * panel_rows).data();
  one_panel(k, a, [&](const PanelSums& s) {
    for (Index r = 0; r < s.rows; ++r)
      std::copy_n(s.a + r * s.a_stride, panel_rows, kept + (s.row - k.first + r) * panel_rows);
  });
  one_panel(k, b, [&](const PanelSums& s) {
    done({kept + (s.row - k.first) * panel_rows, panel_rows, s.a, s.a_stride, s.row, s.rows});
  });
}

}  // namespace

ProductPath path_of(const Context& context, const PackedImpl& w, Index rows, bool refined) noexcept {
  const bool round = context.kernels().dot_rounded != nullptr && !context.batch_invariant() &&
                     context.numerics() == Numerics::fast && rows > many_rows && !refined;
  if (round && can_round(w)) return ProductPath::rounded;
  return uses_codes(context, w) ? ProductPath::codes : ProductPath::floats;
}

double reread_cost(Index rows, Index cols) noexcept {
  const Index bytes = rows * cols * 2;
  return bytes <= 640 * 1024 ? 0.0 : bytes <= 1600 * 1024 ? 0.25 : 1.0;
}

bool uses_tiles(const Context& context, const InputRows& in, const PackedImpl& w, Index rows) noexcept {
  return rows > small_rows && uses_codes(context, w) && !uses_rounded(in, w) &&
         context.kernels().dot_tile != nullptr;
}

void panel_sums(Context& context, const InputRows& in, const PackedImpl& w, const PackedImpl* up, PanelRange panels,
                RowRange rows, Index together, Index worker, PanelReady done) {
  const Call k{context, in, rows.first, rows.end, context.worker_arena(worker)};
  if (uses_rounded(in, w) && (up == nullptr || uses_rounded(in, *up))) {
    for (Index panel = panels.first; panel < panels.end; panel += together)
      rounded_sums(k, w, up, panel, std::min(together, panels.end - panel), done);
    return;
  }
  const bool pairs = alike(w, w) && uses_tiles(context, in, w, k.rows() * in.terms);
  for (Index panel = panels.first; panel < panels.end; ++panel) {
    const PanelRef one{&w, panel};
    const auto ready = [&](const PanelSums& s) { done(panel, s); };
    if (up != nullptr) {
      two_panels(k, one, {up, panel}, ready);
    } else if (pairs && panel + 1 < panels.end) {
      tile_panels(k, one, {&w, panel + 1}, [&](const PanelSums& s) {
        done(panel, {s.a, s.a_stride, nullptr, 0, s.row, s.rows});
        done(panel + 1, {s.b, s.b_stride, nullptr, 0, s.row, s.rows});
      });
      ++panel;
    } else {
      one_panel(k, one, ready);
    }
  }
}

}  // namespace nibble::cpu_ops
