// SPDX-License-Identifier: MIT
// The scalar reference asked for where the memory is a GPU's.
// expect: the scalar reference reads host memory
#include "nibble/backend/cuda.hpp"
#include "nibble/ops/norm.hpp"

using namespace nibble;

void wrong(ExecutionContext<cuda::Backend>& context, MatrixView<float, Device> x, VectorView<float, Device> w) {
  run(context, allow_reference, LayerNorm{}, x, w, w, x);
}
