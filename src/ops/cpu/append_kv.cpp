// SPDX-License-Identifier: MIT
// AppendKv on the CPU: new keys and values into their pages, converted to the cache's type.
#include "nibble/core/trace.hpp"
#include "ops/cpu/new_tokens.hpp"

namespace nibble {

using namespace cpu_ops;

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
  NIBBLE_EXPECTS(is_kv_dtype(kv.shape.dtype),
                 "AppendKv: a cache of " + std::string(to_string(kv.shape.dtype)) + " is not supported");
  for (Index t = 0; t < tokens; ++t) {
    require_page(kv.key_pages, positions[t]);
    require_page(kv.value_pages, positions[t]);
  }
  const Index grain = std::max<Index>(1, elements_per_task / std::max<Index>(row, 1));
  parallel_for(context.executor(), tokens, grain, [&](Index begin, Index end, Index worker) {
    for (Index t = begin; t < end; ++t)
      append_heads(context, kv, k, v, t, positions[t], 0, kv.shape.kv_heads, context.worker_arena(worker));
  });
}

}  // namespace nibble
