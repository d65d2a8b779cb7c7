// SPDX-License-Identifier: MIT
// How keys and values lie in a page, one type each: FP32 and FP16 as they are, INT8 with one FP32 scale per token and
// head behind the page's elements, [kv_heads][256]: x = scale * code, scale = max|x| / 127 (symmetric, nearest even).
// Written for clarity: attention reads pages with kernels of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "nibble/cache/kv_view.hpp"
#include "nibble/core/float_types.hpp"

namespace nibble {

/// Whether there are caches of this type.
constexpr bool is_kv_dtype(DType t) noexcept { return t == DType::f32 || t == DType::f16 || t == DType::i8; }

/// Bytes from a page's start to the scale of a token's key or value; `dim` is head_dim or value_dim. INT8 only.
constexpr Index kv_scale_offset(const KvShape& s, Index dim, Index head, Index position) noexcept {
  return s.kv_heads * kv_page_tokens * dim + (head * kv_page_tokens + position % kv_page_tokens) * Index{sizeof(float)};
}

/// Bytes of a page of keys or of values.
constexpr Index kv_page_bytes(const KvShape& s, Index dim) noexcept {
  if (s.dtype == DType::i8) return kv_scale_offset(s, dim, s.kv_heads, 0);
  return s.kv_heads * kv_page_tokens * dim * static_cast<Index>(size_of(s.dtype));
}

/// Feature d of a key, or of a value.
inline float load_kv(const KvShape& s, bool value, const std::byte* page, Index head, Index position,
                     Index d) noexcept {
  const Index at = value ? value_index(s, head, position, d) : key_index(s, head, position, d);
  switch (s.dtype) {
    case DType::f32: return reinterpret_cast<const float*>(page)[at];
    case DType::i8: {
      float scale;
      std::memcpy(&scale, page + kv_scale_offset(s, value ? s.value_dim : s.head_dim, head, position), sizeof scale);
      return scale * static_cast<float>(reinterpret_cast<const std::int8_t*>(page)[at]);
    }
    default: return float(reinterpret_cast<const half*>(page)[at]);
  }
}

/// Stores row[head_dim] as a key, or row[value_dim] as a value. A NaN or infinity makes an INT8 scale NaN or infinite.
inline void store_kv(const KvShape& s, bool value, std::byte* page, Index head, Index position,
                     const float* row) noexcept {
  const Index dim = value ? s.value_dim : s.head_dim;
  const auto at = [&](Index d) { return value ? value_index(s, head, position, d) : key_index(s, head, position, d); };
  if (s.dtype != DType::i8) {
    for (Index d = 0; d < dim; ++d) {
      if (s.dtype == DType::f32) reinterpret_cast<float*>(page)[at(d)] = row[d];
      else reinterpret_cast<half*>(page)[at(d)] = half(row[d]);
    }
    return;
  }
  float max = 0;
  for (Index d = 0; d < dim; ++d) max = std::isnan(row[d]) || std::abs(row[d]) > max ? std::abs(row[d]) : max;
  if (max < 1e-35f) max = 0;  // its inverse would overflow
  const float scale = max / 127.0f, inverse = max > 0 && std::isfinite(max) ? 127.0f / max : 0.0f;
  for (Index d = 0; d < dim; ++d)
    reinterpret_cast<std::int8_t*>(page)[at(d)] =
        inverse > 0 ? static_cast<std::int8_t>(std::nearbyint(row[d] * inverse)) : std::int8_t{0};
  std::memcpy(page + kv_scale_offset(s, dim, head, position), &scale, sizeof scale);
}

}  // namespace nibble
