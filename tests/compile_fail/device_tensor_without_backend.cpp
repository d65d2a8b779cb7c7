// SPDX-License-Identifier: MIT
// A device tensor without the header of a backend that has such memory.
// expect: include the device backend's header for device tensors
#include "nibble/core/tensor.hpp"

void wrong() { nibble::Tensor<float, 2, nibble::Device> x({2, 8}); }
