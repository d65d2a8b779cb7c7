// SPDX-License-Identifier: MIT
// DType: the element type of a dense tensor, as run-time data. Block-quantized weights are not element
// types; they have a FormatInfo (format/block_format.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "nibble/core/float_types.hpp"

namespace nibble {

enum class DType : std::uint8_t {
  f64, f32, f16, bf16, f8_e4m3, f8_e5m2, f4_e2m1, e8m0,
  i64, i32, i16, i8, u64, u32, u16, u8, boolean
};

inline constexpr std::size_t dtype_count = 17;

namespace detail {
struct DTypeRow { std::string_view name; std::uint8_t bits; bool floating; };
/// In the order of the enumeration. An f4_e2m1 counts 4 bits where packed and one byte as an element.
inline constexpr std::array<DTypeRow, dtype_count> dtype_rows{{
    {"f64", 64, true}, {"f32", 32, true}, {"f16", 16, true}, {"bf16", 16, true}, {"f8_e4m3", 8, true},
    {"f8_e5m2", 8, true}, {"f4_e2m1", 4, true}, {"e8m0", 8, true}, {"i64", 64, false}, {"i32", 32, false},
    {"i16", 16, false}, {"i8", 8, false}, {"u64", 64, false}, {"u32", 32, false}, {"u16", 16, false},
    {"u8", 8, false}, {"bool", 8, false}}};
constexpr const DTypeRow& dtype_row(DType t) noexcept { return dtype_rows[static_cast<std::size_t>(t)]; }
}  // namespace detail

/// Stable short name: "bf16", "f8_e4m3", "i32".
constexpr std::string_view to_string(DType t) noexcept { return detail::dtype_row(t).name; }
/// Bits of information per element.
constexpr int bits_of(DType t) noexcept { return detail::dtype_row(t).bits; }
/// Bytes of one element in memory (at least 1).
constexpr std::size_t size_of(DType t) noexcept { return (detail::dtype_row(t).bits + std::size_t{7}) / 8; }
constexpr bool is_floating(DType t) noexcept { return detail::dtype_row(t).floating; }

/// The type called `name`, if there is one.
constexpr std::optional<DType> find_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < dtype_count; ++i)
    if (detail::dtype_rows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

namespace detail {
template <class T> struct DTypeOf;
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<half> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<bfloat16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<fp8_e4m3> { static constexpr DType value = DType::f8_e4m3; };
template <> struct DTypeOf<fp8_e5m2> { static constexpr DType value = DType::f8_e5m2; };
template <> struct DTypeOf<fp4_e2m1> { static constexpr DType value = DType::f4_e2m1; };
template <> struct DTypeOf<e8m0> { static constexpr DType value = DType::e8m0; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct DTypeOf<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
}  // namespace detail

/// A type that can be an element of a dense tensor.
template <class T>
concept Element = requires { detail::DTypeOf<std::remove_cv_t<T>>::value; };

/// The DType of a C++ element type: dtype_of<half> == DType::f16.
template <Element T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;

/// Calls f(std::type_identity<T>{}) with the element type of `t`.
template <class F>
constexpr decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::f16: return f(std::type_identity<half>{});
    case DType::bf16: return f(std::type_identity<bfloat16>{});
    case DType::f8_e4m3: return f(std::type_identity<fp8_e4m3>{});
    case DType::f8_e5m2: return f(std::type_identity<fp8_e5m2>{});
    case DType::f4_e2m1: return f(std::type_identity<fp4_e2m1>{});
    case DType::e8m0: return f(std::type_identity<e8m0>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i16: return f(std::type_identity<std::int16_t>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::u64: return f(std::type_identity<std::uint64_t>{});
    case DType::u32: return f(std::type_identity<std::uint32_t>{});
    case DType::u16: return f(std::type_identity<std::uint16_t>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::boolean: return f(std::type_identity<bool>{});
    case DType::f32: break;
  }
  return f(std::type_identity<float>{});
}

}  // namespace nibble
