// SPDX-License-Identifier: MIT
// A panel is packed densely into scratch and then stripped of its pruned weights, so that every rule of codes and
// scales is that of dense panels. How long a panel becomes is known only afterwards: panels are made twice, once to
// be measured and once to be kept.
#include "cpu/pack_sparse.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/kernel_table.hpp"
#include "cpu/pack_codes.hpp"
#include "nibble/core/checked.hpp"

namespace nibble::cpu {

namespace {

#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
#include "cpu/isa/panel_access.hpp"
#include "cpu/isa/quad_word.hpp"

using Impl = PackedMatrix<Backend>::Impl;

constexpr Index chunk_quads = 8;
/// Bytes that must remain of a dense matrix's for decoding to be faster with VBMI2 (docs/performance.md): expanding a
/// line of 4 bits costs as much as one of 8, which holds twice the bytes.
constexpr double worth_bitmap_8 = 0.9, worth_bitmap_4 = 0.8, worth_blocks = 0.95;

/// The bits of a mask whose weights lie in the matrix.
std::uint64_t existing(const PackedLayout& l, Index panel, Index chunk, Index quad, Index half) {
  const Index rows = std::clamp<Index>(l.rows - panel * panel_rows - half * 16, 0, 16);
  const Index cols = std::clamp<Index>(l.cols - chunk * chunk_cols - quad * 4, 0, 4);
  const std::uint64_t in_rows = rows == 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (4 * rows)) - 1;
  return in_rows & ((1u << cols) - 1) * 0x1111111111111111u;
}

/// The codes of 16 rows of a quad, 4 by 4.
void line_codes(const PackedLayout& l, const ChunkCursor& at, Index quad, Index half, std::uint8_t* out) {
  const std::uint8_t* lines = codes_of(l, at) + half * (l.chunk_bytes / 2);
  for (Index r = 0; r < 16; ++r) {
    const std::uint32_t word = quad_word(l.bits, lines + r * 4, quad);
    std::memcpy(out + r * 4, &word, 4);
  }
}

/// The weights of a quad that are stored, of both halves of the panel's rows.
struct QuadMasks {
  std::uint64_t half[2];

  Index count(Index h) const { return std::popcount(half[h]); }
  Index stored_bytes(const PackedLayout& l) const {
    return l.bits == 8 ? count(0) + count(1) : std::max(count(0), count(1));
  }
};

/// Code n of a half among a quad's stored bytes, or'ed into zeros.
void put_stored(const PackedLayout& l, const QuadMasks& masks, Index half, Index n, std::uint8_t code,
                std::uint8_t* stored) {
  if (l.bits == 8) stored[half * masks.count(0) + n] = code;
  else stored[n] |= static_cast<std::uint8_t>(code << (half * 4));
}
int get_stored(const PackedLayout& l, const QuadMasks& masks, Index half, Index n, const std::uint8_t* stored) {
  return l.bits == 8 ? stored[half * masks.count(0) + n] : stored[n] >> (half * 4) & 15;
}

/// A quad's codes, [2][64], and which of them are stored.
QuadMasks quad_codes(const PackedLayout& l, Index panel, Index chunk, Index quad, const ChunkCursor& at,
                     std::uint8_t (&codes)[2][line_bytes]) {
  QuadMasks masks{};
  for (Index half = 0; half < 2; ++half) {
    line_codes(l, at, quad, half, codes[half]);
    for (Index i = 0; i < line_bytes; ++i) masks.half[half] |= std::uint64_t{codes[half][i] != l.pruned} << i;
    masks.half[half] &= existing(l, panel, chunk, quad, half);
  }
  return masks;
}

/// What a panel would take.
struct PanelSize {
  Index bitmap_bytes = 0, block_bytes = 0, kept = 0, kept_chunks = 0;
  int most_of_four = 0;
};

/// Whether a chunk's scales multiply zeros to zeros.
bool finite_scales(const PackedLayout& l, const ChunkCursor& at) {
  for (Index set = 0; set < l.sets; ++set)
    for (Index r = 0; r < panel_rows; ++r)
      if (!std::isfinite(load_parameter(l, l.scale, at, set, r))) return false;
  return true;
}

Index index_bytes(Index chunks) { return (1 + chunks) * Index{sizeof(std::uint32_t)}; }
Index whole_lines(Index bytes) { return checked::round_up(bytes, line_bytes, "packed bytes"); }

bool keeps_chunk(const PackedLayout& l, Index panel, Index chunk, const ChunkCursor& at) {
  std::uint8_t codes[2][line_bytes];
  for (Index quad = 0; quad < chunk_quads; ++quad) {
    const QuadMasks masks = quad_codes(l, panel, chunk, quad, at, codes);
    if ((masks.half[0] | masks.half[1]) != 0) return true;
  }
  return !finite_scales(l, at);
}

PanelSize measure_panel(const PackedLayout& l, Index panel, const std::uint8_t* dense) {
  PanelSize size;
  ChunkCursor at = first_chunk(dense);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    std::uint8_t codes[2][line_bytes];
    if (const Index bytes = heads_bytes(l, chunk); bytes > 0)
      size.bitmap_bytes = checked::round_up(size.bitmap_bytes, Index{8}, "packed bytes") + bytes;
    size.bitmap_bytes += mask_bytes;
    for (Index quad = 0; quad < chunk_quads; ++quad) {
      const QuadMasks masks = quad_codes(l, panel, chunk, quad, at, codes);
      size.bitmap_bytes += masks.stored_bytes(l);
      size.kept += masks.count(0) + masks.count(1);
      for (std::uint64_t mask : masks.half)
        for (; mask != 0; mask >>= 4) size.most_of_four = std::max(size.most_of_four, std::popcount(mask & 15));
    }
    size.kept_chunks += keeps_chunk(l, panel, chunk, at);
  }
  size.bitmap_bytes = whole_lines(size.bitmap_bytes);
  return size;
}

