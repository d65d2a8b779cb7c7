// SPDX-License-Identifier: MIT
// CUDA's return codes as nibble::Error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "nibble/core/error.hpp"

namespace nibble::cuda {

/// Throws when `status` is an error; `what` says what was tried.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const Errc code = status == cudaErrorMemoryAllocation                                    ? Errc::out_of_memory
                    : status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ? Errc::unsupported
                                                                                           : Errc::internal;
  throw Error(code, std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace nibble::cuda
