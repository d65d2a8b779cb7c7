// SPDX-License-Identifier: MIT
// Attention on the CPU: for one KV head and a block of queries, all query heads that share it together,
// page after page of 256 keys:
//
//   S = Q K^T      register tiles over transposed keys, each score one FMA chain over the features
//   rules          a hook and a mask, per 64 keys: skipped, untouched or edited
//   P = exp(S - max of the page),  l = sum P,  O = P V     (keys ascending)
//   merge          (max, l, O) of the page into the running ones, pages ascending
//
// A page's partial result depends on the query and the page alone, and pages are merged in order, so
// prefill, chunks, decode and any number of threads give the same bits; when there are too few blocks for
// the threads, pages become tasks of their own.
#include "nibble/ops/attention/attention.hpp"

#include <algorithm>

#include "nibble/core/arena.hpp"
#include "nibble/core/trace.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

namespace {

constexpr Index page_keys = kv_page_tokens;
constexpr Index sub_keys = 64;  ///< masks are classified per so many keys

struct Job {
  Context& context;
  const Attention& op;
  TensorView<const float, 3> q;
  VectorView<const Index> positions;
  const KvView& kv;
  TensorView<float, 3> out;
  Index group, block_tokens, blocks, pages;

  Index rows() const noexcept { return group * block_tokens; }
};

/// Queries [first, first + tokens) of all heads of one KV head. Row h * tokens + t is head h, token t.
struct Block {
  Index kv_head, first, tokens, rows;
};

Block block_of(const Job& job, Index index) {
  const Index b =
      job.blocks - 1 - index / job.kv.shape.kv_heads;  // causal work grows with position: longest first
  const Index first = b * job.block_tokens, tokens = std::min(job.block_tokens, job.positions.size() - first);
  return {index % job.kv.shape.kv_heads, first, tokens, tokens * job.group};
}

/// Running or partial results of a block's rows.
struct Partial {
  float* max;
  float* sum;     ///< 0: nothing visible so far
  float* values;  ///< [rows, value_dim]
};

Partial take_partial(Arena& arena, Index rows, Index value_dim) {
  return {arena.take<float>(rows).data(), arena.take<float>(rows).data(),
          arena.take<float>(rows * value_dim).data()};
}

struct Scratch {
  float* queries;  ///< [rows, head_dim], scaled
  float* keys;     ///< [head_dim, 256]
  float* values;   ///< [256, value_dim]
  float* scores;   ///< [rows, 256]
};

Scratch take_scratch(const Job& job, Arena& arena) {
  const KvShape& s = job.kv.shape;
  return {arena.take<float>(job.rows() * s.head_dim).data(), arena.take<float>(s.head_dim * page_keys).data(),
          arena.take<float>(s.dtype == DType::f32 ? 0 : page_keys * s.value_dim).data(),
          arena.take<float>(job.rows() * page_keys).data()};
}

void gather_queries(const Job& job, const Block& block, float* queries) {
  const Index dim = job.kv.shape.head_dim;
  for (Index h = 0; h < job.group; ++h)
    for (Index t = 0; t < block.tokens; ++t, queries += dim) {
      std::copy_n(job.q[block.first + t][block.kv_head * job.group + h].data(), dim, queries);
      job.context.kernels().scale(queries, dim, job.op.scale);
    }
}

/// One head's rows against `keys` keys from `begin` on inside a page.
ScoreTile tile_of(const Job& job, const Block& block, Index h, Index page, Index begin, Index keys,
                  float* scores) {
  return {scores == nullptr ? nullptr : scores + h * block.tokens * page_keys + begin,
          page_keys,
          {job.positions.data() + block.first, static_cast<std::size_t>(block.tokens)},
          page * page_keys + begin,
          keys,
          block.kv_head * job.group + h};
}

/// Keys [begin, end) of a page that some row may see, in multiples of sub_keys; end clipped to the valid
/// keys.
struct KeyRange {
  Index begin, end;
  bool empty() const noexcept { return begin >= end; }
};

KeyRange visible_range(const Job& job, const Block& block, Index page, float* scores) {
  const Index keys = std::min(page_keys, job.kv.tokens - page * page_keys);
  KeyRange range{page_keys, 0};
  for (Index begin = 0; begin < keys; begin += sub_keys) {
    const Index end = std::min(keys, begin + sub_keys);
    for (Index h = 0; h < job.group; ++h) {
      if (job.op.rules.classify(tile_of(job, block, h, page, begin, end - begin, scores)) == TileClass::skip)
        continue;
      range = {std::min(range.begin, begin), end};
      break;
    }
  }
  return range;
}

const std::byte* page_data(const Job& job, std::span<std::byte* const> pages, Index page, Index head,
                           Index key, Index dim) {
  const std::byte* p = pages[static_cast<std::size_t>(page)];
  NIBBLE_EXPECTS(p != nullptr, "Attention: page " + std::to_string(page) + " is needed but not there");
  return p + (head * page_keys + key) * dim * static_cast<Index>(size_of(job.kv.shape.dtype));
}

void compute_scores(const Job& job, const Block& block, Index page, const KeyRange& range, const Scratch& s) {
  const cpu::KernelTable& k = job.context.kernels();
  const Index dim = job.kv.shape.head_dim;
  k.transpose_keys(page_data(job, job.kv.key_pages, page, block.kv_head, range.begin, dim),
                   job.kv.shape.dtype == DType::f16, range.end - range.begin, dim, s.keys + range.begin);
  const Index columns = (range.end - range.begin + 15) / 16 * 16;
  k.gemm_f32({s.queries, dim, s.keys + range.begin, page_keys, s.scores + range.begin, page_keys, block.rows,
              columns, dim, false});
  for (Index h = 0; h < job.group; ++h) {
    for (Index begin = range.begin; begin < range.end; begin += sub_keys) {
      const ScoreTile tile =
          tile_of(job, block, h, page, begin, std::min(sub_keys, range.end - begin), s.scores);
      const TileClass kind = job.op.rules.classify(tile);
      if (kind != TileClass::skip) {
        job.op.rules.apply(tile, kind);
        continue;
      }
      for (Index t = 0; t < block.tokens; ++t)
        std::fill_n(tile.scores + t * page_keys, tile.keys, -std::numeric_limits<float>::infinity());
    }
  }
}

/// The partial result of one page; false when no row sees a key of it.
bool attend_page(const Job& job, const Block& block, Index page, const Scratch& s, const Partial& out) {
  const KeyRange range = visible_range(job, block, page, s.scores);
  if (range.empty()) return false;
  compute_scores(job, block, page, range, s);
  const cpu::KernelTable& k = job.context.kernels();
  const Index keys = range.end - range.begin, dim = job.kv.shape.value_dim;
  k.softmax_tile({s.scores + range.begin, page_keys, block.rows, keys, out.max, out.sum});
  const std::byte* data = page_data(job, job.kv.value_pages, page, block.kv_head, range.begin, dim);
  const float* values = s.values;
  if (job.kv.shape.dtype == DType::f32) values = reinterpret_cast<const float*>(data);
  else k.from_half(reinterpret_cast<const std::uint16_t*>(data), s.values, keys * dim);
  k.gemm_f32({s.scores + range.begin, page_keys, values, dim, out.values, dim, block.rows, dim, keys, false});
  return true;
}

void merge(const Job& job, Index rows, const Partial& page, const Partial& total) {
  const Index dim = job.kv.shape.value_dim;
  for (Index r = 0; r < rows; ++r)
    job.context.kernels().merge_page(page.max[r], page.sum[r], page.values + r * dim, total.max + r,
                                     total.sum + r, total.values + r * dim, dim);
}

void write_out(const Job& job, const Block& block, const Partial& total) {
  const Index dim = job.kv.shape.value_dim;
  for (Index h = 0; h < job.group; ++h)
    for (Index t = 0; t < block.tokens; ++t) {
      const Index row = h * block.tokens + t;
      float* out = job.out[block.first + t][block.kv_head * job.group + h].data();
      const float sum = total.sum[row];
      if (sum == 0.0f) std::fill_n(out, dim, 0.0f);  // sees no key: its values were never set
      else
        for (Index d = 0; d < dim; ++d) out[d] = total.values[row * dim + d] / sum;
    }
}

/// Enough blocks: each task walks its pages.
void run_blocks(const Job& job) {
  const KvShape& shape = job.kv.shape;
  job.context.executor().run(job.blocks * shape.kv_heads, [&](Index task, Index worker) {
    Arena& arena = job.context.worker_arena(worker);
    const ArenaScope own(arena);
    const Block block = block_of(job, task);
    const Scratch scratch = take_scratch(job, arena);
    const Partial page = take_partial(arena, block.rows, shape.value_dim);
    const Partial total = take_partial(arena, block.rows, shape.value_dim);
    std::fill_n(total.sum, block.rows, 0.0f);
    gather_queries(job, block, scratch.queries);
    for (Index p = 0; p < job.pages; ++p)
      if (attend_page(job, block, p, scratch, page)) merge(job, block.rows, page, total);
    write_out(job, block, total);
  });
}

/// Few blocks: pages are tasks, then partial results are merged in the order of pages.
void run_pages(const Job& job) {
  const KvShape& shape = job.kv.shape;
  const Index blocks = job.blocks * shape.kv_heads, rows = job.rows();
  const ArenaScope scope(job.context.arena());
  const Partial all = take_partial(job.context.arena(), blocks * (job.pages + 1) * rows, shape.value_dim);
  const auto partial = [&](Index block, Index page) {  // page job.pages holds the total
    const Index first = (block * (job.pages + 1) + page) * rows;
    return Partial{all.max + first, all.sum + first, all.values + first * shape.value_dim};
  };
  job.context.executor().run(blocks * job.pages, [&](Index task, Index worker) {
    Arena& arena = job.context.worker_arena(worker);
    const ArenaScope own(arena);
    const Index p = task % job.pages;
    const Block block = block_of(job, task / job.pages);
    const Scratch scratch = take_scratch(job, arena);
    const Partial page = partial(task / job.pages, p);
    gather_queries(job, block, scratch.queries);
    if (!attend_page(job, block, p, scratch, page)) std::fill_n(page.sum, block.rows, 0.0f);
  });
  parallel_for(job.context.executor(), blocks, 4, [&](Index begin, Index end, Index) {
    for (Index b = begin; b < end; ++b) {
      const Block block = block_of(job, b);
      const Partial total = partial(b, job.pages);
      std::fill_n(total.sum, block.rows, 0.0f);
      for (Index p = 0; p < job.pages; ++p) merge(job, block.rows, partial(b, p), total);
      write_out(job, block, total);
    }
  });
}

/// Both products over the keys that blocks of rows visit (multiples of 64), for the trace.
Index visited_ops(const Job& job) {
  Index ops = 0;
  for (Index b = 0; b < job.blocks * job.kv.shape.kv_heads; ++b) {
    const Block block = block_of(job, b);
    for (Index p = 0; p < job.pages; ++p) {
      const KeyRange range = visible_range(job, block, p, nullptr);
      if (!range.empty())
        ops += 2 * block.rows * (range.end - range.begin) * (job.kv.shape.head_dim + job.kv.shape.value_dim);
    }
  }
  return ops;
}

Index tokens_per_block(Index group) { return group == 1 ? 64 : group <= 3 ? 32 : group <= 7 ? 16 : 8; }

void check(const Attention&, TensorView<const float, 3> q, VectorView<const Index> positions,
           const KvView& kv, TensorView<float, 3> out) {
  const KvShape& s = kv.shape;
  NIBBLE_EXPECTS(s.kv_heads > 0 && q.extent(1) % s.kv_heads == 0 && q.extent(2) == s.head_dim,
                 "Attention: q " + to_string(q.extents()) + " does not fit " + std::to_string(s.kv_heads) +
                     " KV heads of " + std::to_string(s.head_dim));
  require_same("Attention", "out", out.extents(), Extents<3>{q.extent(0), q.extent(1), s.value_dim});
  require_length("Attention", "positions", positions.size(), q.extent(0));
  require_rows("Attention", "q", q);
  require_rows("Attention", "out", out);
  require_rows("Attention", "positions", positions);
  NIBBLE_EXPECTS(s.dtype == DType::f32 || s.dtype == DType::f16,
                 "Attention: a cache of " + std::string(to_string(s.dtype)) + " is not supported");
  const auto pages = static_cast<std::size_t>((kv.tokens + page_keys - 1) / page_keys);
  NIBBLE_EXPECTS(kv.tokens >= 0 && kv.key_pages.size() >= pages && kv.value_pages.size() >= pages,
                 "Attention: " + std::to_string(kv.tokens) + " tokens need " + std::to_string(pages) +
                     " pages, there are " + std::to_string(kv.key_pages.size()));
  for (Index t = 1; t < positions.size(); ++t)
    NIBBLE_EXPECTS(positions[t - 1] <= positions[t],
                   "Attention: positions must not decrease, token " + std::to_string(t) + " is at " +
                       std::to_string(positions[t]) + " after " + std::to_string(positions[t - 1]));
}

}  // namespace

template <>
NIBBLE_API void Kernel<Attention, cpu::Backend>::run(Context& context, const Attention& op,
                                                     TensorView<const float, 3> q,
                                                     VectorView<const Index> positions, const KvView& kv,
                                                     TensorView<float, 3> out) {
  const Index cache_bytes = kv.tokens * kv.shape.kv_heads * (kv.shape.head_dim + kv.shape.value_dim) *
                            static_cast<Index>(size_of(kv.shape.dtype));
  check(op, q, positions, kv, out);
  if (out.empty()) return;
  Job job{context, op, q, positions, kv, out, q.extent(1) / kv.shape.kv_heads, 0, 0, 0};
  job.block_tokens = std::min(tokens_per_block(job.group), positions.size());
  job.blocks = (positions.size() + job.block_tokens - 1) / job.block_tokens;
  job.pages = (kv.tokens + page_keys - 1) / page_keys;
  const TraceSpan span(context.trace(), "attention", {cache_bytes, context.trace() ? visited_ops(job) : 0});
  const bool few = job.blocks * kv.shape.kv_heads < 2 * context.concurrency();
  if (few && job.pages > 1 && context.concurrency() > 1) run_pages(job);
  else run_blocks(job);
}

}  // namespace nibble
