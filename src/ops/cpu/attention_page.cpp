// SPDX-License-Identifier: MIT
#include "ops/cpu/attention_page.hpp"

#include <algorithm>

#include "ops/cpu/linear_input.hpp"

namespace nibble::cpu_ops {

namespace {

/// Up to so many rows read halves as they lie; more of them share floats made once.
constexpr Index direct_rows = 12;
/// Tiles pay from here on; the tokens are those beyond which linear layers use tiles too.
constexpr Index tile_rows = 32, many_tokens = 8;
constexpr Index tile = cpu::rounded_rows * cpu::chunk_cols;  ///< elements

const std::uint16_t* halves(const std::byte* p) { return reinterpret_cast<const std::uint16_t*>(p); }

}  // namespace

Index PageProducts::padded(bool rounded, Index rows) noexcept {
  return rounded ? (rows + cpu::rounded_rows - 1) / cpu::rounded_rows * cpu::rounded_rows : rows;
}

bool PageProducts::rounds(const Context& context, const KvShape& shape, Index tokens, Index group) noexcept {
  const auto whole = [](Index dim) { return dim > 0 && dim % cpu::chunk_cols == 0; };
  return context.numerics() == Numerics::fast && !context.batch_invariant() && shape.dtype != DType::f32 &&
         context.kernels().dot_rounded != nullptr && tokens > many_tokens && tokens * group >= tile_rows &&
         whole(shape.head_dim) && whole(shape.value_dim);
}

PageProducts::PageProducts(Context& context, const KvShape& shape, bool rounded, Index rows, Arena& arena)
    : context_(context), shape_(shape), rounded_(rounded) {
  const bool convert = !rounded && shape.dtype == DType::f16 && rows > direct_rows;
  scores_ = arena.take<float>(padded(rounded, rows) * page_keys).data();
  queries_ = arena.take<float>((rounded ? 1 : rows) * shape.head_dim).data();
  keys_ = arena.take<float>(convert ? page_keys * shape.head_dim : 0).data();
  values_ = arena.take<float>(convert ? page_keys * shape.value_dim : 0).data();
  if (!rounded) return;
  query_tiles_ = take_rounded(arena, rows, shape.head_dim);
  weight_tiles_ = take_rounded(arena, rows, page_keys);
  right_ = arena.take<std::uint16_t>(page_keys * std::max(shape.head_dim, shape.value_dim)).data();
}

void PageProducts::set_query(Index row, const float* query, float scale) {
  const Index dim = shape_.head_dim;
  float* to = queries_ + (rounded_ ? 0 : row * dim);
  std::copy_n(query, dim, to);
  context_.kernels().scale(to, dim, scale);
  if (rounded_) context_.kernels().round_rows(to, dim, 1, dim, row, query_tiles_);
}

/// Keys or values as they lie, or `count` of them as floats in `scratch`.
void PageProducts::set_right_side(const std::byte* data, Index count, float* scratch, Index rows,
                                  cpu::GemmF32& g) const {
  if (shape_.dtype == DType::f32) {
    g.b = reinterpret_cast<const float*>(data);
  } else if (shape_.dtype == DType::i8) {
    g.b_bytes = reinterpret_cast<const std::int8_t*>(data);
  } else if (rows <= direct_rows) {
    g.b_half = halves(data);
  } else {
    context_.kernels().from_half(halves(data), scratch, count);
    g.b = scratch;
  }
}

/// Rows of 16 elements, `stride` apart, as right-hand tiles.
void PageProducts::round_right_side(const std::byte* data, Index stride, Index rows, std::uint16_t* out) const {
  const cpu::KernelTable& k = context_.kernels();
  if (shape_.dtype == DType::i8) k.round_bytes(reinterpret_cast<const std::int8_t*>(data), stride, rows, out);
  else k.round_halves(halves(data), stride, rows, out);
}

/// scores()[:, range] times the keys' or values' own scales.
void PageProducts::scale_columns(const float* scales, const KeyRange& range, Index rows) const {
  for (Index r = 0; r < rows; ++r) {
    float* row = scores_ + r * page_keys;
    for (Index k = range.begin; k < range.end; ++k) row[k] *= scales[k];
  }
}

void PageProducts::score(const PageData& page, const KeyRange& range, Index rows) {
  const cpu::KernelTable& k = context_.kernels();
  const Index dim = shape_.head_dim, keys = range.keys();
  const Index element = static_cast<Index>(size_of(shape_.dtype));
  const std::byte* data = page.keys.data + range.begin * dim * element;
  const Index blocks = (keys + kv_block_keys - 1) / kv_block_keys;
  if (!rounded_) {
    cpu::GemmF32 g{queries_, dim, nullptr, kv_block_keys, scores_ + range.begin, page_keys, rows, keys, dim,
                   false, dim * kv_block_keys};
    set_right_side(data, blocks * kv_block_keys * dim, keys_, rows, g);
    k.gemm_f32(g);
    if (page.keys.scales != nullptr) scale_columns(page.keys.scales, range, rows);
    return;
  }
  // A block of 16 keys is half a panel; the other half of the last may be old: its scores are not read.
  const Index chunks = dim / cpu::chunk_cols, panels = (blocks + 1) / 2;
  for (Index b = 0; b < blocks; ++b)
    round_right_side(data + b * kv_block_keys * dim * element, kv_block_keys, dim,
                     right_ + b / 2 * chunks * 2 * tile + b % 2 * tile);
  k.dot_rounded({query_tiles_.tiles, chunks * tile, right_, chunks * 2 * tile, scores_ + range.begin, page_keys,
                 cpu::panel_rows, 2 * cpu::rounded_rows * page_keys, rows, panels, chunks, false});
  if (page.keys.scales != nullptr) scale_columns(page.keys.scales, range, rows);
}

void PageProducts::weigh(const PageData& page, const KeyRange& range, Index rows, const Partial& out) {
  const cpu::KernelTable& k = context_.kernels();
  const Index dim = shape_.value_dim, keys = range.keys();
  const Index element = static_cast<Index>(size_of(shape_.dtype));
  const std::byte* data = page.values.data + range.begin * dim * element;
  float* scores = scores_ + range.begin;
  if (!rounded_) {
    k.softmax_tile({scores, page_keys, rows, keys, out.max, out.sum});
    if (page.values.scales != nullptr) scale_columns(page.values.scales, range, rows);
    cpu::GemmF32 g{scores, page_keys, nullptr, dim, out.values, dim, rows, dim, keys, false};
    set_right_side(data, keys * dim, values_, rows, g);
    return k.gemm_f32(g);
  }
  const Index chunks = (keys + cpu::chunk_cols - 1) / cpu::chunk_cols;
  const cpu::RoundedRows weights{weight_tiles_.tiles, chunks};
  const float* scales = page.values.scales == nullptr ? nullptr : page.values.scales + range.begin;
  k.softmax_rounded({scores, page_keys, rows, keys, out.max, out.sum}, scales, weights);
  for (Index f = 0; f < dim; f += kv_block_keys)
    round_right_side(data + f * element, dim, keys, right_ + f / 32 * chunks * 2 * tile + f % 32 / 16 * tile);
  k.dot_rounded({weights.tiles, chunks * tile, right_, chunks * 2 * tile, out.values, dim, cpu::panel_rows,
                 2 * cpu::rounded_rows * dim, rows, dim / cpu::chunk_cols, chunks, false});
}

}  // namespace nibble::cpu_ops
