// SPDX-License-Identifier: MIT
// The window convention: a query sees exactly the last min(position + 1, window) keys, itself included,
// however tokens are fed and on both sides of a page's end. Values are one-hot and scores uniform, so that
// each output is 1/keys on the positions seen and zero elsewhere.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "nibble/cache/sequence_state.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/layers/attention.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

using Context = ExecutionContext<cpu::Backend>;

/// What each of `tokens` queries gets, [tokens, 32], fed in pieces of `chunk`; position p has the value e(p %
/// 32).
Matrix<float> seen(Context& ctx, Index tokens, Index window, Index chunk) {
  const Index value_dim = 32;  // no window here is longer, so no two positions seen together share a value
  Matrix<float> out({tokens, value_dim});
  const LayerState layer{{DType::f32, 1, 16, value_dim}, window};
  SequenceState state({&layer, 1}, tokens);
  for (Index at = 0; at < tokens; at += chunk) {
    const Index n = std::min(chunk, tokens - at);
    Tensor<float, 3> q({n, 1, 16}), k({n, 1, 16}), v({n, 1, value_dim}), y({n, 1, value_dim});
    std::vector<Index> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), at);
    for (Index t = 0; t < n; ++t) v(t, 0, (at + t) % value_dim) = 1.0f;
    state.reserve(n);
    const KvView kv = state.view(0, n);
    const VectorView<const Index> p(positions);
    run(ctx, AppendKv{}, k.view(), v.view(), p, kv);
    attend(ctx, 1.0f, CausalMask{} & SlidingWindow{window}, NoHook{}, q.view(), p, kv, y.view());
    state.advance(n);
    for (Index t = 0; t < n; ++t)
      for (Index d = 0; d < value_dim; ++d) out(at + t, d) = y(t, 0, d);
  }
  return out;
}

}  // namespace

TEST_CASE("a window of 4 at position 9 sees 6, 7, 8 and 9") {
  Context ctx({.threads = 2, .numerics = Numerics::exact});
  const Matrix<float> w = seen(ctx, 10, 4, 10);
  for (Index k = 0; k < 10; ++k) CHECK(w(9, k) == (k >= 6 ? 0.25f : 0.0f));
}

TEST_CASE("a query sees min(position + 1, window) keys in prefill, decode and chunks, across pages") {
  Context ctx({.threads = 2, .numerics = Numerics::exact});
  const Index tokens = 2 * kv_page_tokens + 40;
  for (const Index window : {Index{1}, Index{4}, Index{31}}) {
    const Matrix<float> whole = seen(ctx, tokens, window, tokens);
    for (Index t = 0; t < tokens; ++t) {
      const Index keys = std::min(t + 1, window);
      std::vector<float> want(32, 0.0f);
      for (Index k = t - keys + 1; k <= t; ++k) want[static_cast<std::size_t>(k % 32)] = 1.0f / float(keys);
      bool right = true;
      for (Index d = 0; d < 32; ++d)
        right = right && std::abs(whole(t, d) - want[static_cast<std::size_t>(d)]) <= 4e-7f &&
                (want[static_cast<std::size_t>(d)] != 0.0f || whole(t, d) == 0.0f);
      INFO("window " << window << ", position " << t);
      CHECK(right);
    }
    for (const Index chunk : {Index{1}, Index{13}, kv_page_tokens}) {
      const Matrix<float> fed = seen(ctx, tokens, window, chunk);
      INFO("window " << window << ", fed " << chunk << " at a time");
      CHECK(std::equal(fed.data(), fed.data() + fed.size(), whole.data()));
    }
  }
}
