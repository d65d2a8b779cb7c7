// SPDX-License-Identifier: MIT
// Attention on the CPU: for one KV head and a block of queries, all query heads that share it together,
// page after page of 256 keys:
//
//   S = Q K^T      register tiles over blocks of keys, each score one FMA chain over the features
//   rules          a hook and a mask, per 64 keys: skipped, untouched or edited
//   P = exp(S - max of the page),  l = sum P,  O = P V     (keys ascending)
//   merge          (max, l, O) of the page into the running ones, pages ascending
//
// A page's partial result depends on the query and the page alone, and pages are merged in order, so
// prefill, chunks, decode and any number of threads give the same bits; when there are too few blocks for
// the threads, pages become tasks of their own, and whoever ends the last of a block merges them. Sequences
// of a batch are one region together, and new keys are made by the tasks that need them first.
#include "nibble/ops/attention/attention.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "nibble/core/arena.hpp"
#include "nibble/core/trace.hpp"
#include "ops/cpu/attention_page.hpp"
#include "ops/cpu/linear_input.hpp"
#include "ops/cpu/new_tokens.hpp"

namespace nibble {

using namespace cpu_ops;

namespace {

constexpr Index sub_keys = 64;  ///< masks are classified per so many keys
/// The attention of one sequence.
struct Job {
  Context& context;
  float scale;
  const ScoreRules& rules;
  TensorView<const float, 3> q;
  VectorView<const Index> positions;
  const KvView& kv;
  TensorView<float, 3> out;
  Index group = 0, block_tokens = 0, blocks = 0, pages = 0;
  NewTokens fresh{};
  Index first_task = 0;
  bool rounded = false;  ///< products on BF16 tiles
  // Where pages are tasks:
  bool by_page = false;
  Partial partials{};               ///< [blocks * kv_heads][pages]
  std::span<std::uint32_t> open{};  ///< pages left, per block and KV head

