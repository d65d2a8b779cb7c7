// SPDX-License-Identifier: MIT
// FP32 products by oneDNN, for dense weights and many rows (docs/decisions/0013). Every call is one thread's: the
// pool splits the work. Calls of one shape give the same bits; other numbers of rows may not.
#pragma once

#include "nibble/core/arena.hpp"
#include "nibble/core/view.hpp"

namespace nibble::onednn {

/// c[m, n] = a[m, k] b[k, n]; strides are elements from row to row. Throws Error{internal} where oneDNN fails.
void product(const float* a, Index a_stride, const float* b, Index b_stride, float* c, Index c_stride, Index m, Index n,
             Index k, Arena& scratch);

}  // namespace nibble::onednn
