// SPDX-License-Identifier: MIT
// Arithmetic on numbers from outside. Nearly every memory bug published about model loaders is an
// unchecked product or sum of file-supplied integers, so all of ours goes through these functions:
// they either return the exact result or throw Error{malformed}.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include "nibble/core/error.hpp"

namespace nibble::checked {

namespace detail {
[[noreturn]] inline void overflow(const char* what) {
  throw Error(Errc::malformed, std::string(what) + " overflows");
}
}  // namespace detail

/// a + b; `what` names the quantity in the error ("tensor size").
template <std::integral T>
constexpr T add(T a, T b, const char* what = "a size") {
  T r;
  if (__builtin_add_overflow(a, b, &r)) detail::overflow(what);
  return r;
}

template <std::integral T>
constexpr T sub(T a, T b, const char* what = "a size") {
  T r;
  if (__builtin_sub_overflow(a, b, &r)) detail::overflow(what);
  return r;
}

template <std::integral T>
constexpr T mul(T a, T b, const char* what = "a size") {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) detail::overflow(what);
  return r;
}

/// The smallest multiple of `multiple` (> 0) that is >= a (>= 0).
template <std::integral T>
constexpr T round_up(T a, T multiple, const char* what = "a size") {
  const T rest = static_cast<T>(a % multiple);
  return rest == 0 ? a : add(a, static_cast<T>(multiple - rest), what);
}

/// Converts between integer types; throws when the value does not fit.
template <std::integral To, std::integral From>
constexpr To cast(From v, const char* what = "a number") {
  const To r = static_cast<To>(v);
  if (static_cast<From>(r) != v || ((r < To{}) != (v < From{}))) detail::overflow(what);
  return r;
}

/// Whether [offset, offset + length) lies inside [0, size): by subtraction only, so it cannot wrap.
constexpr bool fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

/// ceil(a / b) for a >= 0, b > 0, without overflow.
template <std::integral T>
constexpr T ceil_div(T a, T b) noexcept {
  return static_cast<T>(a / b + (a % b != 0 ? 1 : 0));
}

}  // namespace nibble::checked