void write_bitmap(const PackedLayout& l, Index panel, const std::uint8_t* dense, std::uint8_t* out) {
  ChunkCursor at = first_chunk(dense);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    const std::uint8_t* record = at.record;  // with which the headers here begin, if there are any
    const Index heads = heads_bytes(l, chunk);
    if (heads > 0) out += align_heads(out) - out;
    for (const std::uint8_t* end = out + heads; out < end; out += l.header_bytes, record += l.record_bytes)
      std::memcpy(out, record, static_cast<std::size_t>(l.header_bytes));
    std::uint8_t* mask_at = out;
    out += mask_bytes;
    for (Index quad = 0; quad < chunk_quads; ++quad, mask_at += 16) {
      std::uint8_t codes[2][line_bytes];
      const QuadMasks masks = quad_codes(l, panel, chunk, quad, at, codes);
      const Index bytes = masks.stored_bytes(l);
      std::memcpy(mask_at, masks.half, 16);
      std::memset(out, 0, static_cast<std::size_t>(bytes));
      for (Index half = 0; half < 2; ++half) {
        Index n = 0;
        for (std::uint64_t m = masks.half[half]; m != 0; m &= m - 1)
          put_stored(l, masks, half, n++, codes[half][std::countr_zero(m)], out);
      }
      out += bytes;
    }
  }
}

/// A header of a record with many chunks as that of a record with chunk `index` alone.
void write_header(const PackedLayout& from, const PackedLayout& to, const ChunkCursor& at, std::uint8_t* out) {
  if (from.scale.kind != ParameterKind::two_level) {
    std::memcpy(out, at.record, static_cast<std::size_t>(from.header_bytes));
    return;
  }
  const Index lower = from.sets * panel_rows;
  std::memcpy(out + to.scale.values, at.record + from.scale.values, panel_rows * 2);
  std::memcpy(out + to.scale.lower, at.record + from.scale.lower + at.index * lower, static_cast<std::size_t>(lower));
}

void write_blocks(const PackedLayout& l, const PackedLayout& stored, Index panel, Index kept,
                  const std::uint8_t* dense, std::uint8_t* out) {
  const auto count = static_cast<std::uint32_t>(kept);
  std::memcpy(out, &count, 4);
  std::uint8_t *index = out + 4, *record = out + whole_lines(index_bytes(kept));
  ChunkCursor at = first_chunk(dense);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(l, at)) {
    if (!keeps_chunk(l, panel, chunk, at)) continue;
    const auto number = static_cast<std::uint32_t>(chunk);
    std::memcpy(index, &number, 4);
    write_header(l, stored, at, record);
    std::memcpy(record + stored.header_bytes, codes_of(l, at), static_cast<std::size_t>(l.chunk_bytes));
    index += 4;
    record += stored.record_bytes;
  }
}

bool stands_for_zero(const PackedLayout& l) {
  return l.has_codebook ? l.codebook[l.pruned] == 0 : l.pruned == l.zero;
}
bool holds_bitmap(const PackedLayout& l) { return (l.bits == 8 || l.bits == 4) && stands_for_zero(l); }
bool holds_blocks(const PackedLayout& l) { return l.min.kind == ParameterKind::none && stands_for_zero(l); }

/// Sizes of a matrix as each packing has it.
struct MatrixSize {
  double dense = 0, bitmap = 0, blocks = 0;
};

