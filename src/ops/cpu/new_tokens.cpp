// SPDX-License-Identifier: MIT
#include "ops/cpu/new_tokens.hpp"

#include <algorithm>
#include <cstring>

#include "ops/cpu/linear_input.hpp"

namespace nibble::cpu_ops {

namespace {

constexpr Index few_tokens = 4;            ///< up to here heads are spread over workers, not tokens
constexpr Index unit_elements = 8192;      ///< of queries and keys: some microseconds of work

/// What store_kv does, with vectors.
void append_bytes(const Context& context, const KvView& kv, std::size_t page, Index head, Index position,
                  const float* key, const float* value, std::int8_t* scratch) {
  const KvShape& s = kv.shape;
  const cpu::KernelTable& k = context.kernels();
  const float key_scale = k.to_bytes(key, scratch, s.head_dim);
  auto* keys = reinterpret_cast<std::int8_t*>(kv.key_pages[page]) + key_index(s, head, position, 0);
  for (Index d = 0; d < s.head_dim; ++d) keys[d * kv_block_keys] = scratch[d];
  const float value_scale = k.to_bytes(
      value, reinterpret_cast<std::int8_t*>(kv.value_pages[page]) + value_index(s, head, position, 0), s.value_dim);
  std::memcpy(kv.key_pages[page] + kv_scale_offset(s, s.head_dim, head, position), &key_scale, sizeof key_scale);
  std::memcpy(kv.value_pages[page] + kv_scale_offset(s, s.value_dim, head, position), &value_scale, sizeof value_scale);
}

}  // namespace

void require_page(std::span<std::byte* const> pages, Index position) {
  const auto page = static_cast<std::size_t>(position / kv_page_tokens);
  NIBBLE_EXPECTS(position >= 0 && page < pages.size() && pages[page] != nullptr,
                 "AppendKv: position " + std::to_string(position) + " has no page (" +
                     std::to_string(pages.size()) + " pages of " + std::to_string(kv_page_tokens) + " tokens)");
}

void append_heads(const Context& context, const KvView& kv, TensorView<const float, 3> k,
                  TensorView<const float, 3> v, Index token, Index position, Index first, Index end, Arena& scratch) {
  const KvShape& s = kv.shape;
  const auto page = static_cast<std::size_t>(position / kv_page_tokens);
  const ArenaScope own(scratch);
  std::uint16_t* halves = scratch.take<std::uint16_t>(s.head_dim).data();
  std::int8_t* bytes = scratch.take<std::int8_t>(s.head_dim).data();
  for (Index h = first; h < end; ++h) {
    const float *key = k[token][h].data(), *value = v[token][h].data();
    if (s.dtype == DType::i8) {
      append_bytes(context, kv, page, h, position, key, value, bytes);
      continue;
    }
    const Index key_at = key_index(s, h, position, 0), value_at = value_index(s, h, position, 0);
    if (s.dtype == DType::f32) {
      auto* keys = reinterpret_cast<float*>(kv.key_pages[page]) + key_at;
      for (Index d = 0; d < s.head_dim; ++d) keys[d * kv_block_keys] = key[d];
      std::copy_n(value, s.value_dim, reinterpret_cast<float*>(kv.value_pages[page]) + value_at);
    } else {
      context.kernels().to_half(key, halves, s.head_dim);
      auto* keys = reinterpret_cast<std::uint16_t*>(kv.key_pages[page]) + key_at;
      for (Index d = 0; d < s.head_dim; ++d) keys[d * kv_block_keys] = halves[d];
      context.kernels().to_half(value, reinterpret_cast<std::uint16_t*>(kv.value_pages[page]) + value_at, s.value_dim);
    }
  }
}

Rotation::Rotation(Arena& arena, const Rope& op)
    : pairs(op.pairs), half(op.frequencies.size()), padded((half + 15) / 16 * 16), magnitude(op.magnitude) {
  const std::span<float> table = arena.take<float>(padded);
  std::fill(std::copy_n(op.frequencies.data(), half, table.begin()), table.end(), 0.0f);
  frequencies = table.data();
}

void Rotation::angles(const Context& context, Index position, float* cosine, float* sine) const {
  context.kernels().rope_angles(position, frequencies, magnitude, cosine, sine, padded);
}

void Rotation::turn(const Context& context, float* head, const float* cosine, const float* sine) const {
  if (pairs == Rope::Pairs::halves) context.kernels().rope_halves(head, head + half, cosine, sine, half);
  else context.kernels().rope_neighbours(head, cosine, sine, half);
}

void check_rotation(const char* op, const Rope& rope, Index head_dim) {
  const Index half = rope.frequencies.size();
  NIBBLE_EXPECTS(2 * half <= head_dim, std::string(op) + ": " + std::to_string(half) +
                                           " frequencies need a head of at least " + std::to_string(2 * half) +
                                           " features, not " + std::to_string(head_dim));
  require_rows(op, "frequencies", rope.frequencies);
}

NewTokens::NewTokens(Arena& arena, const CachedAttention& op, const Rotation& rotation, TensorView<float, 3> q,
                     TensorView<float, 3> k, TensorView<const float, 3> v, VectorView<const Index> positions,
                     const KvView& kv)
    : op_(&op), rotation_(&rotation), q_(q), k_(k), v_(v), positions_(positions), kv_(&kv) {
  const Index tokens = positions.size();
  parts_ = tokens <= few_tokens ? kv.shape.kv_heads : 1;
  // Keys of a block lie side by side: a unit of less would share its lines with another worker's.
  unit_tokens_ = std::max(kv_block_keys, unit_elements / ((q.extent(1) + k.extent(1)) * q.extent(2)));
  token_units_ = (tokens + unit_tokens_ - 1) / unit_tokens_;
  units_ = OnceBlocks(arena, parts_ * token_units_);
}

void NewTokens::make_head(const Context& context, TensorView<float, 3> x, Index token, Index head,
                          const FoldedNorm& norm, const float* cosine, const float* sine) const {
  float* p = x[token][head].data();
  if (norm.present()) apply_norm(context.kernels(), norm, p, p, x.extent(2));
  if (rotation_->half > 0) rotation_->turn(context, p, cosine, sine);
}

void NewTokens::make(Context& context, Index unit, Index worker) const {
  Arena& arena = context.worker_arena(worker);
  const ArenaScope own(arena);
  float* cosine = arena.take<float>(rotation_->padded).data();
  float* sine = arena.take<float>(rotation_->padded).data();
  const Index kv_heads = kv_->shape.kv_heads, group = q_.extent(1) / kv_heads;
  const Index first = unit / token_units_ * (kv_heads / parts_), end = first + kv_heads / parts_;
  const Index begin = unit % token_units_ * unit_tokens_;
  for (Index t = begin; t < std::min(positions_.size(), begin + unit_tokens_); ++t) {
    if (rotation_->half > 0) rotation_->angles(context, positions_[t], cosine, sine);
    for (Index h = first * group; h < end * group; ++h)
      make_head(context, q_, t, h, op_->query_norm, cosine, sine);
    for (Index h = first; h < end; ++h) make_head(context, k_, t, h, op_->key_norm, cosine, sine);
    append_heads(context, *kv_, k_, v_, t, positions_[t], first, end, arena);
  }
}

void NewTokens::ready(Context& context, Index kv_head, Index worker) {
  if (op_ == nullptr) return;
  const Index part = parts_ == 1 ? 0 : kv_head;
  units_.ensure(part * token_units_, (part + 1) * token_units_, worker * token_units_ / context.concurrency(),
                [&](Index unit) { make(context, unit, worker); });
}

}  // namespace nibble::cpu_ops
