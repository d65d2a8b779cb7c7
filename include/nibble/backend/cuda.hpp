// SPDX-License-Identifier: MIT
// The CUDA backend's context and device tensors. The header needs no CUDA headers and compiles in any
// build; its functions are there to link when nibble was configured with NIBBLE_BACKEND=cuda.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "nibble/backend/backend.hpp"
#include "nibble/core/checked.hpp"
#include "nibble/core/export.hpp"
#include "nibble/core/tensor.hpp"

namespace nibble {

namespace cuda {

/// GPUs the driver offers; 0 where there is no driver.
NIBBLE_API int device_count() noexcept;

/// Zeroed memory of the current device; nullptr for 0 bytes. Throws Error{out_of_memory}.
NIBBLE_API void* allocate(std::size_t bytes);
NIBBLE_API void deallocate(void* memory) noexcept;

}  // namespace cuda

/// One stream of work on one GPU. Kernels are queued in order; nothing waits except `synchronize` and
/// `download`. Not thread-safe: one context per thread that issues work.
template <>
class NIBBLE_API ExecutionContext<cuda::Backend> {
 public:
  using backend = cuda::Backend;

  /// With a stream of its own on GPU `device`. Throws Error{unsupported} when there is no such device.
  explicit ExecutionContext(int device = 0);
  /// On the host's stream (a cudaStream_t of GPU `device`), which must outlive the context.
  ExecutionContext(int device, void* stream);
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  int device() const noexcept { return device_; }
  /// The cudaStream_t.
  void* stream() const noexcept { return stream_; }
  int multiprocessors() const noexcept { return multiprocessors_; }

  /// Waits for everything queued; throws Error{internal} when a kernel failed.
  void synchronize();
  /// Queues a copy of `bytes`; host memory must stay untouched until `synchronize`.
  void copy_to_device(void* device_memory, const void* host_memory, std::size_t bytes);
  /// Copies back and waits.
  void copy_to_host(void* host_memory, const void* device_memory, std::size_t bytes);

 private:
  void init();

  int device_ = 0;
  void* stream_ = nullptr;
  bool owns_stream_ = false;
  int multiprocessors_ = 0;
};

/// Owns zeroed device memory, row-major. Movable; views of it are typed by the Device space.
template <class T, std::size_t Rank>
class Tensor<T, Rank, Device> {
  static_assert(std::is_trivially_copyable_v<T>, "tensor elements are trivially copyable numbers");

 public:
  using value_type = T;
  using space = Device;
  static constexpr std::size_t rank = Rank;

  Tensor() = default;
  /// Throws Error{invalid_argument} on a negative extent, Error{out_of_memory} when it does not fit.
  explicit Tensor(const Extents<Rank>& extents) : extents_(extents) {
    Index n = 1;
    for (const Index e : extents) {
      NIBBLE_EXPECTS(e >= 0, "negative extent in device tensor " + to_string(extents));
      n = checked::mul(n, e, "device tensor size");
    }
    bytes_ = checked::mul(static_cast<std::size_t>(n), sizeof(T), "device tensor size");
    data_ = static_cast<T*>(cuda::allocate(bytes_));
  }
  Tensor(Tensor&& o) noexcept { swap(o); }
  Tensor& operator=(Tensor&& o) noexcept {
    Tensor(std::move(o)).swap(*this);
    return *this;
  }
  ~Tensor() { cuda::deallocate(data_); }

  TensorView<T, Rank, Device> view() noexcept { return {data_, extents_}; }
  TensorView<const T, Rank, Device> view() const noexcept { return {data_, extents_}; }
  operator TensorView<T, Rank, Device>() noexcept { return view(); }
  operator TensorView<const T, Rank, Device>() const noexcept { return view(); }

  const Extents<Rank>& extents() const noexcept { return extents_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void swap(Tensor& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(extents_, o.extents_);
  }

  T* data_ = nullptr;
  std::size_t bytes_ = 0;
  Extents<Rank> extents_{};
};

/// Copies a contiguous host view to a new device tensor; returns when the copy is done.
template <class T, std::size_t Rank>
Tensor<std::remove_const_t<T>, Rank, Device> upload(ExecutionContext<cuda::Backend>& context,
                                                    const TensorView<T, Rank, Host>& host) {
  NIBBLE_EXPECTS(host.contiguous(), "upload needs a contiguous view, got strides " + to_string(host.strides_));
  Tensor<std::remove_const_t<T>, Rank, Device> device(host.extents());
  context.copy_to_device(device.view().data(), host.data(), device.bytes());
  context.synchronize();
  return device;
}

/// Waits for the queued work, then copies a device tensor to a new host tensor.
template <class T, std::size_t Rank>
Tensor<T, Rank> download(ExecutionContext<cuda::Backend>& context, const Tensor<T, Rank, Device>& device) {
  Tensor<T, Rank> host(device.extents());
  context.copy_to_host(host.data(), device.view().data(), device.bytes());
  return host;
}

}  // namespace nibble
