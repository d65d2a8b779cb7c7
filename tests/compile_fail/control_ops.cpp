// SPDX-License-Identifier: MIT
// The control of the op cases: the same calls, right. A user's own op with its reference, too.
// expect: ok
#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

struct Halve {
  template <class B>
  using Signature = void(MatrixView<float, typename B::Space>);
  static void reference(const Halve&, MatrixView<float> x) { x(0, 0) /= 2; }
};

void right(ExecutionContext<cpu::Backend>& context) {
  Matrix<float> x({2, 8}), y({2, 8});
  Vector<float> weight({8});
  run(context, RmsNorm{.eps = 1e-6f}, x, weight, y);
  run(context, allow_reference, Halve{}, x);
}
