// SPDX-License-Identifier: MIT
// The refined fast mode: activations as two INT8 terms. Against the exact product its error is bounded by the
// second term's rounding; bits do not depend on batch or threads; epilogues and other modes are unchanged.
#include <algorithm>
#include <cmath>
#include <vector>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/ops/linear.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/tolerance.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using Packed = PackedMatrix<cpu::Backend>;

namespace {

constexpr Index rows = 75, cols = 512, tokens = 21;  // more than the refined path takes at once

struct Case {
  QuantizedTensor source;
  Matrix<float> x, exact, bound;  ///< bound of |refined - exact|

  explicit Case(const char* format)
      : source(random_blocks(*find_format(format), rows, cols, 3)),
        x(normal_matrix(tokens, cols, 5)),
        exact({tokens, rows}),
        bound({tokens, rows}) {
    const Matrix<float> w = decoded(source.view());
    for (Index t = 0; t < tokens; ++t) {
      std::vector<double> rest(cols);  // largest error of an activation: max|x| of its 32 / 127 / 2 / 127 / 2
      for (Index g = 0; g < cols; g += 32) {
        double max = 0;
        for (Index k = g; k < g + 32; ++k) max = std::max(max, std::abs(double(x(t, k))));
        std::fill_n(rest.begin() + g, 32, max / (127.0 * 127.0 * 4.0));
      }
      for (Index o = 0; o < rows; ++o) {
        double sum = 0, error = 0, abs = 0;
        for (Index k = 0; k < cols; ++k) {
          sum += double(x(t, k)) * double(w(o, k));
          error += rest[static_cast<std::size_t>(k)] * std::abs(double(w(o, k)));
          abs += std::abs(double(x(t, k))) * std::abs(double(w(o, k)));
        }
        exact(t, o) = float(sum);
        // Minima and zero points may be several times the weights: 8 sum|x w| stands for them in the
        // rounding.
        bound(t, o) = float(1.01 * error + scaled_dot_bound(double(cols) / 8, 8 * abs));
      }
    }
  }
  Index misses_of(const Matrix<float>& y) const {
    Index wrong = 0;
    for (Index t = 0; t < tokens; ++t)
      for (Index o = 0; o < rows; ++o)
        wrong += misses(double(y(t, o)), double(exact(t, o)), double(bound(t, o)));
    return wrong;
  }
};

}  // namespace

TEST_CASE("refined activations are as exact as their second term", "[linear]") {
  for (const char* format : {"q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q6_k", "iq4_nl"}) {
    const Case c(format);
    for (const cpu::Isa isa : cpu::available_isas()) {
      INFO(format << " on " << cpu::to_string(isa));
      ExecutionContext<cpu::Backend> context({.threads = 2, .isa = isa, .numerics = Numerics::fast});
      const Packed packed = Packed::pack(context, c.source.view());
      Matrix<float> plain({tokens, rows}), refined({tokens, rows});
      run(context, Linear{}, c.x.view(), packed, plain.view());
      run(context, Linear{epilogue::None{}, true}, c.x.view(), packed, refined.view());
      CHECK(c.misses_of(refined) == 0);
      CHECK(c.misses_of(plain) > 0);  // the bound tells the two apart
    }
  }
}

TEST_CASE("refined results have the same bits for any threads and any batch", "[linear][determinism]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const Case c("q4_1");
    Matrix<float> first;
    for (const Index threads : {1, 3}) {
      for (const Index batch : {1, 2, 5, 8, 9, 21}) {
        ExecutionContext<cpu::Backend> context({.threads = threads, .isa = isa, .numerics = Numerics::fast});
        const Packed packed = Packed::pack(context, c.source.view());
        Matrix<float> y({tokens, rows});
        for (Index t = 0; t < tokens; t += batch) {
          const Index n = std::min(batch, tokens - t);
          run(context, Linear{epilogue::None{}, true}, c.x.view().slice(0, t, n), packed,
              y.view().slice(0, t, n));
        }
        INFO(cpu::to_string(isa) << ", " << threads << " threads, " << batch << " rows at a time");
        if (first.size() == 0) first = std::move(y);
        else CHECK(std::equal(first.data(), first.data() + first.size(), y.data()));
      }
    }
  }
}

TEST_CASE("refined layers take epilogues; exact numerics and dense weights need no second term", "[linear]") {
  const Case c("q8_0");
  ExecutionContext<cpu::Backend> context({.threads = 2, .numerics = Numerics::fast});
  const Packed packed = Packed::pack(context, c.source.view());
  const std::vector<float> bias = normal_values(rows, 7);
  Matrix<float> plain({tokens, rows}), biased({tokens, rows}), added({tokens, rows});
  std::fill_n(added.data(), added.size(), 2.5f);
  run(context, Linear{epilogue::None{}, true}, c.x.view(), packed, plain.view());
  run(context, Linear{epilogue::Bias{bias}, true}, c.x.view(), packed, biased.view());
  run(context, Linear{epilogue::Add{}, true}, c.x.view(), packed, added.view());
  for (Index t = 0; t < tokens; ++t)
    for (Index o = 0; o < rows; ++o) {
      REQUIRE(biased(t, o) == plain(t, o) + bias[static_cast<std::size_t>(o)]);
      REQUIRE(added(t, o) == plain(t, o) + 2.5f);
    }

  context.set_numerics(Numerics::exact);
  Matrix<float> exact({tokens, rows}), exact_refined({tokens, rows});
  run(context, Linear{}, c.x.view(), packed, exact.view());
  run(context, Linear{epilogue::None{}, true}, c.x.view(), packed, exact_refined.view());
  CHECK(std::equal(exact.data(), exact.data() + exact.size(), exact_refined.data()));

  context.set_numerics(Numerics::fast);
  Matrix<float> few({tokens, rows - 1});
  CHECK_THROWS_AS(run(context, Linear{epilogue::None{}, true}, c.x.view(), packed, few.view()), Error);
}
