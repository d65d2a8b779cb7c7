// SPDX-License-Identifier: MIT
// Attention on BF16 tiles: within a weight's rounding of the double reference, on operands that are BF16 numbers
// already; the same bits for any threads and any cut into pieces that take this path; masks, hooks and pages.
#include <cstring>
#include <numeric>

#include "nibble/core/float_types.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "support/kv_pages.hpp"
#include "support/tiles.hpp"
#include "support/tolerance.hpp"

using namespace nibble;
using namespace nibble::test;

namespace {

using Tokens = Tensor<float, 3>;
constexpr float scale = 0.25f;  // keeps a query a BF16 number

/// BF16 numbers that FP16 holds too.
Tokens rounded_tokens(Index tokens, Index heads, Index dim, std::uint32_t seed) {
  Tokens t({tokens, heads, dim});
  const std::vector<float> v = normal_values(t.size(), seed);
  for (Index i = 0; i < t.size(); ++i) {
    const float x = float(bfloat16(v[static_cast<std::size_t>(i)]));
    t.data()[i] = std::abs(x) < 0x1p-14f ? 0.0f : x;
  }
  return t;
}

std::vector<Index> positions_from(Index first, Index count) {
  std::vector<Index> p(static_cast<std::size_t>(count));
  std::iota(p.begin(), p.end(), first);
  return p;
}

struct Sequence {
  KvShape shape;
  Index tokens, group;
  KvPages pages;
  Tokens q, k, v;

  Sequence(Cpu& context, const KvShape& s, Index n, Index g)
      : shape(s),
        tokens(n),
        group(g),
        pages(s, n),
        q(rounded_tokens(n, s.kv_heads * g, s.head_dim, 1)),
        k(rounded_tokens(n, s.kv_heads, s.head_dim, 2)),
        v(rounded_tokens(n, s.kv_heads, s.value_dim, 3)) {
    run(context, AppendKv{}, k.view(), v.view(), positions_from(0, n), pages.view(n));
  }
  Tokens out() const { return Tokens({tokens, shape.kv_heads * group, shape.value_dim}); }
};

template <class M, class H>
void check(const KvShape& shape, Index tokens, Index group, const M& mask, const H& hook) {
  Cpu context(with_tiles(1));
  Sequence s(context, shape, tokens, group);
  const auto attend_range = [&](Cpu& c, Index first, Index count, Tokens& out) {
    attend(c, scale, mask, hook, s.q.view().slice(0, first, count), positions_from(first, count),
           s.pages.view(tokens), out.view().slice(0, first, count));
  };
  Tokens all = s.out(), expected = s.out();
  attend_range(context, 0, tokens, all);
  Attention::reference({scale, ScoreRules(mask, hook)}, s.q.view(), positions_from(0, tokens), s.pages.view(tokens),
                       expected.view());
  const double dim = double(shape.head_dim);  // |score| <= scale |q||k|, about scale * dim for normal values; |v| <= 5
  const double bound = rounded_attention_bound(dim, double(scale) * dim, double(tokens), 5.0);
  Index wrong = 0;
  double worst = 0;
  for (Index i = 0; i < all.size(); ++i) {
    const double got = double(all.data()[i]), due = double(expected.data()[i]);
    wrong += misses(got, due, bound);
    worst = std::max(worst, std::abs(got - due));
  }
  CHECK(wrong == 0);
  CHECK(worst > 1e-5);  // FP32 would be closer: the tiles were used
  struct Way { Index threads, chunk; };
  for (const Way w : {Way{1, 40}, {2, tokens}, {3, 100}, {16, 50}, {16, tokens}}) {
    if (tokens % w.chunk != 0 && tokens % w.chunk * group < 32) continue;  // the last piece would take another path
    Cpu many(with_tiles(w.threads));
    Tokens out = s.out();
    for (Index t = 0; t < tokens; t += w.chunk) attend_range(many, t, std::min(w.chunk, tokens - t), out);
    INFO(w.threads << " threads, chunks of " << w.chunk);
    REQUIRE(std::memcmp(out.data(), all.data(), out.bytes()) == 0);
  }
}

/// Only even keys: a user's mask.
struct EvenKeys {
  TileClass classify(const ScoreTile&) const noexcept { return TileClass::edge; }
  bool visible(Index, Index key) const noexcept { return key % 2 == 0; }
};

}  // namespace

