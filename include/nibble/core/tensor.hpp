// SPDX-License-Identifier: MIT
// Tensor: an owning, row-major, cache-line aligned array of trivial elements from a caller's memory
// resource. Views do the work; a Tensor is only where the bytes live.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "nibble/core/checked.hpp"
#include "nibble/core/memory.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Owns `extents` elements in host memory, zero-initialized. Movable, not copyable (`clone()` says so).
/// Device tensors are specialized by the backend that has such memory.
template <class T, std::size_t Rank, MemorySpace Space = Host>
class Tensor {
  static_assert(std::is_trivially_copyable_v<T>, "tensor elements are trivially copyable numbers");
  static_assert(std::same_as<Space, Host>, "include the device backend's header for device tensors");

 public:
  using value_type = T;
  using space = Space;
  static constexpr std::size_t rank = Rank;

  Tensor() = default;
  /// Throws Error{invalid_argument} on a negative extent, Error{malformed} when the size overflows.
  explicit Tensor(const Extents<Rank>& extents, MemoryResource* memory = default_memory())
      : memory_(memory), extents_(extents) {
    Index n = 1;
    for (Index e : extents) {
      NIBBLE_EXPECTS(e >= 0, "negative extent in tensor " + to_string(extents));
      n = checked::mul(n, e, "tensor size");
    }
    bytes_ = checked::mul(static_cast<std::size_t>(n), sizeof(T), "tensor size");
    if (bytes_ > 0) {
      data_ = static_cast<T*>(memory_->allocate(bytes_, memory_alignment));
      std::memset(static_cast<void*>(data_), 0, bytes_);
    }
  }
  Tensor(Tensor&& o) noexcept { swap(o); }
  Tensor& operator=(Tensor&& o) noexcept { Tensor(std::move(o)).swap(*this); return *this; }
  ~Tensor() { if (data_ != nullptr) memory_->deallocate(data_, bytes_, memory_alignment); }

  Tensor clone() const {
    Tensor t(extents_, memory_ != nullptr ? memory_ : default_memory());
    if (bytes_ > 0) std::memcpy(static_cast<void*>(t.data_), data_, bytes_);
    return t;
  }

  TensorView<T, Rank> view() noexcept { return {data_, extents_}; }
  TensorView<const T, Rank> view() const noexcept { return {data_, extents_}; }
  operator TensorView<T, Rank>() noexcept { return view(); }
  operator TensorView<const T, Rank>() const noexcept { return view(); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::span<T> span() noexcept { return view().span(); }
  std::span<const T> span() const noexcept { return view().span(); }
  const Extents<Rank>& extents() const noexcept { return extents_; }
  Index extent(std::size_t i) const noexcept { return extents_[i]; }
  Index size() const noexcept { return view().size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  template <class... I>
  T& operator()(I... i) noexcept { return view()(i...); }
  template <class... I>
  const T& operator()(I... i) const noexcept { return view()(i...); }

 private:
  void swap(Tensor& o) noexcept {
    std::swap(memory_, o.memory_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(extents_, o.extents_);
  }

  MemoryResource* memory_ = nullptr;
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
  Extents<Rank> extents_{};
};

template <class T, MemorySpace Space = Host>
using Matrix = Tensor<T, 2, Space>;
template <class T, MemorySpace Space = Host>
using Vector = Tensor<T, 1, Space>;

}  // namespace nibble
