// SPDX-License-Identifier: MIT
// Result<T>: a value or an Error, for callers who do not want exceptions at a loading boundary.
// A small subset of std::expected<T, Error> (C++23), with the same names, so that it can become one.
#pragma once

#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include "nibble/core/error.hpp"

namespace nibble {

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value; throws the held Error when there is none.
  T& value() & { require(); return std::get<0>(state_); }
  const T& value() const& { require(); return std::get<0>(state_); }
  T&& value() && { require(); return std::get<0>(std::move(state_)); }

  /// Unchecked access: has_value() must be true.
  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }

  /// The error; has_value() must be false.
  const Error& error() const noexcept { return *std::get_if<1>(&state_); }

  template <class U>
  T value_or(U&& other) const& { return has_value() ? **this : static_cast<T>(std::forward<U>(other)); }

 private:
  void require() const { if (const auto* e = std::get_if<1>(&state_)) throw *e; }
  std::variant<T, Error> state_;
};

/// Runs `f` and turns a thrown Error (or failed allocation) into a Result: how every `try_` twin is made.
template <class F>
auto try_invoke(F&& f) -> Result<std::invoke_result_t<F>> {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(Errc::out_of_memory, "out of memory");
  } catch (const std::length_error&) {
    return Error(Errc::out_of_memory, "a size exceeds what a container can hold");
  }
}

}  // namespace nibble
