// SPDX-License-Identifier: MIT
// Turning cached keys is rare (a context that overflowed), so it is the reference, spread over the pool.
#include "nibble/backend/cpu.hpp"
#include "nibble/core/parallel.hpp"
#include "nibble/ops/attention/attention.hpp"

namespace nibble {

template <>
NIBBLE_API void Kernel<RotateKeys, cpu::Backend>::run(ExecutionContext<cpu::Backend>& ctx, const RotateKeys& op,
                                           const KvView& kv) {
  NIBBLE_EXPECTS(op.first >= 0 && op.count >= 0 && op.first <= kv.tokens - op.count,
                 "rotate_keys: positions [" + std::to_string(op.first) + ", +" + std::to_string(op.count) +
                     ") of " + std::to_string(kv.tokens));
  NIBBLE_EXPECTS(2 * op.rope.frequencies.size() <= kv.shape.head_dim,
                 "rotate_keys: more rotary pairs than a head has");
  const TraceSpan span(ctx.trace(), "rotate_keys");
  parallel_for(ctx.executor(), op.count, 32, [&](Index begin, Index end, Index) {
    RotateKeys part = op;
    part.first = op.first + begin;
    part.count = end - begin;
    RotateKeys::reference(part, kv);
  });
}

}  // namespace nibble
