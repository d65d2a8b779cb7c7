// SPDX-License-Identifier: MIT
// Masks that give spans hide exactly what they call invisible, on tiles anywhere, for windows of any width.
#include "nibble/ops/attention/mask.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace nibble;

namespace {

template <class M>
void check(const M& mask) {
  static_assert(SpanMask<M>);
  constexpr Index keys = 64, stride = 70;
  const std::array<Index, 4> queries{0, 63, 64, 200};
  for (const Index begin : {0, 64, 192, 256}) {
    std::vector<float> scores(queries.size() * stride, 1.0f);
    const ScoreTile tile{scores.data(), stride, queries, begin, keys, 0};
    const NoHook hook;
    ScoreRules(mask, hook).apply(tile, TileClass::edge);
    for (std::size_t q = 0; q < queries.size(); ++q)
      for (Index k = 0; k < stride; ++k) {
        INFO("query " << queries[q] << ", key " << begin + k);
        const bool hidden = std::isinf(scores[q * stride + static_cast<std::size_t>(k)]);
        REQUIRE(hidden == (k < keys && !mask.visible(queries[q], begin + k)));
      }
  }
}

}  // namespace

TEST_CASE("spans agree with what masks call visible", "[attention]") {
  check(CausalMask{});
  for (const Index window : {Index{1}, Index{50}, Index{64}, Index{65}, Index{1000}, std::numeric_limits<Index>::max()}) {
    INFO("window " << window);
    check(SlidingWindow{window});
    check(CausalMask{} & SlidingWindow{window});
  }
}
