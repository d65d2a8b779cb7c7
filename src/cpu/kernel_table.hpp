// SPDX-License-Identifier: MIT
// What an instruction set provides: plain functions on plain data. Units under isa/ are compiled with
// their own flags, so nothing here may be a template or an inline function that the linker could merge
// with a copy built for a newer processor. KERNELS is the one list of kernel names; kernels.def says
// which instruction set has which, best first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/packed_layout.hpp"
#include "cpu/sparse_layout.hpp"

/// Before a loop with a small constant count whose arrays must become registers.
#if defined(__clang__)
#define NIBBLE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NIBBLE_UNROLL _Pragma("GCC unroll 64")
#endif

namespace nibble::cpu {

using i64 = std::int64_t;

/// At most in a call of dot_tile: whole tiles of 6 and of 16 rows, whose sums stay in L1.
inline constexpr i64 dot_tile_rows = 48;

/// c[m, n] (+)= a[m, k] b[k, n], each sum one FMA chain over ascending k: the same bits for every m, n and
/// for any split of k into calls that accumulate.
struct GemmF32 {
  const float* a;
  i64 a_stride;
  const float* b;
  i64 b_stride;
  float* c;
  i64 c_stride;
  i64 m, n, k;
  bool accumulate;
  i64 b_block = 16;                       ///< elements from 16 columns of b to the next 16
  const std::uint16_t* b_half = nullptr;  ///< b in binary16, instead of `b`
  const std::int8_t* b_bytes = nullptr;   ///< b as integers, instead of `b`
};

/// Activations in INT8 groups of 32 columns: x ~ scale * q, scale = max|x| / 127, padded with zeros to whole
/// chunks. A NaN or infinity in a group makes its scale NaN or infinite, so that it reaches the output.
struct QuantizedRows {
  std::int8_t* q;     ///< [rows, chunks * 32]
  float* scale;       ///< [rows, chunks]
  std::int32_t* sum;  ///< [rows, chunks * sets]: sums of q over each weight scale's columns
  float* scaled_sum;  ///< [rows, chunks * sets]: scale * sum
  i64 chunks;
  i64 sets;
};

/// A panel's codes widened to bytes and its scales to f32: what the tile kernel reads.
struct WidePanel {
  std::uint8_t* codes;  ///< [chunks][2 halves][8 quads][64], as the instruction set multiplies them
  float* scales;        ///< [chunks][sets][32]
  float* mins;          ///< [chunks][sets][32]
  std::int32_t zero;    ///< of these codes; widen sets it
};

/// Activations rounded to BF16 in tiles of 16 rows x 32 columns, 1 KiB; the tiles of 16 rows follow each other along
/// the columns, which are padded with zeros. What lies in rows that do not exist does not matter.
struct RoundedRows {
  std::uint16_t* tiles;
  i64 chunks;
};

/// Sums (+)= rounded rows times rounded panels: row 32 g + i, output j of panel p at
/// c[g * c_block + p * c_panel + i * c_stride + j]. c has room for whole tiles of 16 rows.
struct RoundedProduct {
  const std::uint16_t* a;  ///< first tile
  i64 a_stride;            ///< elements from 16 rows to the next 16
  const std::uint16_t* b;  ///< [chunks][2][512]
  i64 b_stride;            ///< elements from a panel to the next
  float* c;
  i64 c_stride, c_panel, c_block;
  i64 m, panels, chunks;
  bool accumulate;
};

/// y[rows, cols] (+)= sums[rows, cols] + bias[cols].
struct SumsTile {
  const float* sums;
  i64 stride;
  const float* bias;  ///< null: zeros
  float* y;
  i64 y_stride;
  i64 rows, cols;
  bool add;
};

/// One key page against a block of query rows; see ops/cpu/attention.cpp.
struct SoftmaxTile {
  float* scores;  ///< [rows, stride], replaced by exp(score - max of the row)
  i64 stride, rows, keys;
  float* max;  ///< [rows]
  float* sum;  ///< [rows]; 0 where no key is visible
};

// Signatures, one per kernel. Rows are contiguous.
using RmsNormFn = void (*)(const float* x, const float* weight, float* y, i64 n, float eps);
using LayerNormFn = void (*)(const float* x, const float* weight, const float* bias, float* y, i64 n,
                             float eps);
using SoftmaxFn = void (*)(const float* x, float* y, i64 n, float scale);
using BinaryFn = void (*)(const float* a, const float* b, float* y, i64 n);
using UnaryFn = void (*)(const float* x, float* y, i64 n);
using ScaledFn = void (*)(float* y, i64 n, float factor);
/// cosine[i], sine[i] of position * frequencies[i], times magnitude; n is padded to 16 by the caller.
using RopeAnglesFn = void (*)(i64 position, const float* frequencies, float magnitude, float* cosine,
                              float* sine, i64 n);
/// Rotates pairs (a[i], b[i]).
using RopeHalvesFn = void (*)(float* a, float* b, const float* cosine, const float* sine, i64 n);
using RopeNeighboursFn = void (*)(float* x, const float* cosine, const float* sine, i64 pairs);
using ToHalfFn = void (*)(const float* x, std::uint16_t* y, i64 n);
/// y = the nearest integers to x * 127 / max|x|; returns max|x| / 127, NaN or infinite where that is.
using ToBytesFn = float (*)(const float* x, std::int8_t* y, i64 n);
using FromHalfFn = void (*)(const std::uint16_t* x, float* y, i64 n);
using GemmF32Fn = void (*)(const GemmF32& g);
/// Chunks [first, first + count) of a panel as floats out[column][32]; of a dense panel too.
using DequantizeFn = void (*)(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count,
                              float* out);
using QuantizeRowFn = void (*)(const float* x, i64 cols, i64 row, const QuantizedRows& out);
/// One panel against m (1 to 4) quantized rows, c[m][32]; codes only.
using DotSmallFn = void (*)(const PackedLayout& l, const std::uint8_t* panel, const QuantizedRows& x, i64 row,
                            i64 m, float* c);
/// The dense panel, out[panel_bytes], of a bitmap panel.
using ExpandPanelFn = void (*)(const PackedLayout& l, const std::uint8_t* panel, std::uint8_t* out);
using WidenFn = void (*)(const PackedLayout& l, const std::uint8_t* panel, WidePanel& out);
/// One or two widened panels (`b.codes` null: one) against m (1 to dot_tile_rows) quantized rows, c[dot_tile_rows][64].
/// The same bits as DotSmall.
using DotTileFn = void (*)(const PackedLayout& l, const WidePanel& a, const WidePanel& b,
                           const QuantizedRows& x, i64 row, i64 m, float* c);
/// `rows` rows of x, `stride` elements apart, as rows [row, row + rows) of out.
using RoundRowsFn = void (*)(const float* x, i64 stride, i64 rows, i64 cols, i64 row, const RoundedRows& out);
/// Chunks [first, first + count) of a panel of codes or of BF16 numbers as BF16 tiles: out[chunk][rows 0-15, 16-31][16 pairs of
/// columns][16 rows][2].
using RoundPanelFn = void (*)(const PackedLayout& l, const std::uint8_t* panel, i64 first, i64 count,
                              std::uint16_t* out);
/// Rows of 16 halves, `stride` elements apart, as right-hand tiles of 32 rows each, 1024 elements from one to the next;
/// rows beyond the last are zeros.
using RoundHalvesFn = void (*)(const std::uint16_t* x, i64 stride, i64 rows, std::uint16_t* out);
/// The same of integers.
using RoundBytesFn = void (*)(const std::int8_t* x, i64 stride, i64 rows, std::uint16_t* out);
using DotRoundedFn = void (*)(const RoundedProduct& p);
using SoftmaxTileFn = void (*)(const SoftmaxTile& t);
/// softmax_tile with its weights, times each key's own scale unless `scales` is null, to rows [0, t.rows) of out.
using SoftmaxRoundedFn = void (*)(const SoftmaxTile& t, const float* scales, const RoundedRows& out);
using StoreSumsFn = void (*)(const SumsTile& t);
/// Merges a page's (max, sum, values[dim]) into the running ones; a page with sum 0 changes nothing.
using MergePageFn = void (*)(float page_max, float page_sum, const float* page_values, float* max, float* sum,
                             float* values, i64 dim);

/// Probes measure what the unit's instructions can do at best (src/cpu/machine_rates.cpp). `rounds` rounds of
/// multiply-adds of ones on registers alone; *sum = all accumulators together (integers: modulo 2^16; tiles: one
/// accumulator of each).
/// Returns multiplications and additions, two per multiply-add.
using ProbeFn = i64 (*)(i64 rounds, double* sum);
/// Reads `words` 32-bit numbers in ascending order; their sum modulo 2^32.
using ProbeReadFn = std::uint32_t (*)(const std::uint32_t* p, i64 words);

/// The list of kernels: X(name, signature).
#define NIBBLE_CPU_KERNELS(X)          \
  X(rms_norm, RmsNormFn)               \
  X(layer_norm, LayerNormFn)           \
  X(softmax, SoftmaxFn)                \
  X(store_sums, StoreSumsFn)           \
  X(swiglu, BinaryFn)                  \
  X(geglu, BinaryFn)                   \
  X(gelu_erf, UnaryFn)                 \
  X(gelu_tanh, UnaryFn)                \
  X(add, BinaryFn)                     \
  X(soft_cap, ScaledFn)                \
  X(scale, ScaledFn)                   \
  X(rope_angles, RopeAnglesFn)         \
  X(rope_halves, RopeHalvesFn)         \
  X(rope_neighbours, RopeNeighboursFn) \
  X(to_half, ToHalfFn)                 \
  X(from_half, FromHalfFn)             \
  X(to_bytes, ToBytesFn)               \
  X(gemm_f32, GemmF32Fn)               \
  X(dequantize, DequantizeFn)          \
  X(quantize_row, QuantizeRowFn)       \
  X(dot_small, DotSmallFn)             \
  X(dot_sparse, DotSmallFn)            \
  X(expand_panel, ExpandPanelFn)       \
  X(widen, WidenFn)                    \
  X(dot_tile, DotTileFn)               \
  X(round_rows, RoundRowsFn)           \
  X(round_panel, RoundPanelFn)         \
  X(round_halves, RoundHalvesFn)       \
  X(round_bytes, RoundBytesFn)         \
  X(dot_rounded, DotRoundedFn)         \
  X(softmax_tile, SoftmaxTileFn)       \
  X(softmax_rounded, SoftmaxRoundedFn) \
  X(merge_page, MergePageFn)           \
  X(probe_dot, ProbeFn)                \
  X(probe_fma, ProbeFn)                \
  X(probe_tile, ProbeFn)               \
  X(probe_read, ProbeReadFn)

/// The best kernel of each name up to some instruction set. Null: this level has none. Only these may be missing:
/// `widen` with `dot_tile`, and those of BF16 tiles, whose work `dot_small` then does; and `dot_sparse`, which is
/// dot_small on bitmap panels: `expand_panel` goes before dot_small instead.
struct KernelTable {
#define NIBBLE_MEMBER(name, signature) signature name = nullptr;
  NIBBLE_CPU_KERNELS(NIBBLE_MEMBER)
#undef NIBBLE_MEMBER
};

}  // namespace nibble::cpu
