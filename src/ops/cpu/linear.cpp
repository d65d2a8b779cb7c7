// SPDX-License-Identifier: MIT
// The linear ops on the CPU: what each checks, and which products, epilogues and input its region has.
#include "nibble/ops/linear.hpp"

#include <array>

#include "nibble/backend/packed_matrix.hpp"
#include "ops/cpu/linear_region.hpp"

namespace nibble {

using namespace cpu_ops;

namespace {

using Packed = PackedMatrix<cpu::Backend>;

/// A weight, its bias and its output fit together and to x.
void check_product(const char* op, MatrixView<const float> x, const Packed& w, VectorView<const float> bias,
                   const Extents<2>& y) {
  NIBBLE_EXPECTS(!w.empty() && x.cols() == w.cols() && y[1] == w.rows() && x.rows() == y[0],
                 std::string(op) + ": x " + to_string(x.extents()) + " and weights " +
                     to_string(Extents<2>{w.rows(), w.cols()}) + " do not give y " + to_string(y));
  require_rows(op, "x", x);
  if (bias.empty()) return;
  require_length(op, "bias", bias.size(), w.rows());
  require_rows(op, "bias", bias);
}

const float* data_or_null(VectorView<const float> bias) { return bias.empty() ? nullptr : bias.data(); }

void run_one(Context& context, MatrixView<const float> x, const FoldedNorm& norm, bool refined,
             const RegionOutput& output) {
  check_norm("Linear", norm, x.cols());
  require_rows("Linear", "y", output.y);
  if (output.y.empty()) return;
  const ArenaScope scope(context.arena());
  LinearInput input(context, x, norm, needs_of(context, {&output, 1}, x.rows(), refined));
  run_region(context, input, {&output, 1});
}

/// The whole-row epilogue, on an input that is there already.
void run_normed(Context& context, LinearInput& input, const epilogue::Normed& e, const Packed& w,
                MatrixView<float> y) {
  const bool add = e.then == epilogue::Normed::Then::add, plain = add && !e.norm.present();
  const ArenaScope scope(context.arena());
  // Where the result is added to y, y is still needed: the products go elsewhere first.
  const MatrixView<float> sums = add && !plain ? context.arena().take<float>(y.extents()) : y;
  const RegionOutput output{.w = w.impl(), .y = sums, .bias = data_or_null(e.bias), .add = plain};
  run_region(context, input, {&output, 1}, plain ? RowEpilogue{} : RowEpilogue{&e, sums, y});
}

RegionOutput gated_output(const Context& context, const GatedLinear& op, const Packed& gate, const Packed& up) {
  const cpu::KernelTable& k = context.kernels();
  return {.w = gate.impl(), .bias = data_or_null(op.gate_bias), .up = up.impl(),
          .up_bias = data_or_null(op.up_bias), .gate = op.activation == Activation::silu ? k.swiglu : k.geglu};
}

void check_gated(const char* name, const GatedLinear& op, MatrixView<const float> x, const Packed& gate,
                 const Packed& up) {
  const Extents<2> y{x.rows(), gate.rows()};
  check_product(name, x, gate, op.gate_bias, y);
  check_product(name, x, up, op.up_bias, y);
  check_norm(name, op.norm, x.cols());
}

}  // namespace

template <>
NIBBLE_API void Kernel<Linear<epilogue::None>, cpu::Backend>::run(Context& context, const Linear<epilogue::None>& op,
                                                                  MatrixView<const float> x, const Packed& w,
                                                                  MatrixView<float> y) {
  check_product("Linear", x, w, {}, y.extents());
  run_one(context, x, op.norm, op.refined, {.w = w.impl(), .y = y});
}

template <>
NIBBLE_API void Kernel<Linear<epilogue::Bias>, cpu::Backend>::run(Context& context, const Linear<epilogue::Bias>& op,
                                                                  MatrixView<const float> x, const Packed& w,
                                                                  MatrixView<float> y) {
  require_length("Linear", "bias", op.epilogue.bias.size(), w.rows());
  check_product("Linear", x, w, op.epilogue.bias, y.extents());
  run_one(context, x, op.norm, op.refined,
          {.w = w.impl(), .y = y, .bias = data_or_null(op.epilogue.bias)});
}

template <>
NIBBLE_API void Kernel<Linear<epilogue::Add>, cpu::Backend>::run(Context& context, const Linear<epilogue::Add>& op,
                                                                 MatrixView<const float> x, const Packed& w,
                                                                 MatrixView<float> y) {
  check_product("Linear", x, w, op.epilogue.bias, y.extents());
  run_one(context, x, op.norm, op.refined,
          {.w = w.impl(), .y = y, .bias = data_or_null(op.epilogue.bias), .add = true});
}

template <>
NIBBLE_API void Kernel<Linear<epilogue::Normed>, cpu::Backend>::run(Context& context,
                                                                    const Linear<epilogue::Normed>& op,
                                                                    MatrixView<const float> x, const Packed& w,
                                                                    MatrixView<float> y) {
  check_product("Linear", x, w, op.epilogue.bias, y.extents());
  check_norm("Linear", op.norm, x.cols());
  check_norm("Linear", op.epilogue.norm, y.cols());
  require_rows("Linear", "y", y);
  if (y.empty()) return;
  const ArenaScope scope(context.arena());
  const RegionOutput product{.w = w.impl()};
  LinearInput input(context, x, op.norm, needs_of(context, {&product, 1}, x.rows(), op.refined));
  run_normed(context, input, op.epilogue, w, y);
}

template <>
NIBBLE_API void Kernel<LinearGroup, cpu::Backend>::run(Context& context, const LinearGroup& op,
                                                       MatrixView<const float> x,
                                                       std::span<const LinearOutput<cpu::Backend>> outputs) {
  check_norm("LinearGroup", op.norm, x.cols());
  const ArenaScope scope(context.arena());
  std::array<RegionOutput, 8> list;
  std::size_t count = 0;
  NIBBLE_EXPECTS(outputs.size() <= list.size(),
                 "LinearGroup: at most 8 outputs, not " + std::to_string(outputs.size()));
  for (const auto& o : outputs) {
    NIBBLE_EXPECTS(o.weight != nullptr, "LinearGroup: an output has no weight");
    check_product("LinearGroup", x, *o.weight, o.bias, o.y.extents());
    require_rows("LinearGroup", "y", o.y);
    if (!o.y.empty()) list[count++] = {.w = o.weight->impl(), .y = o.y, .bias = data_or_null(o.bias)};
  }
  if (count == 0) return;
  const std::span<const RegionOutput> region(list.data(), count);
  LinearInput input(context, x, op.norm, needs_of(context, region, x.rows(), op.refined));
  run_region(context, input, region);
}

template <>
NIBBLE_API void Kernel<GatedLinear, cpu::Backend>::run(Context& context, const GatedLinear& op,
                                                       MatrixView<const float> x, const Packed& gate,
                                                       const Packed& up, MatrixView<float> y) {
  check_gated("GatedLinear", op, x, gate, up);
  require_same("GatedLinear", "y", y.extents(), Extents<2>{x.rows(), gate.rows()});
  require_rows("GatedLinear", "y", y);
  if (y.empty()) return;
  const ArenaScope scope(context.arena());
  RegionOutput output = gated_output(context, op, gate, up);
  output.y = y;
  LinearInput input(context, x, op.norm, needs_of(context, {&output, 1}, x.rows(), op.refined));
  run_region(context, input, {&output, 1});
}

template <>
NIBBLE_API void Kernel<FeedForward, cpu::Backend>::run(Context& context, const FeedForward& op,
                                                       MatrixView<const float> x, const Packed& gate,
                                                       const Packed& up, const Packed& down, MatrixView<float> y) {
  check_gated("FeedForward", op.inner, x, gate, up);
  const Extents<2> between{x.rows(), gate.rows()};
  check_product("FeedForward", MatrixView<const float>(nullptr, between), down, op.bias, y.extents());
  check_norm("FeedForward", op.post, y.cols());
  require_rows("FeedForward", "y", y);
  if (y.empty()) return;
  const ArenaScope scope(context.arena());
  const epilogue::Normed residual{epilogue::Normed::Then::add, op.post, op.bias};
  RegionOutput inner = gated_output(context, op.inner, gate, up);
  LinearInput input(context, x, op.inner.norm, needs_of(context, {&inner, 1}, x.rows(), op.inner.refined));
  const ProductPath path = path_of(context, *down.impl(), x.rows(), op.refined);
  if (path == ProductPath::rounded) {
    const cpu::RoundedRows r = take_rounded(context.arena(), x.rows(), down.cols());
    inner.rounded = &r;
    run_region(context, input, {&inner, 1});
    LinearInput rows(context, r, x.rows());
    return run_normed(context, rows, residual, down, y);
  }
  if (path == ProductPath::codes && !op.refined) {
    const Index sets = down.impl()->layout.sets;
    const cpu::QuantizedRows q = take_quantized(context.arena(), x.rows(), down.cols(), sets);
    inner.quantized = &q;
    run_region(context, input, {&inner, 1});
    LinearInput rows(context, q, x.rows(), sets);
    return run_normed(context, rows, residual, down, y);
  }
  inner.y = context.arena().take<float>(between);
  run_region(context, input, {&inner, 1});
  const RegionOutput product{.w = down.impl()};
  LinearInput rows(context, inner.y, {}, needs_of(context, {&product, 1}, x.rows(), op.refined));
  run_normed(context, rows, residual, down, y);
}

}  // namespace nibble
