// SPDX-License-Identifier: MIT
// Host half of RmsNorm on CUDA: shapes and pointers in, launch out. Plain C++, so that it is tested
// without a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nibble/core/view.hpp"

namespace nibble::cuda {

struct RmsNormPlan {
  unsigned blocks = 0;   ///< 0: nothing to do
  unsigned threads = 0;  ///< a multiple of the warp size
  bool vectorized = false;  ///< rows are read as float4; a tail of up to 3 columns is read one by one
};

/// Groups of four floats that a thread keeps in registers between the two passes over its row.
inline constexpr int rms_norm_kept = 4;

/// One block per row; a block is just large enough to keep the row in registers, up to 512 threads.
inline RmsNormPlan plan_rms_norm(Index rows, Index cols, bool aligned) {
  constexpr Index warp = 32, most_threads = 512, most_blocks = 0x7fffffff;
  RmsNormPlan plan;
  if (rows == 0 || cols == 0) return plan;
  plan.vectorized = aligned && cols >= 4;
  const Index items = plan.vectorized ? cols / 4 : cols;
  const Index wanted = (items + rms_norm_kept - 1) / rms_norm_kept;
  plan.threads = static_cast<unsigned>(std::clamp((wanted + warp - 1) / warp * warp, warp, most_threads));
  plan.blocks = static_cast<unsigned>(std::min(rows, most_blocks));
  return plan;
}

/// Whether every row of a matrix starts at a multiple of 16 bytes.
inline bool rows_aligned(const void* data, Index row_stride, Index rows) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && (rows <= 1 || row_stride % 4 == 0);
}

}  // namespace nibble::cuda
