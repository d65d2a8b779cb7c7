// SPDX-License-Identifier: MIT
// sdot: 4 lanes of acc += sum of four s8 x s8 products. A quarter of a panel's line, 4 rows x 4 columns, is one
// operand; four activations in every lane are the other. Included inside the instruction set's namespace, after
// codes.hpp.
#pragma once

/// Codes of up to 6 bits are signed bytes as they are; those of 8 bits and codebooks are made so.
constexpr bool signed_bytes = true;

struct SignedQuadDot {
  static constexpr int quads = 1, rows = 1;
  static I begin(I start) { return start; }
  static I add(I acc, const I (&w)[1], const I (&a)[1]) {
    return vdotq_s32(acc, signed_bytes_of(w[0]), signed_bytes_of(a[0]));
  }
  static I finish(I acc, I) { return acc; }
};

template <int Bits, bool Codebook>
struct DotOf {
  using Type = SignedQuadDot;
};
