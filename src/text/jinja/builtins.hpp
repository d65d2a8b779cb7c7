// SPDX-License-Identifier: MIT
// What templates can call: filters, tests, methods and global functions, each an explicit table, and the
// binding of arguments to parameters that all of them share.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/ast.hpp"

namespace nibble::jinja {

/// nullptr when nibble does not implement it.
FilterFunction find_filter(std::string_view name) noexcept;
TestFunction find_test(std::string_view name) noexcept;
/// Whether jinja2 has one of that name (what {{ 'x' is filter }} asks), implemented here or not.
bool is_known_filter(std::string_view name) noexcept;
bool is_known_test(std::string_view name) noexcept;

/// object.name where name is an attribute of object's Python type: a bound method, or undefined for
/// methods the sandbox forbids. Nothing when the type has no such attribute. Error{unsupported} when it
/// has one that nibble does not implement.
std::optional<Object> find_method(Budget& budget, const Object& object, std::string_view name);
/// The attributes of the variable `loop`.
std::optional<Object> loop_attribute(Budget& budget, const Object& loop, std::string_view name);
/// range, namespace, dict, raise_exception, strftime_now; nothing for other names.
std::optional<Object> find_global(Budget& budget, std::string_view name);

struct NamedFilter { std::string_view name; FilterFunction function; };
std::span<const NamedFilter> text_filters() noexcept;
std::span<const NamedFilter> number_filters() noexcept;
std::span<const NamedFilter> sequence_filters() noexcept;

struct NamedMethod {
  std::string_view name;
  Object (*function)(Interpreter&, const Object& self, const Args&);
};
std::span<const NamedMethod> text_methods() noexcept;

/// Arguments bound to parameters by place and name, as a Python function would; null = not given.
template <std::size_t N>
using Bound = std::array<const Object*, N>;

namespace detail {
void bind(std::string_view function, const Args& args, std::span<const std::string_view> names,
          std::size_t required, std::span<const Object*> out);
}

/// Binds to `names`, of which the first `required` must be given. Errors name `function`.
template <std::size_t N>
Bound<N> bind(std::string_view function, const Args& args, const std::string_view (&names)[N],
              std::size_t required = 0) {
  Bound<N> out{};
  detail::bind(function, args, names, required, out);
  return out;
}
/// For functions without parameters.
void bind_nothing(std::string_view function, const Args& args);

/// The text of a required string argument; error naming `what` for another type.
const std::string& text_argument(const Object& object, std::string_view what);
std::int64_t int_argument(const Object& object, std::string_view what);

}  // namespace nibble::jinja
