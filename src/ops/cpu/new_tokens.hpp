// SPDX-License-Identifier: MIT
// What happens to new tokens before attention: norms of query and key heads, rotation, and the append of keys
// and values to a sequence's pages. Shared by the single ops and by CachedAttention, which lets the tasks that
// need a token's keys make them.
#pragma once

#include "nibble/ops/attention/attention.hpp"
#include "ops/cpu/once.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble::cpu_ops {

/// Throws where a position has no page.
void require_page(std::span<std::byte* const> pages, Index position);
/// Heads [first, end) of one token of k and v[tokens, kv_heads, dim] into their pages, converted to their type.
void append_heads(const Context& context, const KvView& kv, TensorView<const float, 3> k,
                  TensorView<const float, 3> v, Index token, Index position, Index first, Index end, Arena& scratch);

/// A rotation with its frequencies padded to whole vectors; memory from the issuing thread's arena.
struct Rotation {
  Rope::Pairs pairs = Rope::Pairs::halves;
  const float* frequencies = nullptr;
  Index half = 0, padded = 0;
  float magnitude = 1;

  Rotation() = default;
  Rotation(Arena& arena, const Rope& op);
  /// cosine[padded], sine[padded] at a position.
  void angles(const Context& context, Index position, float* cosine, float* sine) const;
  void turn(const Context& context, float* head, const float* cosine, const float* sine) const;
};
void check_rotation(const char* op, const Rope& rope, Index head_dim);

/// The new tokens of one sequence, made ready by the tasks of a region that need them.
class NewTokens {
 public:
  NewTokens() = default;
  /// Rows of `rows` of q, k and v. `op` and `rotation` must outlive this.
  NewTokens(Arena& arena, const CachedAttention& op, const Rotation& rotation, TensorView<float, 3> q,
            TensorView<float, 3> k, TensorView<const float, 3> v, VectorView<const Index> positions,
            const KvView& kv);

  /// Queries of `kv_head`'s group are turned, and its keys and values in the cache, when this returns.
  void ready(Context& context, Index kv_head, Index worker);

 private:
  void make(Context& context, Index unit, Index worker) const;
  void make_head(const Context& context, TensorView<float, 3> x, Index token, Index head, const FoldedNorm& norm,
                 const float* cosine, const float* sine) const;

  const CachedAttention* op_ = nullptr;
  const Rotation* rotation_ = nullptr;
  TensorView<float, 3> q_{}, k_{};
  TensorView<const float, 3> v_{};
  VectorView<const Index> positions_{};
  const KvView* kv_ = nullptr;
  Index parts_ = 1;  ///< KV heads are units of their own where tokens are few
  Index unit_tokens_ = 1, token_units_ = 0;
  OnceBlocks units_{};
};

}  // namespace nibble::cpu_ops
