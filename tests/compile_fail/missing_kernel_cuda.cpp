// SPDX-License-Identifier: MIT
// A shipped op that CUDA has no kernel for; not even its reference can read device memory.
// expect: this backend has no kernel for this op
#include "nibble/backend/cuda.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cuda::Backend>& context, MatrixView<float, Device> x, VectorView<float, Device> w) {
  run(context, LayerNorm{}, x, w, w, x);
}
