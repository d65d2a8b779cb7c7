// SPDX-License-Identifier: MIT
// A block format is one struct; everything else about it is derived. A quantized block is an exact affine
// view of its weights,
//
//     value[i] = scale[i / sub_group] * C[code[i]] - min[i / sub_group],   C[q] = q - zero, or a codebook,
//
// and `unpack` is that view. The products are exact in float (an 11-bit half mantissa, a 6..8-bit sub-scale
// and an 8-bit code fit 24 bits), so decoding rounds at most once and gives the same bits with or without
// FMA, on any machine. Kernels pack from `unpack`; tests, files and error reports use `decode`.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "nibble/core/float_types.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// What a block's codes, scales, minima and values are passed as.
template <Index N> using Codes = std::span<std::uint8_t, static_cast<std::size_t>(N)>;
template <Index N> using Floats = std::span<float, static_cast<std::size_t>(N)>;
template <Index N> using ConstCodes = std::span<const std::uint8_t, static_cast<std::size_t>(N)>;
template <Index N> using ConstFloats = std::span<const float, static_cast<std::size_t>(N)>;
/// One weight of the squared error per element, or empty: every element counts alike.
using Importance = std::span<const float>;

/// The least a format states: a packed block, a name and its length in weights.
template <class F>
concept BlockFormat =
    std::is_trivially_copyable_v<typename F::Block> && alignof(typename F::Block) == 1 && requires {
  { F::name } -> std::convertible_to<std::string_view>;
  { F::block_size } -> std::convertible_to<Index>;
};

/// A format that stores codes and scales: states sub_group, code_bits, `zero` or a `codebook`, and unpack.
template <class F>
concept AffineFormat = BlockFormat<F> && requires {
  { F::sub_group } -> std::convertible_to<Index>;
  F::code_bits;
  F::has_min;
} &&(
    requires {
      { F::zero } -> std::convertible_to<int>;
    } ||
    requires {
      { F::codebook[0] } -> std::convertible_to<int>;
    }) &&
    requires(const typename F::Block& b, Codes<F::block_size> codes,
             Floats<F::block_size / F::sub_group> scales) {
  { F::unpack(b, codes, scales, scales) }
  noexcept;
};

/// The scales of a block in two levels, as K-quants store them: scale[g] = d * scales[g], min[g] = d_min *
/// mins[g], both products exact in float.
template <std::size_t Groups>
struct Levels {
  float d = 0, d_min = 0;  ///< halves
  std::array<std::int8_t, Groups> scales{}, mins{};

  void expand(std::span<float, Groups> out_scales, std::span<float, Groups> out_mins) const noexcept {
    for (std::size_t g = 0; g < Groups; ++g) {
      out_scales[g] = d * static_cast<float>(scales[g]);
      out_mins[g] = d_min * static_cast<float>(mins[g]);
    }
  }
};

/// An affine format with two-level scales. Kernels then keep the small integers instead of the products.
template <class F>
concept TwoLevelFormat = AffineFormat<F> && requires(const typename F::Block& b) {
  { F::levels(b) } -> std::same_as<Levels<static_cast<std::size_t>(F::block_size / F::sub_group)>>;
};

/// A format whose blocks are plain numbers (f32, f16, bf16): it states decode itself.
template <class F>
concept DenseFormat = BlockFormat<F> && !AffineFormat<F> &&
    requires(const typename F::Block& b, Floats<F::block_size> values) { { F::decode(b, values) } noexcept; };

/// A format that can write the inverse of unpack: what error-feedback solvers need beside a Grid.
template <class F>
concept PackableFormat = AffineFormat<F> &&
    requires(typename F::Block& b, ConstCodes<F::block_size> c, ConstFloats<F::block_size / F::sub_group> s) {
      { F::pack(c, s, s, b) } noexcept;
    };

/// A format that can quantize one block by itself. With an importance the result is never worse, in the
/// weighted squared error, than without.
    template <class F>
    concept EncodableFormat = BlockFormat<F> &&
        requires(ConstFloats<F::block_size> x, typename F::Block& b, Importance w) {
      { F::encode(x, b, w) }
      noexcept;
    };

namespace detail {

/// An IEEE half in little-endian bytes: blocks from a file have no alignment to rely on.
struct PackedHalf {
  std::uint8_t bytes[2];
  constexpr operator float() const noexcept {
    return half::from_bits(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8));
  }
  constexpr PackedHalf& operator=(half h) noexcept {
    bytes[0] = static_cast<std::uint8_t>(h.bits & 0xFF);
    bytes[1] = static_cast<std::uint8_t>(h.bits >> 8);
    return *this;
  }
};

constexpr std::uint8_t u8(int v) noexcept { return static_cast<std::uint8_t>(v); }
constexpr std::uint8_t u8(unsigned v) noexcept { return static_cast<std::uint8_t>(v); }

/// a * b, rounded before any addition that follows: the encoders' ties depend on it, so the compiler must
/// not contract it into an FMA in a unit that is built with FMA.
inline float product(float a, float b) noexcept {
  const float p = a * b;
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
  return __builtin_assoc_barrier(p);
#else
  return p;
#endif
}

/// Low nibbles hold the first half of a block, high nibbles the second.
template <std::size_t N>
constexpr void unpack_nibbles(const std::uint8_t (&packed)[N], std::uint8_t* codes) noexcept {
  for (std::size_t j = 0; j < N; ++j) {
    codes[j] = packed[j] & 0xF;
    codes[j + N] = packed[j] >> 4;
  }
}
template <std::size_t N>
constexpr void pack_nibbles(const std::uint8_t* codes, std::uint8_t (&packed)[N]) noexcept {
  for (std::size_t j = 0; j < N; ++j) packed[j] = u8((codes[j] & 0xF) | (codes[j + N] & 0xF) << 4);
}

}  // namespace detail

/// The number C[code] of an affine format.
template <AffineFormat F>
constexpr float code_value(std::uint8_t code) noexcept {
  if constexpr (requires { F::codebook[0]; }) return static_cast<float>(F::codebook[code]);
  else return static_cast<float>(static_cast<int>(code) - F::zero);
}

/// Weights of one block; bit-equal to the definition of the format.
template <BlockFormat F>
inline void decode_block(const typename F::Block& block, Floats<F::block_size> values) noexcept {
  if constexpr (AffineFormat<F>) {
    constexpr auto n = static_cast<std::size_t>(F::block_size),
                   group = static_cast<std::size_t>(F::sub_group);
    std::array<std::uint8_t, n> codes;
    std::array<float, n / group> scales, mins;
    F::unpack(block, codes, scales, mins);
    for (std::size_t g = 0; g < n / group; ++g)
      for (std::size_t i = g * group; i < (g + 1) * group; ++i)
        values[i] = scales[g] * code_value<F>(codes[i]) - mins[g];
  } else {
    static_assert(DenseFormat<F>,
                  "a block format states either unpack (with sub_group, code_bits, has_min, and "
                  "zero or codebook) or decode");
    F::decode(block, values);
  }
}

}  // namespace nibble
