// SPDX-License-Identifier: MIT
// Device memory handed to a CPU context.
// expect: these arguments do not match the op's Signature
// expect: host views go to a CPU context
// refuse: undefined reference
#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cpu::Backend>& context, MatrixView<const float, Device> x) {
  Matrix<float> y({2, 8});
  Vector<float> weight({8});
  run(context, RmsNorm{}, x, weight, y);
}
