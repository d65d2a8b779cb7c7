// SPDX-License-Identifier: MIT
// Reading an element of device memory on the host.
// expect: no match for call|does not provide a call operator|no matching function for call
#include "nibble/core/view.hpp"

float wrong(nibble::MatrixView<const float, nibble::Device> x) { return x(0, 0); }
