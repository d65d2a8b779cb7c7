// SPDX-License-Identifier: MIT
// Eigen matrices as views, without a copy: any dense expression with memory behind it (Matrix, Map, Block,
// Ref), row- or column-major, with any strides. Eigen itself is not included, since it would be most of the
// time that quantize.hpp takes to compile: whoever has an Eigen matrix has included it.
#pragma once

#include "nibble/core/view.hpp"

namespace Eigen {
template <typename Derived>
class DenseBase;
}

namespace nibble {

namespace detail {
template <class Derived, class T>
MatrixView<T> strided_view(const Derived& m, T* data) {
  const Index outer = m.outerStride(), inner = m.innerStride();
  const Extents<2> strides = Derived::IsRowMajor ? Extents<2>{outer, inner} : Extents<2>{inner, outer};
  return {data, Extents<2>{m.rows(), m.cols()}, strides};
}

template <class Derived>
constexpr void require_memory() noexcept {
  static_assert(
      requires(const Derived& m) { m.data(); m.outerStride(); },
      "only Eigen expressions that lie in memory can be viewed; evaluate the expression first");
}
}  // namespace detail

/// A view of the coefficients [rows, cols]; the Eigen object's memory must outlive it.
template <class Derived>
auto view_of(const Eigen::DenseBase<Derived>& m) {
  detail::require_memory<Derived>();
  return detail::strided_view(m.derived(), static_cast<const typename Derived::Scalar*>(m.derived().data()));
}
template <class Derived>
auto view_of(Eigen::DenseBase<Derived>& m) {
  detail::require_memory<Derived>();
  return detail::strided_view(m.derived(), m.derived().data());
}

}  // namespace nibble
