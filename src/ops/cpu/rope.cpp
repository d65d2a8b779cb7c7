// SPDX-License-Identifier: MIT
// Rope on the CPU. The angle is formed in double (a FP32 product is off by 0.06 rad at position 10^6) and
// its sine and cosine are computed once per token, then used by every head.
#include "nibble/ops/rope.hpp"

#include <algorithm>

#include "nibble/core/trace.hpp"
#include "ops/cpu/new_tokens.hpp"

namespace nibble {

using namespace cpu_ops;

template <>
NIBBLE_API void Kernel<Rope, cpu::Backend>::run(Context& context, const Rope& op, VectorView<const Index> positions,
                                     TensorView<float, 3> x) {
  const Index half = op.frequencies.size(), tokens = x.extent(0), heads = x.extent(1);
  const TraceSpan span(context.trace(), "rope", element_work(2 * half * heads * tokens, 2, 3));
  require_length("Rope", "positions", positions.size(), tokens);
  check_rotation("Rope", op, x.extent(2));
  require_rows("Rope", "x", x);
  if (x.empty() || half == 0) return;

  const ArenaScope scope(context.arena());
  const Rotation rotation(context.arena(), op);
  const Index grain = std::max<Index>(1, elements_per_task / (half * (heads + 8)));
  parallel_for(context.executor(), tokens, grain, [&](Index begin, Index end, Index worker) {
    Arena& arena = context.worker_arena(worker);
    const ArenaScope own(arena);
    float* cosine = arena.take<float>(rotation.padded).data();
    float* sine = arena.take<float>(rotation.padded).data();
    for (Index t = begin; t < end; ++t) {
      rotation.angles(context, positions[t], cosine, sine);
      for (Index h = 0; h < heads; ++h) rotation.turn(context, x[t][h].data(), cosine, sine);
    }
  });
}

}  // namespace nibble
