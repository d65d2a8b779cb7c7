// SPDX-License-Identifier: MIT
// SwiGlu, GeGlu, Gelu, Add and SoftCapLogits on the CPU: one kernel call per row.
#include "nibble/ops/activation.hpp"

#include "nibble/core/trace.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

namespace {

void gated(Context& context, const char* op, cpu::BinaryFn kernel, MatrixView<const float> gate,
           MatrixView<const float> up, MatrixView<float> y) {
  require_same(op, "gate", gate.extents(), y.extents());
  require_same(op, "up", up.extents(), y.extents());
  require_rows(op, "gate", gate);
  require_rows(op, "up", up);
  require_rows(op, "y", y);
  if (y.empty()) return;
  for_rows(context, y.rows(), y.cols(),
           [&](Index r) { kernel(gate.row(r).data(), up.row(r).data(), y.row(r).data(), y.cols()); });
}

}  // namespace

template <>
NIBBLE_API void Kernel<SwiGlu, cpu::Backend>::run(Context& context, const SwiGlu&, MatrixView<const float> gate,
                                       MatrixView<const float> up, MatrixView<float> y) {
  const TraceSpan span(context.trace(), "swiglu", element_work(y.size(), 3, 5));
  gated(context, "SwiGlu", context.kernels().swiglu, gate, up, y);
}

template <>
NIBBLE_API void Kernel<GeGlu, cpu::Backend>::run(Context& context, const GeGlu&, MatrixView<const float> gate,
                                      MatrixView<const float> up, MatrixView<float> y) {
  const TraceSpan span(context.trace(), "geglu", element_work(y.size(), 3, 10));
  gated(context, "GeGlu", context.kernels().geglu, gate, up, y);
}

template <>
NIBBLE_API void Kernel<Gelu, cpu::Backend>::run(Context& context, const Gelu& op, MatrixView<const float> x,
                                     MatrixView<float> y) {
  const TraceSpan span(context.trace(), "gelu", element_work(y.size(), 2, 9));
  require_same("Gelu", "x", x.extents(), y.extents());
  require_rows("Gelu", "x", x);
  require_rows("Gelu", "y", y);
  if (x.empty()) return;
  const cpu::UnaryFn kernel =
      op.form == Gelu::Form::erf ? context.kernels().gelu_erf : context.kernels().gelu_tanh;
  for_rows(context, x.rows(), x.cols(), [&](Index r) { kernel(x.row(r).data(), y.row(r).data(), x.cols()); });
}

template <>
NIBBLE_API void Kernel<Add, cpu::Backend>::run(Context& context, const Add&, MatrixView<const float> x,
                                    MatrixView<float> y) {
  const TraceSpan span(context.trace(), "add", element_work(y.size(), 3, 1));
  require_same("Add", "x", x.extents(), y.extents());
  require_rows("Add", "x", x);
  require_rows("Add", "y", y);
  if (x.empty()) return;
  for_rows(context, x.rows(), x.cols(), [&](Index r) {
    context.kernels().add(x.row(r).data(), y.row(r).data(), y.row(r).data(), x.cols());
  });
}

template <>
NIBBLE_API void Kernel<SoftCapLogits, cpu::Backend>::run(Context& context, const SoftCapLogits& op,
                                              MatrixView<float> y) {
  const TraceSpan span(context.trace(), "soft_cap", element_work(y.size(), 2, 3));
  NIBBLE_EXPECTS(op.cap > 0, "SoftCapLogits: the cap must be positive, not " + std::to_string(op.cap));
  require_rows("SoftCapLogits", "y", y);
  if (y.empty()) return;
  for_rows(context, y.rows(), y.cols(),
           [&](Index r) { context.kernels().soft_cap(y.row(r).data(), y.cols(), op.cap); });
}

}  // namespace nibble
