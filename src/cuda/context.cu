// SPDX-License-Identifier: MIT
// Streams, device memory and copies of the CUDA backend.
#include <cuda_runtime_api.h>

#include <string>

#include "cuda/check.hpp"
#include "nibble/backend/cuda.hpp"

namespace nibble {

namespace cuda {

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error that a machine without a driver leaves
    return 0;
  }
  return count;
}

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), ("allocating " + std::to_string(bytes) + " bytes of device memory").c_str());
  if (const cudaError_t status = cudaMemset(memory, 0, bytes); status != cudaSuccess) {
    deallocate(memory);
    check(status, "clearing device memory");
  }
  return memory;
}

void deallocate(void* memory) noexcept {
  if (memory != nullptr) static_cast<void>(cudaFree(memory));
}

}  // namespace cuda

ExecutionContext<cuda::Backend>::ExecutionContext(int device) : device_(device) {
  init();
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a CUDA stream");
  stream_ = stream;
  owns_stream_ = true;
}

ExecutionContext<cuda::Backend>::ExecutionContext(int device, void* stream) : device_(device), stream_(stream) {
  init();
}

void ExecutionContext<cuda::Backend>::init() {
  const int count = cuda::device_count();
  if (device_ < 0 || device_ >= count) {
    throw Error(Errc::unsupported,
                "CUDA device " + std::to_string(device_) + " does not exist; found " + std::to_string(count));
  }
  cuda::check(cudaSetDevice(device_), "selecting a CUDA device");
  cuda::check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_),
              "asking a CUDA device for its multiprocessors");
}

ExecutionContext<cuda::Backend>::~ExecutionContext() {
  if (owns_stream_) static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
}

void ExecutionContext<cuda::Backend>::synchronize() {
  cuda::check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "waiting for a CUDA stream");
}

void ExecutionContext<cuda::Backend>::copy_to_device(void* device_memory, const void* host_memory,
                                                     std::size_t bytes) {
  cuda::check(cudaMemcpyAsync(device_memory, host_memory, bytes, cudaMemcpyHostToDevice,
                              static_cast<cudaStream_t>(stream_)),
              "copying to the device");
}

void ExecutionContext<cuda::Backend>::copy_to_host(void* host_memory, const void* device_memory,
                                                   std::size_t bytes) {
  cuda::check(cudaMemcpyAsync(host_memory, device_memory, bytes, cudaMemcpyDeviceToHost,
                              static_cast<cudaStream_t>(stream_)),
              "copying to the host");
  synchronize();
}

}  // namespace nibble
