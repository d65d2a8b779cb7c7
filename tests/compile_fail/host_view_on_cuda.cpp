// SPDX-License-Identifier: MIT
// Host memory handed to a CUDA context.
// expect: these arguments do not match the op's Signature
// expect: device views to a CUDA context
#include "nibble/backend/cuda.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cuda::Backend>& context) {
  Matrix<float> x({2, 8}), y({2, 8});
  Vector<float> weight({8});
  run(context, RmsNorm{}, x, weight, y);
}
