// SPDX-License-Identifier: MIT
// Attention's two matrix products: queries of a block with one page's keys, and their weights with its values. In
// FP32, or on BF16 tiles where the machine has them and queries are many (ops/cpu/attention.cpp has all between).
#pragma once

#include "cpu/kernel_table.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble::cpu_ops {

inline constexpr Index page_keys = kv_page_tokens;

/// Running or partial results of a block's rows.
struct Partial {
  float* max;
  float* sum;     ///< 0: nothing visible so far
  float* values;  ///< [rows, value_dim]
};

/// Keys [begin, end) of a page; begin is a multiple of 64.
struct KeyRange {
  Index begin, end;
  bool empty() const noexcept { return begin >= end; }
  Index keys() const noexcept { return end - begin; }
};

/// A page of one KV head: keys and values of its 256 positions.
struct PageData {
  struct Side {
    const std::byte* data;
    const float* scales = nullptr;  ///< [256] of INT8
  };
  Side keys, values;
};

/// The products of one block of query rows; scratch from a worker's arena.
class PageProducts {
 public:
  /// For up to `rows` rows. What `rounded` says must depend on the batch alone, not on threads.
  PageProducts(Context& context, const KvShape& shape, bool rounded, Index rows, Arena& arena);

  /// Rows that results have room for: whole tiles where products are rounded.
  static Index padded(bool rounded, Index rows) noexcept;
  /// Whether BF16 tiles serve a batch of `tokens` queries of `group` heads.
  static bool rounds(const Context& context, const KvShape& shape, Index tokens, Index group) noexcept;

  /// Row `row` is scale * query[head_dim].
  void set_query(Index row, const float* query, float scale);
  /// [rows, 256]
  float* scores() const noexcept { return scores_; }
  /// scores()[:, range] of the first `rows` queries.
  void score(const PageData& page, const KeyRange& range, Index rows);
  /// out.max and out.sum of scores()[:, range], out.values = sum of exp(score - max) times values.
  void weigh(const PageData& page, const KeyRange& range, Index rows, const Partial& out);

 private:
  void set_right_side(const std::byte* data, Index count, float* scratch, Index rows, cpu::GemmF32& g) const;
  void round_right_side(const std::byte* data, Index stride, Index rows, std::uint16_t* out) const;
  void scale_columns(const float* scales, const KeyRange& range, Index rows) const;

  Context& context_;
  const KvShape& shape_;
  bool rounded_;
  float* scores_;
  float* queries_;  ///< [rows, head_dim]
  float* keys_;     ///< [256 / 16, head_dim, 16]
  float* values_;   ///< [256, value_dim]
  // BF16:
  cpu::RoundedRows query_tiles_{}, weight_tiles_{};
  std::uint16_t* right_ = nullptr;  ///< keys or values as right-hand tiles
};

}  // namespace nibble::cpu_ops
