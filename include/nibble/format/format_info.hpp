// SPDX-License-Identifier: MIT
// FormatInfo: a block format as constant data and function pointers, derived from its struct. What files,
// tensors and kernels hold; the type itself is needed only where a format is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nibble/core/checked.hpp"
#include "nibble/format/block_format.hpp"

namespace nibble {

/// Formats without a GGUF type id.
inline constexpr std::uint32_t no_gguf_type = 0xFFFF'FFFF;

struct FormatInfo {
  std::string_view name;               ///< "q4_0"
  std::uint32_t gguf_type;             ///< GGUF tensor type id, or no_gguf_type
  Index block_size;                    ///< weights per block
  Index block_bytes;                   ///< bytes per block
  Index sub_group;                     ///< weights that share a scale and a minimum; 1 where dense
  int code_bits;                       ///< bits of a code as unpacked; where dense, of the number itself
  int zero;                            ///< C[q] = q - zero, when there is no codebook
  const std::int8_t* codebook;         ///< C[q] = codebook[q], 2^code_bits entries, or nullptr
  bool dense;                          ///< plain numbers: no unpack
  bool has_min;                        ///< whether unpack ever gives a nonzero minimum

  /// [blocks * block_bytes] -> [blocks * block_size]; bit-equal to the format's definition.
  void (*decode)(const std::byte* data, float* values, Index blocks) noexcept;
  /// The inverse, by the format's own rule; nullptr where the format has no encoder. `importance` is null or
  /// one weight per value. Values must be finite.
  void (*encode)(const float* values, const float* importance, std::byte* data, Index blocks) noexcept;
  /// One block to block_size codes, block_size / sub_group scales and as many minima; nullptr where dense.
  void (*unpack)(const std::byte* block, std::uint8_t* codes, float* scales, float* mins) noexcept;
  /// The inverse of unpack for scales the format can hold; nullptr where it is not offered.
  void (*pack)(const std::uint8_t* codes, const float* scales, const float* mins, std::byte* block) noexcept;

  /// One block's scales in two levels (`d`, `d_min`, then a byte per sub-group); nullptr where the format has
  /// one level.
  void (*levels)(const std::byte* block, float* d, float* d_min, std::int8_t* scales, std::int8_t* mins) noexcept;

  constexpr bool has_encode() const noexcept { return encode != nullptr; }
  constexpr Index sub_groups() const noexcept { return block_size / sub_group; }
  constexpr double bits_per_weight() const noexcept {
    return 8.0 * static_cast<double>(block_bytes) / static_cast<double>(block_size);
  }
  /// Bytes of a row of `cols` weights. Throws Error{invalid_argument} unless whole blocks fill the row:
  /// a block never crosses a row's end.
  Index row_bytes(Index cols) const {
    NIBBLE_EXPECTS(cols >= 0 && cols % block_size == 0,
                   "a row of " + std::to_string(cols) + " weights is not a whole number of " +
                       std::string(name) + " blocks of " + std::to_string(block_size));
    return checked::mul(cols / block_size, block_bytes, "row bytes");
  }
};

namespace detail {

template <class F> constexpr std::uint32_t gguf_type_of() noexcept {
  if constexpr (requires { F::gguf_type; }) return F::gguf_type;
  else return no_gguf_type;
}

template <BlockFormat F>
inline void decode_blocks(const std::byte* data, float* values, Index blocks) noexcept {
  const auto* b = reinterpret_cast<const typename F::Block*>(data);
  for (Index i = 0; i < blocks; ++i)
    decode_block<F>(b[i], Floats<F::block_size>(values + i * F::block_size, std::size_t{F::block_size}));
}

template <EncodableFormat F>
inline void encode_blocks(const float* values, const float* importance, std::byte* data,
                          Index blocks) noexcept {
  constexpr auto n = static_cast<std::size_t>(F::block_size);
  auto* b = reinterpret_cast<typename F::Block*>(data);
  for (Index i = 0; i < blocks; ++i, values += n) {
    F::encode(ConstFloats<F::block_size>(values, n), b[i],
              importance == nullptr ? Importance{} : Importance(importance, n));
    if (importance != nullptr) importance += n;
  }
}

template <AffineFormat F>
inline void unpack_one(const std::byte* block, std::uint8_t* codes, float* scales, float* mins) noexcept {
  constexpr auto n = static_cast<std::size_t>(F::block_size),
                 groups = n / static_cast<std::size_t>(F::sub_group);
  F::unpack(*reinterpret_cast<const typename F::Block*>(block), Codes<F::block_size>(codes, n),
            Floats<F::block_size / F::sub_group>(scales, groups),
            Floats<F::block_size / F::sub_group>(mins, groups));
}

template <TwoLevelFormat F>
inline void levels_one(const std::byte* block, float* d, float* d_min, std::int8_t* scales,
                       std::int8_t* mins) noexcept {
  const auto l = F::levels(*reinterpret_cast<const typename F::Block*>(block));
  *d = l.d;
  *d_min = l.d_min;
  for (std::size_t g = 0; g < l.scales.size(); ++g) {
    scales[g] = l.scales[g];
    mins[g] = l.mins[g];
  }
}

template <PackableFormat F>
inline void pack_one(const std::uint8_t* codes, const float* scales, const float* mins,
                     std::byte* block) noexcept {
  constexpr auto n = static_cast<std::size_t>(F::block_size),
                 groups = n / static_cast<std::size_t>(F::sub_group);
  F::pack(ConstCodes<F::block_size>(codes, n), ConstFloats<F::block_size / F::sub_group>(scales, groups),
          ConstFloats<F::block_size / F::sub_group>(mins, groups),
          *reinterpret_cast<typename F::Block*>(block));
}

template <BlockFormat F>
constexpr FormatInfo make_format_info() noexcept {
  FormatInfo f{};
  f.name = F::name;
  f.gguf_type = gguf_type_of<F>();
  f.block_size = F::block_size;
  f.block_bytes = static_cast<Index>(sizeof(typename F::Block));
  f.decode = &decode_blocks<F>;
  if constexpr (AffineFormat<F>) {
    static_assert(F::block_size % F::sub_group == 0 && F::code_bits >= 1 && F::code_bits <= 8);
    f.sub_group = F::sub_group;
    f.code_bits = F::code_bits;
    f.has_min = F::has_min;
    f.unpack = &unpack_one<F>;
    if constexpr (requires { F::codebook[0]; }) f.codebook = &F::codebook[0];
    else f.zero = F::zero;
    if constexpr (PackableFormat<F>) f.pack = &pack_one<F>;
    if constexpr (TwoLevelFormat<F>) f.levels = &levels_one<F>;
  } else {
    f.dense = true;
    f.sub_group = 1;
    f.code_bits = static_cast<int>(sizeof(typename F::Block)) * 8 / static_cast<int>(F::block_size);
  }
  if constexpr (EncodableFormat<F>) f.encode = &encode_blocks<F>;
  return f;
}

template <BlockFormat F>
inline constexpr FormatInfo format_info_of = make_format_info<F>();

}  // namespace detail

/// The run-time description of format F. One object per format: its address is an identity.
template <BlockFormat F>
constexpr const FormatInfo& format_info() noexcept { return detail::format_info_of<F>; }

}  // namespace nibble
