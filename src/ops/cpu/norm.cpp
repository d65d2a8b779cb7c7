// SPDX-License-Identifier: MIT
// RmsNorm, LayerNorm and Softmax on the CPU: one kernel call per row.
#include "nibble/ops/norm.hpp"

#include "nibble/core/trace.hpp"
#include "nibble/ops/softmax.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

template <>
NIBBLE_API void Kernel<RmsNorm, cpu::Backend>::run(Context& context, const RmsNorm& op, MatrixView<const float> x,
                                        VectorView<const float> weight, MatrixView<float> y) {
  const TraceSpan span(context.trace(), "rms_norm", element_work(x.size(), 2, 4));
  require_same("RmsNorm", "x", x.extents(), y.extents());
  require_length("RmsNorm", "weight", weight.size(), x.cols());
  require_rows("RmsNorm", "x", x);
  require_rows("RmsNorm", "weight", weight);
  require_rows("RmsNorm", "y", y);
  if (x.empty()) return;
  for_rows(context, x.rows(), x.cols(), [&](Index r) {
    context.kernels().rms_norm(x.row(r).data(), weight.data(), y.row(r).data(), x.cols(), op.eps);
  });
}

template <>
NIBBLE_API void Kernel<LayerNorm, cpu::Backend>::run(Context& context, const LayerNorm& op, MatrixView<const float> x,
                                          VectorView<const float> weight, VectorView<const float> bias,
                                          MatrixView<float> y) {
  const TraceSpan span(context.trace(), "layer_norm", element_work(x.size(), 2, 7));
  require_same("LayerNorm", "x", x.extents(), y.extents());
  require_length("LayerNorm", "weight", weight.size(), x.cols());
  require_length("LayerNorm", "bias", bias.size(), x.cols());
  require_rows("LayerNorm", "x", x);
  require_rows("LayerNorm", "weight", weight);
  require_rows("LayerNorm", "bias", bias);
  require_rows("LayerNorm", "y", y);
  if (x.empty()) return;
  for_rows(context, x.rows(), x.cols(), [&](Index r) {
    context.kernels().layer_norm(x.row(r).data(), weight.data(), bias.data(), y.row(r).data(), x.cols(),
                                 op.eps);
  });
}

template <>
NIBBLE_API void Kernel<Softmax, cpu::Backend>::run(Context& context, const Softmax& op, MatrixView<const float> x,
                                        MatrixView<float> y) {
  const TraceSpan span(context.trace(), "softmax", element_work(x.size(), 2, 5));
  require_same("Softmax", "x", x.extents(), y.extents());
  require_rows("Softmax", "x", x);
  require_rows("Softmax", "y", y);
  if (x.empty()) return;
  for_rows(context, x.rows(), x.cols(),
           [&](Index r) { context.kernels().softmax(x.row(r).data(), y.row(r).data(), x.cols(), op.scale); });
}

}  // namespace nibble
