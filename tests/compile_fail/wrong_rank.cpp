// SPDX-License-Identifier: MIT
// A matrix where the op wants a vector.
// expect: these arguments do not match the op's Signature
// expect: Check the rank of each view
#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cpu::Backend>& context) {
  Matrix<float> x({2, 8}), weight({1, 8}), y({2, 8});
  run(context, RmsNorm{}, x, weight, y);
}
