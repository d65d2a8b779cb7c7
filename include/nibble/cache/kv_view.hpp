// SPDX-License-Identifier: MIT
// KvView: what attention sees of a sequence's keys and values in one layer: a list of pages. Who owns
// them, and whether they are shared with another sequence, is the state's business, not attention's.
//
// One page holds `page_tokens` positions, head after head: values as rows, keys in blocks of 16 with their
// features ascending, so that a vector of 16 keys is read as it lies and both products of attention stream
// through memory. A page is also the unit of attention's reduction: partial results are formed per page and
// merged in ascending order, in prefill as in decode, which makes both bitwise alike.
//
//   keys     [kv_heads][16 blocks][head_dim][16 keys]
//   values   [kv_heads][256][value_dim]
//
// What an element is, cache/kv_codec.hpp says.
#pragma once

#include <cstddef>
#include <span>

#include "nibble/core/dtype.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Positions per page, for every KV cache of the CPU backend.
inline constexpr Index kv_page_tokens = 256;

struct KvShape {
  DType dtype = DType::f16;  ///< f32, f16 or i8
  Index kv_heads = 0;
  Index head_dim = 0;        ///< of keys
  Index value_dim = 0;       ///< of values

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

/// Keys whose features lie side by side.
inline constexpr Index kv_block_keys = 16;

/// Elements from the start of a page to feature d of a key or value at any position.
constexpr Index key_index(const KvShape& s, Index head, Index position, Index d) noexcept {
  const Index t = position % kv_page_tokens, in_block = t % kv_block_keys;
  return (head * kv_page_tokens + t - in_block) * s.head_dim + d * kv_block_keys + in_block;
}
constexpr Index value_index(const KvShape& s, Index head, Index position, Index d) noexcept {
  return (head * kv_page_tokens + position % kv_page_tokens) * s.value_dim + d;
}

/// Pages [0, ceil(tokens / kv_page_tokens)); a null page lies wholly outside every query's window and
/// must not be read. Read-only for attention, written by AppendKv.
struct KvView {
  KvShape shape{};
  Index tokens = 0;                        ///< valid positions
  std::span<std::byte* const> key_pages;   ///< see key_index
  std::span<std::byte* const> value_pages; ///< see value_index
};

}  // namespace nibble