SparsePacking best_packing(const ExecutionContext<Backend>& context, const PackedLayout& l, const MatrixSize& size) {
  const bool blocks = holds_blocks(l) && size.blocks < worth_blocks * size.dense;
  const double worth = l.bits == 8 ? worth_bitmap_8 : worth_bitmap_4;
  const bool bitmap =
      context.kernels().dot_sparse != nullptr && holds_bitmap(l) && size.bitmap < worth * size.dense;
  if (blocks && (!bitmap || size.blocks <= size.bitmap)) return SparsePacking::blocks;
  return bitmap ? SparsePacking::bitmap : SparsePacking::dense;
}

PackedLayout one_chunk_records(const PackedLayout& l) {
  PackedLayout one = l;
  one.chunks_per_record = 1;
  finish_layout(one);
  return one;
}

[[noreturn]] void refuse(const QuantizedView& source, SparsePacking wanted) {
  throw Error(Errc::unsupported, "a matrix of " + source.type_name() + " cannot be packed as " +
                                     (wanted == SparsePacking::bitmap
                                          ? "a bitmap, which takes codes of 4 or 8 bits of which one stands for zero"
                                          : "blocks, which take codes without minima of which one stands for zero"));
}

}  // namespace

SparsePacking allowed_packing(const QuantizedView& source, const PackedLayout& l, SparsePacking wanted) {
  const bool bitmap = holds_bitmap(l), blocks = holds_blocks(l);
  if ((wanted == SparsePacking::bitmap && !bitmap) || (wanted == SparsePacking::blocks && !blocks))
    refuse(source, wanted);
  return wanted == SparsePacking::automatic && !bitmap && !blocks ? SparsePacking::dense : wanted;
}

void require_dense(const QuantizedView& source, const PackOptions& options) {
  if (options.sparse == SparsePacking::bitmap || options.sparse == SparsePacking::blocks)
    refuse(source, options.sparse);
}

std::shared_ptr<const Impl> pack_sparse(ExecutionContext<Backend>& context, const PackedLayout& l,
                                        const PackOptions& options, EachPanel each) {
  std::vector<PanelSize> sizes(static_cast<std::size_t>(l.panels));
  const bool fits = each([&](Index p, const std::uint8_t* dense) {
    sizes[static_cast<std::size_t>(p)] = measure_panel(l, p, dense);
  });
  if (!fits) return nullptr;
  const PackedLayout stored = one_chunk_records(l);
  MatrixSize total;
  PackedSparsity found{options.sparse, 0, 0};
  double kept = 0, kept_chunks = 0;
  for (PanelSize& s : sizes) {
    s.block_bytes = whole_lines(whole_lines(index_bytes(s.kept_chunks)) +
                                checked::mul(s.kept_chunks, stored.record_bytes, "packed bytes"));
    total.dense += static_cast<double>(l.panel_bytes);
    total.bitmap += static_cast<double>(s.bitmap_bytes);
    total.blocks += static_cast<double>(s.block_bytes);
    kept += static_cast<double>(s.kept);
    kept_chunks += static_cast<double>(s.kept_chunks);
    found.most_of_four = std::max(found.most_of_four, s.most_of_four);
  }
  if (options.sparse == SparsePacking::automatic) found.packing = best_packing(context, l, total);
  if (found.packing == SparsePacking::dense) return nullptr;
  const bool blocks = found.packing == SparsePacking::blocks;
  const double weights = static_cast<double>(l.rows) * static_cast<double>(l.cols);
  const double chunks = static_cast<double>(l.panels) * static_cast<double>(l.chunks);
  if (blocks) found.stored = chunks > 0 ? kept_chunks / chunks : 1;
  else found.stored = weights > 0 ? kept / weights : 1;

  std::vector<std::uint64_t> starts{0};
  for (const PanelSize& s : sizes)
    starts.push_back(checked::add(starts.back(), static_cast<std::uint64_t>(blocks ? s.block_bytes : s.bitmap_bytes),
                                  "packed bytes"));
  auto impl = std::make_shared<Impl>(
      l, context, options,
      static_cast<std::size_t>(checked::add(starts.back(), std::uint64_t{bitmap_padding}, "packed bytes")));
  impl->sparsity = found;
  impl->block_layout = stored;
  impl->starts = std::move(starts);
  const bool kept_all = each([&](Index p, const std::uint8_t* dense) {
    const auto i = static_cast<std::size_t>(p);
    std::uint8_t* out = impl->data + impl->starts[i];
    if (blocks) write_blocks(l, stored, p, sizes[i].kept_chunks, dense, out);
    else write_bitmap(l, p, dense, out);
  });
  return kept_all ? impl : nullptr;
}

BlockPanel::BlockPanel(const std::uint8_t* panel) noexcept
    : chunks(reinterpret_cast<const std::uint32_t*>(panel) + 1) {
  std::uint32_t n;
  std::memcpy(&n, panel, 4);
  count = n;
  records = panel + (index_bytes(count) + line_bytes - 1) / line_bytes * line_bytes;
}

