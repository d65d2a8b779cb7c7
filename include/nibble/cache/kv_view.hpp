// SPDX-License-Identifier: MIT
// KvView: what attention sees of a sequence's keys and values in one layer: a list of pages. Who owns
// them, and whether they are shared with another sequence, is the state's business, not attention's.
//
// One page holds `page_tokens` positions as [kv_heads][page_tokens][head_dim], so that one head's keys
// are contiguous. A page is also the unit of attention's reduction: partial results are formed per page
// and merged in ascending order, in prefill as in decode, which makes both bitwise alike.
#pragma once

#include <cstddef>
#include <span>

#include "nibble/core/dtype.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Positions per page, for every KV cache of the CPU backend.
inline constexpr Index kv_page_tokens = 256;

struct KvShape {
  DType dtype = DType::f16;  ///< f32 or f16
  Index kv_heads = 0;
  Index head_dim = 0;        ///< of keys
  Index value_dim = 0;       ///< of values

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

/// Pages [0, ceil(tokens / kv_page_tokens)); a null page lies wholly outside every query's window and
/// must not be read. Read-only for attention, written by AppendKv.
struct KvView {
  KvShape shape{};
  Index tokens = 0;                        ///< valid positions
  std::span<std::byte* const> key_pages;   ///< each [kv_heads][kv_page_tokens][head_dim]
  std::span<std::byte* const> value_pages; ///< each [kv_heads][kv_page_tokens][value_dim]
};

}  // namespace nibble
