// SPDX-License-Identifier: MIT
// An argument too few.
// expect: these arguments do not match the op's Signature
#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cpu::Backend>& context) {
  Matrix<float> x({2, 8}), y({2, 8});
  run(context, RmsNorm{}, x, y);
}
