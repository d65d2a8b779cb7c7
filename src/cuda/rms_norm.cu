// SPDX-License-Identifier: MIT
// RmsNorm on CUDA: y = x / sqrt(mean(x^2) + eps) * w. One block per row, two passes: the sum of squares by
// warp shuffles, then the scaling from registers. The order of the sum depends on the number of columns
// alone, so a row's result does not depend on its batch.
#include <cuda_runtime.h>

#include "cuda/check.hpp"
#include "cuda/rms_norm_plan.hpp"
#include "nibble/backend/cuda.hpp"
#include "nibble/ops/norm.hpp"

namespace nibble {
namespace {

constexpr int warp_size = 32;
constexpr int most_warps = 16;

struct Rows {
  const float* x;
  const float* weight;
  float* y;  // may be x: each thread writes only what it alone has read
  Index x_stride, y_stride, rows, cols;
  float eps;
};

/// The sum over the block's threads, in every thread. Ends past a barrier after the last read of `shared`.
__device__ float block_sum(float value, float* shared) {
  for (int step = warp_size / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (warps == 1) return value;
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = lane < warps ? shared[lane] : 0.0f;
  for (int step = most_warps / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  value = __shfl_sync(0xffffffffu, value, 0);
  __syncthreads();  // the next row may overwrite `shared`
  return value;
}

__device__ float square_sum(float v) { return v * v; }
__device__ float square_sum(float4 v) { return (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w); }
__device__ float scaled(float v, float s, float w) { return v * s * w; }
__device__ float4 scaled(float4 v, float s, float4 w) {
  return make_float4(v.x * s * w.x, v.y * s * w.y, v.z * s * w.z, v.w * s * w.w);
}

/// Item is float4 where rows are aligned, else float; columns past the last whole item are a float tail.
template <class Item>
__global__ void __launch_bounds__(most_warps* warp_size) rms_norm_rows(const Rows p) {
  constexpr Index width = sizeof(Item) / sizeof(float);
  __shared__ float shared[most_warps];
  const Index items = p.cols / width, step = blockDim.x, first = threadIdx.x;
  const Index tail = items * width + first;  // this thread's column of the tail, if there is one
  const Item* weight = reinterpret_cast<const Item*>(p.weight);

  for (Index row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const float* x_row = p.x + row * p.x_stride;
    float* y_row = p.y + row * p.y_stride;
    const Item* x = reinterpret_cast<const Item*>(x_row);
    Item* y = reinterpret_cast<Item*>(y_row);

    Item kept[cuda::rms_norm_kept];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < cuda::rms_norm_kept; ++k) {
      if (const Index i = first + k * step; i < items) {
        kept[k] = x[i];
        sum += square_sum(kept[k]);
      }
    }
    for (Index i = first + cuda::rms_norm_kept * step; i < items; i += step) sum += square_sum(x[i]);
    if (tail < p.cols) sum += square_sum(x_row[tail]);

    const float mean = block_sum(sum, shared) / static_cast<float>(p.cols);
    const float scale = 1.0f / sqrtf(mean + p.eps);

#pragma unroll
    for (int k = 0; k < cuda::rms_norm_kept; ++k) {
      if (const Index i = first + k * step; i < items) y[i] = scaled(kept[k], scale, weight[i]);
    }
    for (Index i = first + cuda::rms_norm_kept * step; i < items; i += step) y[i] = scaled(x[i], scale, weight[i]);
    if (tail < p.cols) y_row[tail] = scaled(x_row[tail], scale, p.weight[tail]);
  }
}

}  // namespace

template <>
NIBBLE_API void Kernel<RmsNorm, cuda::Backend>::run(ExecutionContext<cuda::Backend>& context, const RmsNorm& op,
                                         MatrixView<const float, Device> x, VectorView<const float, Device> weight,
                                         MatrixView<float, Device> y) {
  NIBBLE_EXPECTS(x.extents() == y.extents() && weight.extent(0) == x.cols(),
                 "RmsNorm: x " + to_string(x.extents()) + ", weight " + to_string(weight.extents()) + ", y " +
                     to_string(y.extents()) + " do not fit together");
  NIBBLE_EXPECTS(x.cols() <= 1 || (x.stride(1) == 1 && y.stride(1) == 1 && weight.stride(0) == 1),
                 "RmsNorm: the columns of a device matrix must be adjacent");
  const bool aligned = cuda::rows_aligned(x.data(), x.stride(0), x.rows()) &&
                       cuda::rows_aligned(y.data(), y.stride(0), y.rows()) &&
                       cuda::rows_aligned(weight.data(), 0, 1);
  const cuda::RmsNormPlan plan = cuda::plan_rms_norm(x.rows(), x.cols(), aligned);
  if (plan.blocks == 0) return;
  const Rows rows{x.data(), weight.data(), y.data(), x.stride(0), y.stride(0), x.rows(), x.cols(), op.eps};
  const auto stream = static_cast<cudaStream_t>(context.stream());
  if (plan.vectorized) {
    rms_norm_rows<float4><<<plan.blocks, plan.threads, 0, stream>>>(rows);
  } else {
    rms_norm_rows<float><<<plan.blocks, plan.threads, 0, stream>>>(rows);
  }
  cuda::check(cudaGetLastError(), "launching RmsNorm");
}

}  // namespace nibble
