// SPDX-License-Identifier: MIT
// TensorView: pointer + extents + strides, trivially copyable, and typed by the memory space it points
// into. Passing device memory to a host function, or a matrix where a vector is due, does not compile.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "nibble/core/contract.hpp"

namespace nibble {

/// Signed, so that differences and loops downwards are safe; 64 bits on every platform.
using Index = std::int64_t;

/// Memory spaces. A space is a type, hence part of every tensor's type.
struct Host { static constexpr const char* name = "host"; };
struct Device { static constexpr const char* name = "device"; };

template <class S>
concept MemorySpace = std::same_as<S, Host> || std::same_as<S, Device>;

template <std::size_t Rank>
using Extents = std::array<Index, Rank>;

/// Row-major (last extent contiguous) strides in elements.
template <std::size_t Rank>
constexpr Extents<Rank> row_major_strides(const Extents<Rank>& extents) noexcept {
  Extents<Rank> s{};
  Index step = 1;
  for (std::size_t i = Rank; i-- > 0;) { s[i] = step; step *= extents[i]; }
  return s;
}

/// A non-owning, strided window on `Rank`-dimensional data in `Space`. Strides are in elements.
template <class T, std::size_t Rank, MemorySpace Space = Host>
struct TensorView {
  static_assert(Rank >= 1 && Rank <= 4, "nibble tensors have rank 1 to 4");
  using value_type = std::remove_const_t<T>;
  using space = Space;
  static constexpr std::size_t rank = Rank;

  T* data_ = nullptr;
  Extents<Rank> extents_{};
  Extents<Rank> strides_{};

  constexpr TensorView() = default;
  constexpr TensorView(T* data, const Extents<Rank>& extents)
      : data_(data), extents_(extents), strides_(row_major_strides(extents)) {}
  constexpr TensorView(T* data, const Extents<Rank>& extents, const Extents<Rank>& strides)
      : data_(data), extents_(extents), strides_(strides) {}

  /// View<T> -> View<const T>.
  template <class U>
    requires(std::is_const_v<T> && std::same_as<U, std::remove_const_t<T>>)
  constexpr TensorView(const TensorView<U, Rank, Space>& o)
      : data_(o.data_), extents_(o.extents_), strides_(o.strides_) {}

  /// A contiguous host range is a vector.
  template <class R>
    requires(Rank == 1 && std::same_as<Space, Host> && std::convertible_to<R&, std::span<T>>)
  constexpr TensorView(R&& range) {  // NOLINT: implicit on purpose, spans and vectors are views
    const std::span<T> s(range);
    data_ = s.data();
    extents_ = {static_cast<Index>(s.size())};
    strides_ = {1};
  }

  constexpr T* data() const noexcept { return data_; }
  constexpr Index extent(std::size_t i) const noexcept { return extents_[i]; }
  constexpr Index stride(std::size_t i) const noexcept { return strides_[i]; }
  constexpr const Extents<Rank>& extents() const noexcept { return extents_; }
  constexpr Index size() const noexcept {
    Index n = 1;
    for (Index e : extents_) n *= e;
    return n;
  }
  constexpr bool empty() const noexcept { return size() == 0; }
  /// Whether elements are adjacent in row-major order.
  constexpr bool contiguous() const noexcept {
    const auto dense = row_major_strides(extents_);
    for (std::size_t i = 0; i < Rank; ++i)
      if (extents_[i] > 1 && strides_[i] != dense[i]) return false;
    return true;
  }

  /// Matrix vocabulary: rows are the slow dimension, cols the fast one.
  constexpr Index rows() const noexcept requires(Rank == 2) { return extents_[0]; }
  constexpr Index cols() const noexcept requires(Rank == 2) { return extents_[1]; }

  template <std::convertible_to<Index>... I>
    requires(sizeof...(I) == Rank && std::same_as<Space, Host>)
  constexpr T& operator()(I... index) const noexcept {
    const Extents<Rank> at{static_cast<Index>(index)...};
    Index offset = 0;
    for (std::size_t i = 0; i < Rank; ++i) offset += at[i] * strides_[i];
    return data_[offset];
  }
  constexpr T& operator[](Index i) const noexcept requires(Rank == 1 && std::same_as<Space, Host>) {
    return data_[i * strides_[0]];
  }

  /// The i-th slice along the first dimension.
  constexpr TensorView<T, Rank - 1, Space> operator[](Index i) const noexcept requires(Rank > 1) {
    TensorView<T, Rank - 1, Space> v;
    v.data_ = data_ + i * strides_[0];
    for (std::size_t d = 1; d < Rank; ++d) {
      v.extents_[d - 1] = extents_[d];
      v.strides_[d - 1] = strides_[d];
    }
    return v;
  }

  /// Elements [begin, begin + count) along dimension `dim`; bounds are checked.
  constexpr TensorView slice(std::size_t dim, Index begin, Index count) const {
    NIBBLE_EXPECTS(dim < Rank && begin >= 0 && count >= 0 && begin <= extents_[dim] - count,
                   "slice [" + std::to_string(begin) + ", +" + std::to_string(count) + ") of dimension " +
                       std::to_string(dim) + " is out of range");
    TensorView v = *this;
    v.data_ += begin * strides_[dim];
    v.extents_[dim] = count;
    return v;
  }

  /// Row `i` of a matrix with contiguous rows, as a span.
  constexpr std::span<T> row(Index i) const noexcept requires(Rank == 2 && std::same_as<Space, Host>) {
    return {data_ + i * strides_[0], static_cast<std::size_t>(extents_[1])};
  }
  /// The whole of a contiguous view as a span.
  constexpr std::span<T> span() const noexcept requires(std::same_as<Space, Host>) {
    return {data_, static_cast<std::size_t>(size())};
  }
};

template <class T, MemorySpace Space = Host>
using VectorView = TensorView<T, 1, Space>;
template <class T, MemorySpace Space = Host>
using MatrixView = TensorView<T, 2, Space>;

/// "[3, 4]" for messages.
template <std::size_t Rank>
std::string to_string(const Extents<Rank>& e) {
  std::string s = "[";
  for (std::size_t i = 0; i < Rank; ++i) s += (i ? ", " : "") + std::to_string(e[i]);
  return s + "]";
}

}  // namespace nibble
