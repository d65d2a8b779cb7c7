// SPDX-License-Identifier: MIT
// Integer dot products with an instruction that multiplies and sums four bytes into int32 (`dpbusd` of the
// including unit). Included inside an instruction set's namespace, after codes.hpp.
#pragma once

struct QuadDot {
  static constexpr int quads = 1, rows = 1;
  static I begin(I start) { return start; }
  static I add(I acc, const I (&w)[1], const I (&a)[1]) { return dpbusd(acc, w[0], a[0]); }
  static I finish(I acc, I) { return acc; }
};

template <int Bits, bool Codebook>
struct DotOf {
  using Type = QuadDot;
};