  Index rows() const noexcept { return PageProducts::padded(rounded, group * block_tokens); }
  Index parts() const noexcept { return blocks * kv.shape.kv_heads; }
  Index tasks() const noexcept { return parts() * (by_page ? pages : 1); }
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

Partial take_partial(Arena& arena, Index rows, Index value_dim) {
  return {arena.take<float>(rows).data(), arena.take<float>(rows).data(),
          arena.take<float>(rows * value_dim).data()};
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

PageProducts products_of(const Job& job, const Block& block, Arena& arena) {
  PageProducts products(job.context, job.kv.shape, job.rounded, block.rows, arena);
  for (Index h = 0; h < job.group; ++h)
    for (Index t = 0; t < block.tokens; ++t)
      products.set_query(h * block.tokens + t, job.q[block.first + t][block.kv_head * job.group + h].data(), job.scale);
  return products;
}

/// What some row may see of a page, in multiples of sub_keys, the end clipped to the valid keys.
KeyRange visible_range(const Job& job, const Block& block, Index page, float* scores) {
  const Index keys = std::min(page_keys, job.kv.tokens - page * page_keys);
  KeyRange range{page_keys, 0};
  for (Index begin = 0; begin < keys; begin += sub_keys) {
    const Index end = std::min(keys, begin + sub_keys);
    for (Index h = 0; h < job.group; ++h) {
      if (job.rules.classify(tile_of(job, block, h, page, begin, end - begin, scores)) == TileClass::skip)
        continue;
      range = {std::min(range.begin, begin), end};
      break;
    }
  }
  return range;
}

PageData data_of(const Job& job, Index page, Index head) {
  const KvShape& shape = job.kv.shape;
  const auto at = [&](std::span<std::byte* const> pages, Index dim) {
    const std::byte* p = pages[static_cast<std::size_t>(page)];
    NIBBLE_EXPECTS(p != nullptr, "Attention: page " + std::to_string(page) + " is needed but not there");
    PageData::Side side{p + head * page_keys * dim * static_cast<Index>(size_of(shape.dtype))};
    if (shape.dtype == DType::i8)
      side.scales = reinterpret_cast<const float*>(p + kv_scale_offset(shape, dim, head, 0));
    return side;
  };
  return {at(job.kv.key_pages, shape.head_dim), at(job.kv.value_pages, shape.value_dim)};
}

/// Masks and hooks, where they have a say.
void apply_rules(const Job& job, const Block& block, Index page, const KeyRange& range, float* scores) {
  for (Index h = 0; h < job.group; ++h) {
    for (Index begin = range.begin; begin < range.end; begin += sub_keys) {
      const ScoreTile tile = tile_of(job, block, h, page, begin, std::min(sub_keys, range.end - begin), scores);
      const TileClass kind = job.rules.classify(tile);
      if (kind != TileClass::skip) {
        job.rules.apply(tile, kind);
        continue;
      }
      for (Index t = 0; t < block.tokens; ++t)
        std::fill_n(tile.scores + t * page_keys, tile.keys, -std::numeric_limits<float>::infinity());
    }
  }
}

/// The partial result of one page; false when no row sees a key of it.
bool attend_page(const Job& job, const Block& block, Index page, PageProducts& products, const Partial& out) {
  const KeyRange range = visible_range(job, block, page, products.scores());
  if (range.empty()) return false;
  const PageData data = data_of(job, page, block.kv_head);
  products.score(data, range, block.rows);
  apply_rules(job, block, page, range, products.scores());
  products.weigh(data, range, block.rows, out);
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

/// One block against all its pages.
void run_block(Job& job, Index part, Index worker) {
  const KvShape& shape = job.kv.shape;
  Arena& arena = job.context.worker_arena(worker);
  const ArenaScope own(arena);
  const Block block = block_of(job, part);
  job.fresh.ready(job.context, block.kv_head, worker);
  const Partial page = take_partial(arena, job.rows(), shape.value_dim);
  const Partial total = take_partial(arena, block.rows, shape.value_dim);
  std::fill_n(total.sum, block.rows, 0.0f);
  PageProducts products = products_of(job, block, arena);
  for (Index p = 0; p < job.pages; ++p)
    if (attend_page(job, block, p, products, page)) merge(job, block.rows, page, total);
  write_out(job, block, total);
}

/// One block against one page; whoever is last merges the block's pages in ascending order.
void run_page(Job& job, Index task, Index worker) {
  const KvShape& shape = job.kv.shape;
  const Index part = task / job.pages, p = task % job.pages;
  const auto partial = [&](Index page) {
    const Index first = (part * job.pages + page) * job.rows();
    return Partial{job.partials.max + first, job.partials.sum + first,
                   job.partials.values + first * shape.value_dim};
  };
  Arena& arena = job.context.worker_arena(worker);
  const ArenaScope own(arena);
  const Block block = block_of(job, part);
  job.fresh.ready(job.context, block.kv_head, worker);
  PageProducts products = products_of(job, block, arena);
  if (!attend_page(job, block, p, products, partial(p))) std::fill_n(partial(p).sum, block.rows, 0.0f);
  const std::atomic_ref<std::uint32_t> open(job.open[static_cast<std::size_t>(part)]);
  if (open.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const Partial total = take_partial(arena, block.rows, shape.value_dim);
  std::fill_n(total.sum, block.rows, 0.0f);
  for (Index page = 0; page < job.pages; ++page) merge(job, block.rows, partial(page), total);
  write_out(job, block, total);
}

/// Both products over the keys that blocks of rows visit (multiples of 64), for the trace.
Index visited_ops(const Job& job) {
  Index ops = 0;
  for (Index b = 0; b < job.parts(); ++b) {
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

void check(TensorView<const float, 3> q, VectorView<const Index> positions,
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
  NIBBLE_EXPECTS(is_kv_dtype(s.dtype),
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

void plan(Job& job) {
  job.group = job.q.extent(1) / job.kv.shape.kv_heads;
  job.block_tokens = std::min(tokens_per_block(job.group), job.positions.size());
  job.blocks = (job.positions.size() + job.block_tokens - 1) / job.block_tokens;
  job.pages = (job.kv.tokens + page_keys - 1) / page_keys;
  job.rounded = PageProducts::rounds(job.context, job.kv.shape, job.positions.size(), job.group);
}

/// Pages become tasks where all blocks of the batch are too few for the threads.
void plan_pages(Job& job, Index parts_in_all) {
  const Index threads = job.context.concurrency();
  job.by_page = parts_in_all < 2 * threads && job.pages > 1 && threads > 1;
  if (!job.by_page) return;
  Arena& arena = job.context.arena();
  job.partials = take_partial(arena, job.parts() * job.pages * job.rows(), job.kv.shape.value_dim);
  job.open = arena.take<std::uint32_t>(job.parts());
  for (std::uint32_t& n : job.open) n = static_cast<std::uint32_t>(job.pages);
}

/// Runs the jobs as one region; the arena scope is the caller's.
void run_jobs(Context& context, std::span<Job> jobs) {
  Index parts = 0, tasks = 0;
  TraceWork work{};
  for (const Job& job : jobs) {
    const KvShape& s = job.kv.shape;
    if (job.rounded) work.arithmetic = Arithmetic::bfloat16;
    parts += job.parts();
    work.bytes += job.kv.tokens * s.kv_heads * (s.head_dim + s.value_dim) * static_cast<Index>(size_of(s.dtype));
    if (context.trace() != nullptr) work.ops += visited_ops(job);
  }
  const TraceSpan span(context.trace(), "attention", work);
  for (Job& job : jobs) {
    plan_pages(job, parts);
    job.first_task = tasks;
    tasks += job.tasks();
  }
  context.executor().run(tasks, [&](Index task, Index worker) {
    Job& job = *std::prev(std::ranges::upper_bound(jobs, task, {}, &Job::first_task));
    if (job.by_page) run_page(job, task - job.first_task, worker);
    else run_block(job, task - job.first_task, worker);
  });
}

}  // namespace

template <>
NIBBLE_API void Kernel<Attention, cpu::Backend>::run(Context& context, const Attention& op,
                                                     TensorView<const float, 3> q,
                                                     VectorView<const Index> positions, const KvView& kv,
                                                     TensorView<float, 3> out) {
  check(q, positions, kv, out);
  if (out.empty()) return;
  const ArenaScope scope(context.arena());
  Job job{context, op.scale, op.rules, q, positions, kv, out};
  plan(job);
  run_jobs(context, {&job, 1});
}

template <>
NIBBLE_API void Kernel<CachedAttention, cpu::Backend>::run(Context& context, const CachedAttention& op,
                                                           TensorView<float, 3> q, TensorView<float, 3> k,
                                                           TensorView<const float, 3> v,
                                                           VectorView<const Index> positions,
                                                           std::span<const SequenceRows> sequences,
                                                           TensorView<float, 3> out) {
  check_rotation("CachedAttention", op.rope, q.extent(2));
  check_norm("CachedAttention", op.query_norm, q.extent(2));
  check_norm("CachedAttention", op.key_norm, k.extent(2));
  require_rows("CachedAttention", "k", k);
  require_rows("CachedAttention", "v", v);
  const ArenaScope scope(context.arena());
  const Rotation rotation(context.arena(), op.rope);
  std::vector<Job> jobs;
  jobs.reserve(sequences.size());
  for (const SequenceRows& s : sequences) {
    if (s.count == 0) continue;
    NIBBLE_EXPECTS(s.first >= 0 && s.count > 0 && s.count <= positions.size() - s.first,
                   "CachedAttention: rows [" + std::to_string(s.first) + ", +" + std::to_string(s.count) + ") of " +
                       std::to_string(positions.size()));
    const auto at = positions.slice(0, s.first, s.count);
    const auto queries = q.slice(0, s.first, s.count), keys = k.slice(0, s.first, s.count);
    const auto values = v.slice(0, s.first, s.count);
    require_same("CachedAttention", "k", keys.extents(), {s.count, s.kv.shape.kv_heads, s.kv.shape.head_dim});
    require_same("CachedAttention", "v", values.extents(), {s.count, s.kv.shape.kv_heads, s.kv.shape.value_dim});
    check(queries, at, s.kv, out.slice(0, s.first, s.count));
    for (Index t = 0; t < s.count; ++t) {
      require_page(s.kv.key_pages, at[t]);
      require_page(s.kv.value_pages, at[t]);
    }
    jobs.push_back({context, op.scale, op.rules, queries, at, s.kv, out.slice(0, s.first, s.count)});
    plan(jobs.back());
    jobs.back().fresh = NewTokens(context.arena(), op, rotation, queries, keys, values, at, s.kv);
  }
  if (!jobs.empty()) run_jobs(context, jobs);
}

}  // namespace nibble
