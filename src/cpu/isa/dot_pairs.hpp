// SPDX-License-Identifier: MIT
// Integer dot products without VNNI: vpmaddubsw sums two u8 x s8 products into int16 and would saturate, so
// each width of code gets as many sums in int16 as fit (activations are within -127 .. 127):
//
//   bits      |pair|           pairs in int16 before they go to int32
//   1 to 4     15 * 254 =  3810   8: a whole scale set of 32 columns
//   5          31 * 254 =  7874   4
//   6          63 * 254 = 16002   2
//   8, signed 128 * 254 = 32512   1, the weight's sign moved to the activation
//
// Included inside an instruction set's namespace, after pairs.hpp and codes.hpp.
#pragma once

/// Codes of 8 bits and codebooks are multiplied as signed bytes.
constexpr bool signed_bytes = true;

/// Sums a scale set in int16.
struct WordDot {
  static constexpr int quads = 1, rows = 1;
  static I begin(I) { return set1_i(0); }
  static I add(I acc, const I (&w)[1], const I (&a)[1]) { return add_pairs(acc, w[0], a[0]); }
  static I finish(I acc, I start) { return add_i(sum_words(acc), start); }
};

/// Sums `Quads` quads in int16, then goes to int32.
template <int Quads>
struct FoldedDot {
  static constexpr int quads = Quads, rows = 1;
  static I begin(I start) { return start; }
  static I add(I acc, const I (&w)[Quads], const I (&a)[Quads]) {
    I words = pairs_of(w[0], a[0]);
    NIBBLE_UNROLL
    for (int i = 1; i < Quads; ++i) words = add_pairs(words, w[i], a[i]);
    return add_word_sums(acc, words, word_ones());
  }
  static I finish(I acc, I) { return acc; }
};

struct SignedDot {
  static constexpr int quads = 1, rows = 1;
  static I begin(I start) { return start; }
  static I add(I acc, const I (&w)[1], const I (&a)[1]) {
    return add_word_sums(acc, pairs_of(abs_bytes(w[0]), with_signs_of(a[0], w[0])), word_ones());
  }
  static I finish(I acc, I) { return acc; }
};

template <int Bits, bool Codebook>
struct DotOf {
  using Type = WordDot;
};
template <>
struct DotOf<5, false> {
  using Type = FoldedDot<4>;
};
template <>
struct DotOf<6, false> {
  using Type = FoldedDot<2>;
};
template <>
struct DotOf<8, false> {
  using Type = SignedDot;
};
template <>
struct DotOf<4, true> {
  using Type = SignedDot;
};
