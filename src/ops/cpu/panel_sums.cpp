// SPDX-License-Identifier: MIT
#include "ops/cpu/panel_sums.hpp"

#include <algorithm>
#include <array>

#include "nibble/config.hpp"
#if NIBBLE_HAS_ONEDNN
#include "onednn/dense.hpp"
#endif

namespace nibble::cpu_ops {

using cpu::panel_rows;

namespace {

constexpr Index small_rows = 4;    ///< up to here codes are not widened
constexpr Index tile_rows = 6;
constexpr Index many_rows = 8;     ///< beyond, rounding a panel pays
/// Rounded at a time: 320 columns x 32 rows x 2 bytes, which stay in L1 while activations pass through it.
constexpr Index rounded_chunks = 10;
constexpr Index float_chunks = 4;  ///< chunks dequantized at a time: 128 columns x 32 rows x 4 bytes, in L1

struct Call {
  Context& context;
  const InputRows& in;
  Index first, end;
  Arena& arena;
  Index rows() const noexcept { return end - first; }
};

/// sums[rows][32] in FP32, dequantizing a few chunks at a time.
void float_panel(const Call& k, PanelRef p, float* sums) {
  const cpu::PackedLayout& l = p.w->layout;
  const std::uint8_t* data = p.w->panel(p.index);
  const ArenaScope own(k.arena);
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
  const cpu::QuantizedRows& q = k.in.with_sums(p.w->layout.sets);
  const Index terms = k.in.terms;
  for (Index r = k.first * terms; r < k.end * terms; r += small_rows) {
    const Index m = std::min(small_rows, k.end * terms - r);
    k.context.kernels().dot_small(p.w->layout, p.w->panel(p.index), q, r, m, sums.data());
    const Index stride = join_terms(terms, m / terms, panel_rows, sums.data());
    done({sums.data(), stride, nullptr, 0, r / terms, m / terms});
  }
}

bool has_min(const cpu::PackedLayout& l) noexcept { return l.min.kind != cpu::ParameterKind::none; }

cpu::WidePanel widened(const Call& k, PanelRef p) {
  const cpu::PackedLayout& l = p.w->layout;
  cpu::WidePanel w{};
  w.codes = k.arena.take<std::uint8_t>(l.chunks * cpu::chunk_cols * panel_rows).data();
  w.scales = k.arena.take<float>(l.chunks * l.sets * panel_rows).data();
  w.mins = k.arena.take<float>(has_min(l) ? l.chunks * l.sets * panel_rows : 0).data();
  k.context.kernels().widen(l, p.w->panel(p.index), w);
  return w;
}

/// Panels that one tile can multiply together.
bool alike(const cpu::PackedLayout& a, const cpu::PackedLayout& b) noexcept {
  return a.kind == b.kind && a.bits == b.bits && a.sets == b.sets && has_min(a) == has_min(b) &&
         a.has_codebook == b.has_codebook && a.zero == b.zero && a.chunks == b.chunks;
}

void tile_panels(const Call& k, PanelRef a, PanelRef b, SumsReady done) {
  const cpu::PackedLayout& l = a.w->layout;
  const ArenaScope own(k.arena);
  const cpu::WidePanel wide_a = widened(k, a), wide_b = b.w != nullptr ? widened(k, b) : cpu::WidePanel{};
  float* sums = k.arena.take<float>(tile_rows * 2 * panel_rows).data();
  float* second = b.w != nullptr ? sums + panel_rows : nullptr;
  const Index terms = k.in.terms;
  const cpu::QuantizedRows& q = k.in.with_sums(l.sets);
  for (Index r = k.first * terms; r < k.end * terms; r += tile_rows) {
    const Index m = std::min(tile_rows, k.end * terms - r);
    k.context.kernels().dot_tile(l, wide_a, wide_b, q, r, m, sums);
    const Index stride = join_terms(terms, m / terms, 2 * panel_rows, sums);
    if (second != nullptr) join_terms(terms, m / terms, 2 * panel_rows, second);
    done({sums, stride, second, stride, r / terms, m / terms});
  }
}

/// sums[whole tiles of rows][32], rounding a few chunks at a time.
void rounded_panel(const Call& k, PanelRef p, float* sums) {
  const cpu::PackedLayout& l = p.w->layout;
  const ArenaScope own(k.arena);
  std::uint16_t* scratch = k.arena.take<std::uint16_t>(rounded_chunks * cpu::chunk_cols * panel_rows).data();
  const Index pieces = (l.chunks + rounded_chunks - 1) / rounded_chunks;
  const cpu::RoundedRows& x = k.in.rounded;
  const Index stride = x.chunks * cpu::chunk_cols * cpu::rounded_rows;
  for (Index piece = 0; piece < pieces; ++piece) {  // of even sizes: a short one is mostly loads and stores of sums
    const Index chunk = piece * l.chunks / pieces, count = (piece + 1) * l.chunks / pieces - chunk;
    k.context.kernels().round_panel(l, p.w->panel(p.index), chunk, count, scratch);
    k.context.kernels().dot_rounded({x.tiles + k.first / cpu::rounded_rows * stride +
                                         chunk * cpu::chunk_cols * cpu::rounded_rows,
                                     stride, scratch, 0, sums, panel_rows, k.rows(), 1, count, chunk > 0});
  }
}

void rounded_panels(const Call& k, PanelRef a, PanelRef b, SumsReady done) {
  const ArenaScope own(k.arena);
  const Index whole = (k.rows() + cpu::rounded_rows - 1) / cpu::rounded_rows * cpu::rounded_rows;
  float* sums = k.arena.take<float>(whole * panel_rows).data();
  float* second = b.w != nullptr ? k.arena.take<float>(whole * panel_rows).data() : nullptr;
  rounded_panel(k, a, sums);
  if (second != nullptr) rounded_panel(k, b, second);
  done({sums, panel_rows, second, panel_rows, k.first, k.rows()});
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
  if (uses_rounded(k.in, *p.w)) return rounded_panels(k, p, {}, done);
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

}  // namespace

ProductPath path_of(const Context& context, const PackedImpl& w, Index rows, bool refined) noexcept {
  const bool round = context.kernels().dot_rounded != nullptr && !context.batch_invariant() &&
                     context.numerics() == Numerics::fast && rows > many_rows && !refined;
  if (round && can_round(w)) return ProductPath::rounded;
  return uses_codes(context, w) ? ProductPath::codes : ProductPath::floats;
}

bool uses_tiles(const Context& context, const InputRows& in, const PackedImpl& w, Index rows) noexcept {
  return rows > small_rows && uses_codes(context, w) && !uses_rounded(in, w) &&
         context.kernels().dot_tile != nullptr;
}

void panel_sums(Context& context, const InputRows& in, PanelRef a, PanelRef b, Index first, Index end,
                Index worker, SumsReady done) {
  Arena& arena = context.worker_arena(worker);
  const Call k{context, in, first, end, arena};
  if (b.w == nullptr) return one_panel(k, a, done);
  if (uses_rounded(in, *a.w) && uses_rounded(in, *b.w)) return rounded_panels(k, a, b, done);
  if (alike(a.w->layout, b.w->layout) && uses_tiles(context, in, *a.w, k.rows() * in.terms))
    return tile_panels(k, a, b, done);
  const ArenaScope own(arena);
  float* kept = arena.take<float>(k.rows() * panel_rows).data();
  one_panel(k, a, [&](const PanelSums& s) {
    for (Index r = 0; r < s.rows; ++r)
      std::copy_n(s.a + r * s.a_stride, panel_rows, kept + (s.row - first + r) * panel_rows);
  });
  one_panel(k, b, [&](const PanelSums& s) {
    done({kept + (s.row - first) * panel_rows, panel_rows, s.a, s.a_stride, s.row, s.rows});
  });
}

}  // namespace nibble::cpu_ops
