// SPDX-License-Identifier: MIT
// Outputs with guards: a matrix inside a larger buffer, its rows apart. Every element starts as a NaN with
// a pattern of its own, so that neither a missing write nor one beyond the matrix goes unseen.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"

namespace nibble::test {

using Cpu = ExecutionContext<cpu::Backend>;

inline constexpr std::uint32_t poison = 0x7FC5A5A5u;

class Guarded {
 public:
  Guarded(Index rows, Index cols, Index gap = 19)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        storage_(static_cast<std::size_t>(rows * stride_ + 2 * margin), std::bit_cast<float>(poison)) {}

  MatrixView<float> view() { return {storage_.data() + margin, {rows_, cols_}, {stride_, 1}}; }
  float operator()(Index r, Index c) const {
    return storage_[static_cast<std::size_t>(margin + r * stride_ + c)];
  }
  float& operator()(Index r, Index c) { return storage_[static_cast<std::size_t>(margin + r * stride_ + c)]; }

  /// Whether nothing outside the matrix was written and everything inside was.
  bool intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const Index at = static_cast<Index>(i) - margin;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      if ((std::bit_cast<std::uint32_t>(storage_[i]) == poison) == inside) return false;
    }
    return true;
  }

 private:
  static constexpr Index margin = 64;
  Index rows_, cols_, stride_;
  std::vector<float> storage_;
};

inline std::vector<float> normal_values(Index n, std::uint32_t seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = normal(random);
  return v;
}

inline Matrix<float> normal_matrix(Index rows, Index cols, std::uint32_t seed, float deviation = 1.0f) {
  Matrix<float> m({rows, cols});
  const std::vector<float> v = normal_values(rows * cols, seed, deviation);
  std::copy(v.begin(), v.end(), m.data());
  return m;
}

/// A context that promises the same bits for any batch, as most tests compare.
inline ContextOptions on(cpu::Isa isa, Index threads = 1, Numerics numerics = Numerics::fast) {
  ContextOptions o;
  o.isa = isa;
  o.threads = threads;
  o.numerics = numerics;
  o.batch_invariant = true;
  return o;
}

/// Whether two matrices hold the same bits.
template <class A, class B>
bool same_bits(const A& a, const B& b, Index rows, Index cols) {
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c)
      if (std::bit_cast<std::uint32_t>(float(a(r, c))) != std::bit_cast<std::uint32_t>(float(b(r, c))))
        return false;
  return true;
}

}  // namespace nibble::test
