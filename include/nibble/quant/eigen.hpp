// SPDX-License-Identifier: MIT
// Eigen matrices as views, without a copy: any dense expression with memory behind it (Matrix, Map, Block,
// Ref), row- or column-major, with any strides.
#pragma once

#include <type_traits>

#include <Eigen/Core>

#include "nibble/core/view.hpp"

namespace nibble {

namespace detail {
template <class Derived>
constexpr void require_direct_access() noexcept {
  static_assert((Eigen::internal::traits<Derived>::Flags & Eigen::DirectAccessBit) != 0,
                "only Eigen expressions that lie in memory can be viewed; evaluate the expression first");
}
template <class Derived, class T>
MatrixView<T> strided_view(const Derived& m, T* data) {
  const bool row_major = (Eigen::internal::traits<Derived>::Flags & Eigen::RowMajorBit) != 0;
  const Extents<2> strides =
      row_major ? Extents<2>{m.outerStride(), m.innerStride()} : Extents<2>{m.innerStride(), m.outerStride()};
  return {data, Extents<2>{m.rows(), m.cols()}, strides};
}
}  // namespace detail

/// A view of the coefficients [rows, cols]; the Eigen object's memory must outlive it.
template <class Derived>
auto view_of(const Eigen::DenseBase<Derived>& m) {
  detail::require_direct_access<Derived>();
  return detail::strided_view(m.derived(), static_cast<const typename Derived::Scalar*>(m.derived().data()));
}
template <class Derived>
auto view_of(Eigen::DenseBase<Derived>& m) {
  detail::require_direct_access<Derived>();
  return detail::strided_view(m.derived(), m.derived().data());
}

}  // namespace nibble