namespace {

/// A chunk of nothing but the pruned code: in every plane each quad has the plane's bits of it.
void write_pruned_chunk(const PackedLayout& l, std::uint8_t* out) {
  for (int half = 0; half < 2; ++half) {
    if (l.bits == 8) {
      std::memset(out, l.pruned, 8 * line_bytes);
      out += 8 * line_bytes;
      continue;
    }
    int at = 0;
    for (int plane = 4; plane > 0; plane /= 2) {
      if ((l.bits & plane) == 0) continue;
      const int ones = (1 << plane) - 1;
      std::memset(out, (l.pruned >> at & ones) * (255 / ones), static_cast<std::size_t>(plane * line_bytes));
      out += plane * line_bytes;
      at += plane;
    }
  }
}

/// The inverse of write_header, into a record whose other chunks are not touched.
void read_header(const PackedLayout& from, const PackedLayout& to, const std::uint8_t* record, Index index,
                 std::uint8_t* out) {
  if (to.scale.kind != ParameterKind::two_level) {
    std::memcpy(out, record, static_cast<std::size_t>(to.header_bytes));
    return;
  }
  const Index lower = to.sets * panel_rows;
  std::memcpy(out + to.scale.values, record + from.scale.values, panel_rows * 2);
  std::memcpy(out + to.scale.lower + index * lower, record + from.scale.lower, static_cast<std::size_t>(lower));
}

}  // namespace

void expand_blocks(const PackedLayout& stored, const PackedLayout& dense, const std::uint8_t* panel,
                   std::uint8_t* out) {
  const BlockPanel blocks(panel);
  Index next = 0;
  ChunkCursor at = first_chunk(out);
  for (Index chunk = 0; chunk < dense.chunks; ++chunk, next_chunk(dense, at)) {
    std::uint8_t* record = out + (at.record - out);
    std::uint8_t* codes = out + (codes_of(dense, at) - out);
    if (at.index == 0) std::memset(record, 0, static_cast<std::size_t>(dense.header_bytes));
    if (next == blocks.count || blocks.chunks[next] != chunk) {
      write_pruned_chunk(dense, codes);
      continue;
    }
    const std::uint8_t* from = blocks.records + next * stored.record_bytes;
    read_header(stored, dense, from, at.index, record);
    std::memcpy(codes, from + stored.header_bytes, static_cast<std::size_t>(dense.chunk_bytes));
    ++next;
  }
}

void unpack_bitmap(const PackedLayout& l, const std::uint8_t* panel, Index row, std::span<float> out) {
  const PackedLayout heads = heads_layout(l);
  const Index half = row / 16;
  ChunkCursor at = first_chunk(panel);
  for (Index chunk = 0; chunk < l.chunks; ++chunk, next_chunk(heads, at)) {
    if (const Index bytes = heads_bytes(l, chunk); bytes > 0) {
      at = first_chunk(align_heads(panel));
      panel = at.record + bytes;
    }
    const std::uint8_t *masks_at = panel, *stored = panel + mask_bytes;
    for (Index quad = 0; quad < chunk_quads; ++quad) {
      QuadMasks masks;
      std::memcpy(masks.half, masks_at + quad * 16, 16);
      for (Index i = 0; i < 4; ++i) {
        const Index k = chunk * chunk_cols + quad * 4 + i;
        if (k >= l.cols) break;
        const std::uint64_t bit = std::uint64_t{1} << (row % 16 * 4 + i), mask = masks.half[half];
        const int code =
            (mask & bit) != 0 ? get_stored(l, masks, half, std::popcount(mask & (bit - 1)), stored) : l.pruned;
        const Index set = l.sets == 2 ? quad / 4 : 0;
        const float c = l.has_codebook ? l.code_values[code] : static_cast<float>(code - l.zero);
        out[static_cast<std::size_t>(k)] =
            load_parameter(heads, l.scale, at, set, row) * c - load_parameter(heads, l.min, at, set, row);
      }
      stored += masks.stored_bytes(l);
    }
    panel = stored;
  }
}

void unpack_blocks(const PackedLayout& stored, const std::uint8_t* panel, Index row, std::span<float> out) {
  const BlockPanel blocks(panel);
  std::fill(out.begin(), out.end(), 0.0f);
  PackedLayout one = stored;
  one.chunks = 1;
  for (Index i = 0; i < blocks.count; ++i) {
    const Index first = Index{blocks.chunks[i]} * chunk_cols;
    one.cols = std::min(chunk_cols, stored.cols - first);
    unpack_codes(one, blocks.records + i * stored.record_bytes, row,
                 out.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(one.cols)));
  }
}

}  // namespace nibble::cpu
