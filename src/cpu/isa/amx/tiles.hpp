// SPDX-License-Identifier: MIT
// The tile instructions: eight registers of 16 rows x 64 bytes. Where the unit is built without AMX
// (NIBBLE_EMULATED_ISAS, for tests) they are emulated, rounding for rounding: products and sums of TDPBF16PS
// flush subnormal numbers to zero and round to nearest even (Intel SDM volume 2, TDPBF16PS). Included inside the
// instruction set's namespace, after its vector vocabulary.
#pragma once

#if defined(__AMX_TILE__)

/// Constant memory: g++ 12's intrinsic names only the first 8 bytes as read, so stores to a local could be lost.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
static constexpr TileConfig whole_tiles{};

/// All eight tiles whole. The state is a thread's own, set and released within one kernel: an idle thread with
/// live tiles keeps its core from sleeping, and pays for them at every switch.
struct Tiles {
  Tiles() { _tile_loadconfig(&whole_tiles); }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Macros, since a tile's number is part of the instruction.
#define NIBBLE_TILE_ZERO(tile) _tile_zero(tile)
#define NIBBLE_TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, static_cast<int>(stride))
#define NIBBLE_TILE_STORE(tile, to, stride) _tile_stored(tile, to, static_cast<int>(stride))
#define NIBBLE_TILE_DOT_BF16(sum, a, b) _tile_dpbf16ps(sum, a, b)

#else

struct Tiles {
  alignas(64) std::uint32_t words[8][16][16];

  void zero(int tile) {
    for (auto& row : words[tile])
      for (std::uint32_t& w : row) w = 0;
  }
  void load(int tile, const void* from, i64 stride) {
    for (i64 r = 0; r < 16; ++r)
      _mm512_store_si512(words[tile][r], _mm512_loadu_si512(static_cast<const char*>(from) + r * stride));
  }
  void store(int tile, void* to, i64 stride) const {
    for (i64 r = 0; r < 16; ++r)
      _mm512_storeu_si512(static_cast<char*>(to) + r * stride, _mm512_load_si512(words[tile][r]));
  }
  static __m512 flushed(__m512 v) {
    return _mm512_mask_mov_ps(v, _mm512_fpclass_ps_mask(v, 0x20), _mm512_setzero_ps());
  }
  /// Even and odd columns are summed apart over the tile's depth; then both join the accumulator.
  void dot_bf16(int sum, int a, int b) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    for (i64 m = 0; m < 16; ++m) {
      __m512 even = _mm512_setzero_ps(), odd = even;
      for (i64 k = 0; k < 16; ++k) {
        const std::uint32_t pair = words[a][m][k];
        const __m512i left = _mm512_set1_epi32(static_cast<int>(pair)), right = _mm512_load_si512(words[b][k]);
        even = flushed(_mm512_fmadd_ps(flushed(_mm512_castsi512_ps(_mm512_slli_epi32(left, 16))),
                                       flushed(_mm512_castsi512_ps(_mm512_slli_epi32(right, 16))), even));
        odd = flushed(_mm512_fmadd_ps(flushed(_mm512_castsi512_ps(_mm512_and_si512(left, high))),
                                      flushed(_mm512_castsi512_ps(_mm512_and_si512(right, high))), odd));
      }
      const __m512 both = flushed(_mm512_add_ps(even, odd));
      const __m512 old = flushed(_mm512_castsi512_ps(_mm512_load_si512(words[sum][m])));
      _mm512_store_ps(words[sum][m], flushed(_mm512_add_ps(old, both)));
    }
  }
};

#define NIBBLE_TILE_ZERO(tile) tiles.zero(tile)
#define NIBBLE_TILE_LOAD(tile, from, stride) tiles.load(tile, from, stride)
#define NIBBLE_TILE_STORE(tile, to, stride) tiles.store(tile, to, stride)
#define NIBBLE_TILE_DOT_BF16(sum, a, b) tiles.dot_bf16(sum, a, b)

#endif
