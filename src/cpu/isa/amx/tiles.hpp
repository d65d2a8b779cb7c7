// SPDX-License-Identifier: MIT
// The tile instructions: eight registers of 16 rows x 64 bytes. Where the unit is built without AMX
// (NIBBLE_EMULATED_ISAS, for tests) they are emulated, rounding for rounding: products and sums of TDPBF16PS
// flush subnormal numbers to zero and round to nearest even (Intel SDM volume 2, TDPBF16PS). Included inside the
// instruction set's namespace, after its vector vocabulary.
#pragma once

/// Of tiles 0 to 3 for sums, 4 and 5 for left-hand operands of `r` rows and `depth` 32-bit words, 6 and 7 for
/// right-hand ones.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
  constexpr TileConfig(std::uint8_t r, std::uint8_t depth)
      : row_bytes{64, 64, 64, 64, static_cast<std::uint16_t>(depth * 4), static_cast<std::uint16_t>(depth * 4), 64, 64},
        rows{r, r, r, r, r, r, depth, depth} {}
};
static_assert(sizeof(TileConfig) == 64);
/// Constant memory: g++ 12's intrinsic names only the first 8 bytes as read, so stores to a local could be lost.
template <int Rows, int Depth>
static constexpr TileConfig tile_shapes(Rows, Depth);

#if defined(__AMX_TILE__)

/// The state is a thread's own, set and released within one kernel: an idle thread with live tiles keeps its core
/// from sleeping, and pays for them at every switch.
struct Tiles {
  explicit Tiles(const TileConfig& shapes = tile_shapes<16, 16>) { _tile_loadconfig(&shapes); }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Macros, since a tile's number is part of the instruction.
#define NIBBLE_TILE_ZERO(tile) _tile_zero(tile)
#define NIBBLE_TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, static_cast<int>(stride))
#define NIBBLE_TILE_STORE(tile, to, stride) _tile_stored(tile, to, static_cast<int>(stride))
#define NIBBLE_TILE_DOT_BF16(sum, a, b) _tile_dpbf16ps(sum, a, b)
#define NIBBLE_TILE_DOT_INT8(sum, a, b) _tile_dpbssd(sum, a, b)

#else

struct Tiles {
  const TileConfig& shapes;
  alignas(64) std::uint32_t words[8][16][16];

  explicit Tiles(const TileConfig& s = tile_shapes<16, 16>) : shapes(s) {}

  void zero(int tile) {
    for (auto& row : words[tile])
      for (std::uint32_t& w : row) w = 0;
  }
  void load(int tile, const void* from, i64 stride) {
    const auto present = static_cast<__mmask16>((1u << shapes.row_bytes[tile] / 4) - 1u);
    for (i64 r = 0; r < shapes.rows[tile]; ++r)
      _mm512_store_si512(words[tile][r],
                         _mm512_maskz_loadu_epi32(present, static_cast<const char*>(from) + r * stride));
  }
  void store(int tile, void* to, i64 stride) const {
    for (i64 r = 0; r < shapes.rows[tile]; ++r)
      _mm512_storeu_si512(static_cast<char*>(to) + r * stride, _mm512_load_si512(words[tile][r]));
  }
  static __m512 flushed(__m512 v) {
    return _mm512_mask_mov_ps(v, _mm512_fpclass_ps_mask(v, 0x20), _mm512_setzero_ps());
  }
  /// Even and odd columns are summed apart over the tile's depth; then both join the accumulator.
  void dot_bf16(int sum, int a, int b) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    for (i64 m = 0; m < shapes.rows[sum]; ++m) {
      __m512 even = _mm512_setzero_ps(), odd = even;
      for (i64 k = 0; k < shapes.rows[b]; ++k) {
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
  /// TDPBSSD: sums of four products of signed bytes, exact in int32.
  void dot_int8(int sum, int a, int b) {
    const auto even = [](__m512i v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); };
    const auto odd = [](__m512i v) { return _mm512_srai_epi16(v, 8); };
    for (i64 m = 0; m < shapes.rows[sum]; ++m) {
      __m512i total = _mm512_load_si512(words[sum][m]);
      for (i64 k = 0; k < shapes.rows[b]; ++k) {
        const __m512i left = _mm512_set1_epi32(static_cast<int>(words[a][m][k]));
        const __m512i right = _mm512_load_si512(words[b][k]);
        total = _mm512_add_epi32(total, _mm512_madd_epi16(even(left), even(right)));
        total = _mm512_add_epi32(total, _mm512_madd_epi16(odd(left), odd(right)));
      }
      _mm512_store_si512(words[sum][m], total);
    }
  }
};

#define NIBBLE_TILE_ZERO(tile) tiles.zero(tile)
#define NIBBLE_TILE_LOAD(tile, from, stride) tiles.load(tile, from, stride)
#define NIBBLE_TILE_STORE(tile, to, stride) tiles.store(tile, to, stride)
#define NIBBLE_TILE_DOT_BF16(sum, a, b) tiles.dot_bf16(sum, a, b)
#define NIBBLE_TILE_DOT_INT8(sum, a, b) tiles.dot_int8(sum, a, b)

#endif
