// SPDX-License-Identifier: MIT
// THE list of block formats. A new format is one struct and its name here; table, lookup, tests, files and
// kernels follow from it. (A format that only an application knows needs no entry: format_info<Own>() works.)
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "nibble/format/dense.hpp"
#include "nibble/format/format_info.hpp"
#include "nibble/format/gguf_blocks.hpp"
#include "nibble/format/gguf_k_blocks.hpp"
#include "nibble/format/iq_blocks.hpp"

namespace nibble {

template <BlockFormat... F>
struct FormatList {
  static constexpr std::size_t size = sizeof...(F);
};

using AllFormats =
    FormatList<F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS>;

namespace detail {
template <class List> struct FormatTable;
template <class... F> struct FormatTable<FormatList<F...>> {
  static constexpr std::array<const FormatInfo*, sizeof...(F)> infos{&format_info_of<F>...};
};
constexpr bool same_name(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}
}  // namespace detail

/// Every format of the list, in its order.
constexpr std::span<const FormatInfo* const> all_formats() noexcept {
  return detail::FormatTable<AllFormats>::infos;
}

/// The format called `name` (case does not matter: "q4_K" is q4_k), or nullptr.
constexpr const FormatInfo* find_format(std::string_view name) noexcept {
  for (const FormatInfo* f : all_formats()) if (detail::same_name(f->name, name)) return f;
  return nullptr;
}

/// The format with GGUF tensor type `id`, or nullptr.
constexpr const FormatInfo* find_format_by_gguf(std::uint32_t id) noexcept {
  for (const FormatInfo* f : all_formats()) if (f->gguf_type == id && id != no_gguf_type) return f;
  return nullptr;
}

/// What for_each_format passes to its function: the format as a type.
template <BlockFormat F> struct FormatTag { using Format = F; };

/// Calls f(FormatTag<F>{}) for every format of the list:
/// `for_each_format([]<class F>(FormatTag<F>) { ... });`
template <class Function>
constexpr void for_each_format(Function&& f) {
  [&]<class... F>(FormatList<F...>) { (f(FormatTag<F>{}), ...); }(AllFormats{});
}

}  // namespace nibble
