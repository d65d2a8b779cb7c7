// SPDX-License-Identifier: MIT
// AppendKv on the CPU: new keys and values into their pages, converted to the cache's type.
#include <cstring>

#include "nibble/core/trace.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

namespace {

void append_rows(Context& context, const KvView& kv, std::span<std::byte* const> pages, Index dim,
                 TensorView<const float, 3> x, Index token, Index position) {
  const auto page = static_cast<std::size_t>(position / kv_page_tokens);
  for (Index h = 0; h < kv.shape.kv_heads; ++h) {
    const Index at = (h * kv_page_tokens + position % kv_page_tokens) * dim;
    const float* from = x[token][h].data();
    if (kv.shape.dtype == DType::f32)
      std::memcpy(reinterpret_cast<float*>(pages[page]) + at, from,
                  static_cast<std::size_t>(dim) * sizeof(float));
    else context.kernels().to_half(from, reinterpret_cast<std::uint16_t*>(pages[page]) + at, dim);
  }
}

void require_page(std::span<std::byte* const> pages, Index position) {
  const auto page = static_cast<std::size_t>(position / kv_page_tokens);
  NIBBLE_EXPECTS(position >= 0 && page < pages.size() && pages[page] != nullptr,
                 "AppendKv: position " + std::to_string(position) + " has no page (" +
                     std::to_string(pages.size()) + " pages of " + std::to_string(kv_page_tokens) +
                     " tokens)");
}

}  // namespace

template <>
NIBBLE_API void Kernel<AppendKv, cpu::Backend>::run(Context& context, const AppendKv&, TensorView<const float, 3> k,
                                         TensorView<const float, 3> v, VectorView<const Index> positions,
                                         const KvView& kv) {
  const Index tokens = positions.size(), row = kv.shape.kv_heads * (kv.shape.head_dim + kv.shape.value_dim);
  const TraceSpan span(context.trace(), "append_kv",
                       {tokens * row * static_cast<Index>(sizeof(float) + size_of(kv.shape.dtype))});
  require_same("AppendKv", "k", k.extents(), Extents<3>{tokens, kv.shape.kv_heads, kv.shape.head_dim});
  require_same("AppendKv", "v", v.extents(), Extents<3>{tokens, kv.shape.kv_heads, kv.shape.value_dim});
  require_rows("AppendKv", "k", k);
  require_rows("AppendKv", "v", v);
  NIBBLE_EXPECTS(kv.shape.dtype == DType::f32 || kv.shape.dtype == DType::f16,
                 "AppendKv: a cache of " + std::string(to_string(kv.shape.dtype)) + " is not supported");
  for (Index t = 0; t < tokens; ++t) {
    require_page(kv.key_pages, positions[t]);
    require_page(kv.value_pages, positions[t]);
  }
  for_rows(context, tokens, row, [&](Index t) {
    append_rows(context, kv, kv.key_pages, kv.shape.head_dim, k, t, positions[t]);
    append_rows(context, kv, kv.value_pages, kv.shape.value_dim, v, t, positions[t]);
  });
}

}  // namespace nibble