TEST_CASE("attention on BF16 tiles agrees with its reference and does not depend on how it is cut",
          "[attention][amx]") {
  if (!has_tiles()) return;
  SECTION("heads of 64") { check({DType::f16, 3, 64, 64}, 600, 3, CausalMask{}, NoHook{}); }
  SECTION("one head of 128, few tokens") { check({DType::f16, 1, 128, 128}, 45, 1, CausalMask{}, NoHook{}); }
  SECTION("values narrower than keys") { check({DType::f16, 2, 96, 32}, 290, 8, CausalMask{}, NoHook{}); }
  SECTION("INT8 cache") { check({DType::i8, 3, 64, 96}, 600, 3, CausalMask{}, NoHook{}); }
  SECTION("window over an INT8 cache") { check({DType::i8, 2, 64, 64}, 530, 2, CausalMask{} & SlidingWindow{50}, NoHook{}); }
  SECTION("window") { check({DType::f16, 2, 64, 64}, 530, 2, CausalMask{} & SlidingWindow{50}, NoHook{}); }
  SECTION("soft cap") { check({DType::f16, 1, 256, 256}, 80, 4, CausalMask{}, SoftCap{2.0f}); }
  SECTION("no mask") { check({DType::f16, 2, 32, 32}, 300, 2, NoMask{}, NoHook{}); }
  SECTION("a user's mask") { check({DType::f16, 1, 64, 64}, 100, 3, EvenKeys{}, NoHook{}); }
}

TEST_CASE("other shapes, caches and few queries stay in FP32", "[attention][amx]") {
  if (!has_tiles()) return;
  struct Case { KvShape shape; Index tokens; };
  for (const Case& c : {Case{{DType::f32, 1, 64, 64}, 100}, {{DType::f16, 1, 40, 64}, 100}, {{DType::f16, 1, 64, 80}, 100},
                        {{DType::f16, 1, 64, 64}, 8}}) {
    ContextOptions options = with_tiles(1);
    Cpu tiles(options);
    options.batch_invariant = true;
    Cpu invariant(options);
    Sequence s(tiles, c.shape, c.tokens, 4);
    Tokens a = s.out(), b = s.out();
    attend(tiles, scale, CausalMask{}, NoHook{}, s.q.view(), positions_from(0, c.tokens), s.pages.view(c.tokens),
           a.view());
    attend(invariant, scale, CausalMask{}, NoHook{}, s.q.view(), positions_from(0, c.tokens), s.pages.view(c.tokens),
           b.view());
    CHECK(std::memcmp(a.data(), b.data(), a.bytes()) == 0);
  }
}

TEST_CASE("softmax into BF16 tiles agrees with its double reference for every length", "[attention][amx]") {
  if (!has_tiles()) return;
  const cpu::KernelTable& k = cpu::kernels_of(cpu::available_isas().back());
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  constexpr Index rows = 18, stride = 256, chunks_most = 8;
  std::vector<float> scores = normal_values(rows * stride, 3), scales = normal_values(stride, 4);
  for (float& v : scores) v *= 8;
  for (Index i = 0; i < stride; ++i) {
    scores[static_cast<std::size_t>(3 * stride + i)] = -inf;                       // sees nothing
    if (i % 3 != 0) scores[static_cast<std::size_t>(4 * stride + i)] = -inf;       // sees a third
    scores[static_cast<std::size_t>(5 * stride + i)] += i == 0 ? 1000.0f : -88.0f;  // others vanish
  }
  scores[6 * stride] = nan;
  scores[7 * stride] = inf;
  for (Index keys : {1, 15, 16, 17, 31, 32, 33, 64, 100, 255, 256}) {
    for (const bool scaled : {false, true}) {
      INFO(keys << " keys, scaled " << scaled);
      const Index chunks = (keys + 31) / 32;
      std::vector<std::uint16_t> tiles(static_cast<std::size_t>(2 * 16 * chunks_most * 32), 0x7FFF);
      std::vector<float> max(rows), sum(rows);
      k.softmax_rounded({scores.data(), stride, rows, keys, max.data(), sum.data()}, scaled ? scales.data() : nullptr,
                        {tiles.data(), chunks});
      for (Index r = 0; r < rows; ++r) {
        const float* x = scores.data() + r * stride;
        const auto weight = [&](Index i) {
          return float(std::bit_cast<bfloat16>(
              tiles[static_cast<std::size_t>((r / 16 * chunks + i / 32) * 512 + r % 16 * 32 + i % 32)]));
        };
        const auto at = static_cast<std::size_t>(r);
        for (Index i = keys; i < chunks * 32; ++i) REQUIRE(weight(i) == 0.0f);
        if (r == 6 || r == 7) {
          REQUIRE(std::isnan(sum[at]));
          REQUIRE(std::isnan(weight(0)));
          continue;
        }
        const float top = *std::max_element(x, x + keys);
        REQUIRE(max[at] == top);
        double due = 0;
        for (Index i = 0; i < keys; ++i) {
          const double e = top == -inf ? 0.0 : std::exp(double(x[i]) - double(top));
          due += e;
          const double w = scaled ? e * double(scales[static_cast<std::size_t>(i)]) : e;
          // Half a unit of 8 bits; the polynomial's 3e-6 and two roundings of an exponent of up to 130, together 2e-5;
          // what is flushed.
          const double room = std::abs(w) * (1.0 / 256 + 3e-5) + 0x1p-120;
          REQUIRE(std::abs(double(weight(i)) - w) <= room);
        }
        REQUIRE(std::abs(double(sum[at]) - due) <= due * 4e-5);
      }
    }
  }
}
