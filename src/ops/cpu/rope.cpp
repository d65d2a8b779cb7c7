// SPDX-License-Identifier: MIT
// Rope on the CPU. The angle is formed in double (a FP32 product is off by 0.06 rad at position 10^6) and
// its sine and cosine are computed once per token, then used by every head.
#include "nibble/ops/rope.hpp"

#include <algorithm>

#include "nibble/core/arena.hpp"
#include "nibble/core/trace.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

template <>
NIBBLE_API void Kernel<Rope, cpu::Backend>::run(Context& context, const Rope& op, VectorView<const Index> positions,
                                     TensorView<float, 3> x) {
  const Index half = op.frequencies.size(), tokens = x.extent(0), heads = x.extent(1);
  const TraceSpan span(context.trace(), "rope", element_work(2 * half * heads * tokens, 2, 3));
  require_length("Rope", "positions", positions.size(), tokens);
  NIBBLE_EXPECTS(2 * half <= x.extent(2),
                 "Rope: " + std::to_string(half) + " frequencies need a head of at least " +
                     std::to_string(2 * half) + " features, x is " + to_string(x.extents()));
  require_rows("Rope", "x", x);
  require_rows("Rope", "frequencies", op.frequencies);
  if (x.empty() || half == 0) return;

  const Index padded = (half + 15) / 16 * 16;
  const ArenaScope scope(context.arena());
  const std::span<float> frequencies = context.arena().take<float>(padded);
  std::fill(std::copy_n(op.frequencies.data(), half, frequencies.begin()), frequencies.end(), 0.0f);
  const cpu::KernelTable& k = context.kernels();
  const Index grain = std::max<Index>(1, elements_per_task / (half * (heads + 8)));
  parallel_for(context.executor(), tokens, grain, [&](Index begin, Index end, Index worker) {
    const ArenaScope own(context.worker_arena(worker));
    float* cosine = context.worker_arena(worker).take<float>(padded).data();
    float* sine = context.worker_arena(worker).take<float>(padded).data();
    for (Index t = begin; t < end; ++t) {
      k.rope_angles(positions[t], frequencies.data(), op.magnitude, cosine, sine, padded);
      for (Index h = 0; h < heads; ++h) {
        float* head = x[t][h].data();
        if (op.pairs == Rope::Pairs::halves) k.rope_halves(head, head + half, cosine, sine, half);
        else k.rope_neighbours(head, cosine, sine, half);
      }
    }
  });
}

}  // namespace nibble
