// SPDX-License-Identifier: MIT
// smmla: a block of 2 x 2 int32 += 2 rows x 8 columns of activations times 2 rows x 8 columns of weights, twice the
// products of an sdot. So the tile takes two activation rows at a time, and widened panels hold, in the place of
// two quads of 4 rows, rows 0-1 and rows 2-3 with their 8 columns. Included inside the instruction set's namespace,
// after codes.hpp.
#pragma once

constexpr bool signed_bytes = true;  // see isa/neon_dot/sdot.hpp

struct BlockDot {
  static constexpr int quads = 2, rows = 2;

  /// Two quads of 4 rows, `first` and `second`, where the first belongs and a line further.
  static void widen(std::uint8_t* to, I first, I second) {
    store_i(to, vzip1q_s32(first, second));
    store_i(to + 64, vzip2q_s32(first, second));
  }
  /// acc[r][v] and acc[r + 1][v] hold rows r and r + 1 times weights 0-1 and weights 2-3 of vector v.
  template <int R, int V, class Panels>
  static inline __attribute__((always_inline)) void add(I (&acc)[R][V], const Panels& p, i64 place,
                                                        const std::int8_t* const (&q)[R], i64 column) {
    static_assert(R % 2 == 0);
    int8x16_t a[R / 2];
    NIBBLE_UNROLL
    for (int r = 0; r < R; r += 2) a[r / 2] = vcombine_s8(vld1_s8(q[r] + column), vld1_s8(q[r + 1] + column));
    unrolled<V>([&](auto vector) __attribute__((always_inline)) {
      constexpr int v = decltype(vector)::value;
      const std::uint8_t* codes = p.template codes<v>() + place;
      const int8x16_t low = signed_bytes_of(load_i(codes)), high = signed_bytes_of(load_i(codes + 64));
      NIBBLE_UNROLL
      for (int r = 0; r < R; r += 2) {
        acc[r][v] = vmmlaq_s32(acc[r][v], a[r / 2], low);
        acc[r + 1][v] = vmmlaq_s32(acc[r + 1][v], a[r / 2], high);
      }
    });
  }
  /// Blocks to rows: then acc[r][v] is row r times the 4 weights of vector v.
  template <int R, int V>
  static void split(I (&acc)[R][V]) {
    NIBBLE_UNROLL
    for (int r = 0; r < R; r += 2) {
      NIBBLE_UNROLL
      for (int v = 0; v < V; ++v) {
        const int64x2_t low = vreinterpretq_s64_s32(acc[r][v]), high = vreinterpretq_s64_s32(acc[r + 1][v]);
        acc[r][v] = vreinterpretq_s32_s64(vzip1q_s64(low, high));
        acc[r + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(low, high));
      }
    }
  }
};

template <int Bits, bool Codebook>
struct DotOf {
  using Type = BlockDot;
};
