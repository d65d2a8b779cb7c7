// SPDX-License-Identifier: MIT
// Attention on every instruction set: agreement with the double reference over shapes, types and masks;
// the same bits in prefill, chunks and decode and for any number of threads; window convention; fully
// masked rows; nothing read beyond the valid tokens; pages outside every window are never touched.
#include <numeric>

#include "nibble/ops/attention/attention.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/kv_pages.hpp"
#include "support/tolerance.hpp"

using namespace nibble;
using namespace nibble::test;

namespace {

using Tokens = Tensor<float, 3>;

Tokens normal_tokens(Index tokens, Index heads, Index dim, std::uint32_t seed) {
  Tokens t({tokens, heads, dim});
  const std::vector<float> v = normal_values(t.size(), seed);
  std::copy(v.begin(), v.end(), t.data());
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

  Sequence(Cpu& context, const KvShape& s, Index n, Index g, std::uint32_t seed = 1)
      : shape(s),
        tokens(n),
        group(g),
        pages(s, n),
        q(normal_tokens(n, s.kv_heads * g, s.head_dim, seed)),
        k(normal_tokens(n, s.kv_heads, s.head_dim, seed + 1)),
        v(normal_tokens(n, s.kv_heads, s.value_dim, seed + 2)) {
    run(context, AppendKv{}, k.view(), v.view(), positions_from(0, n), pages.view(n));
  }
  Tokens out() const { return Tokens({tokens, shape.kv_heads * group, shape.value_dim}); }
};

template <class M, class H>
void attend_range(Cpu& context, Sequence& s, const M& mask, const H& hook, Index first, Index count,
                  Tokens& out) {
  attend(context, 0.3f, mask, hook, s.q.view().slice(0, first, count), positions_from(first, count),
         s.pages.view(first + count), out.view().slice(0, first, count));
}

/// Outputs outside the bound around the reference.
template <class M, class H>
Index misses_reference(Sequence& s, const M& mask, const H& hook, const Tokens& got) {
  Tokens expected = s.out();
  const Attention op{0.3f, ScoreRules(mask, hook)};
  Attention::reference(op, s.q.view(), positions_from(0, s.tokens), s.pages.view(s.tokens), expected.view());
  Index wrong = 0;
  for (Index i = 0; i < expected.size(); ++i)
    // |score| <= 0.3 * |q||k|, about 0.3 * dim for normal values; |v| <= 5
    wrong += misses(
        double(got.data()[i]), double(expected.data()[i]),
        attention_bound(double(s.shape.head_dim), 0.3 * double(s.shape.head_dim), double(s.tokens), 5.0));
  return wrong;
}

template <class M, class H>
void check_all_ways(cpu::Isa isa, const KvShape& shape, Index tokens, Index group, const M& mask,
                    const H& hook) {
  Cpu context(on(isa, 1));
  Sequence s(context, shape, tokens, group);
  Tokens prefill = s.out();
  attend_range(context, s, mask, hook, 0, tokens, prefill);
  CHECK(misses_reference(s, mask, hook, prefill) == 0);
  struct Way { Index threads, chunk; };
  for (const Way w : {Way{1, 1}, {1, 7}, {2, 1}, {2, 100}, {3, 7}, {16, 100}, {16, tokens}}) {
    Cpu many(on(isa, w.threads));
    Tokens out = s.out();
    for (Index t = 0; t < tokens; t += w.chunk)
      attend_range(many, s, mask, hook, t, std::min(w.chunk, tokens - t), out);
    INFO(w.threads << " threads, chunks of " << w.chunk);
    REQUIRE(std::memcmp(out.data(), prefill.data(), out.bytes()) == 0);
  }
}

/// Only even keys, and nothing for queries 3 and up: a user's mask.
struct EvenKeys {
  TileClass classify(const ScoreTile&) const noexcept { return TileClass::edge; }
  bool visible(Index query, Index key) const noexcept { return query < 3 && key % 2 == 0; }
};
/// A position bias that depends on the head.
struct HeadSlope {
  void apply(const ScoreTile& t) const noexcept {
    for (std::size_t q = 0; q < t.query_positions.size(); ++q)
      for (Index k = 0; k < t.keys; ++k)
        t.scores[static_cast<Index>(q) * t.stride + k] -=
            0.01f * float(t.head + 1) * float(t.query_positions[q] - t.key_begin - k);
  }
};

}  // namespace

TEST_CASE("attention agrees with its reference and does not depend on how it is cut",
          "[attention][determinism]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const DType type : {DType::f32, DType::f16, DType::i8}) {
      DYNAMIC_SECTION(cpu::to_string(isa) << " " << to_string(type)) {
        const Index long_run = isa == cpu::Isa::scalar ? 270 : 600;
        check_all_ways(isa, {type, 1, 64, 64}, 40, 1, CausalMask{}, NoHook{});
        check_all_ways(isa, {type, 3, 64, 64}, long_run, 3, CausalMask{}, NoHook{});
        check_all_ways(isa, {type, 1, 24, 40}, 300, 8, CausalMask{}, HeadSlope{});
        check_all_ways(isa, {type, 2, 17, 5}, 290, 2, CausalMask{} & SlidingWindow{50}, NoHook{});
        check_all_ways(isa, {type, 2, 16, 16}, 70, 1, CausalMask{}, SoftCap{2.0f});
      }
    }
  }
}

TEST_CASE("attention without a mask sees every key", "[attention]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 2));
    Sequence s(context, {DType::f32, 2, 32, 32}, 300, 2);
    Tokens out = s.out();
    attend(context, 0.3f, NoMask{}, NoHook{}, s.q.view(), positions_from(0, 300), s.pages.view(300),
           out.view());
    CHECK(misses_reference(s, NoMask{}, NoHook{}, out) == 0);
  }
}

TEST_CASE("a window of 4 lets position 9 see 6, 7, 8 and 9", "[attention][mask]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const DType type : {DType::f32, DType::f16}) {
      Cpu context(on(isa, 2));
      const Index n = 10;
      KvPages pages({type, 1, 8, n}, n);
      Tokens q({n, 1, 8}), k({n, 1, 8}), v({n, 1, n});  // zero scores, one-hot values
      for (Index t = 0; t < n; ++t) v(t, 0, t) = 1.0f;
      run(context, AppendKv{}, k.view(), v.view(), positions_from(0, n), pages.view(n));
      for (const Index chunk : {n, Index{1}, Index{3}}) {
        Tokens out({n, 1, n});
        for (Index t = 0; t < n; t += chunk) {
          const Index count = std::min(chunk, n - t);
          attend(context, 1.0f, CausalMask{} & SlidingWindow{4}, NoHook{}, q.view().slice(0, t, count),
                 positions_from(t, count), pages.view(t + count), out.view().slice(0, t, count));
        }
        for (Index t = 0; t < n; ++t)
          for (Index key = 0; key < n; ++key) {
            const bool sees = key <= t && key > t - 4;
            REQUIRE(out(t, 0, key) == (sees ? 1.0f / float(std::min(t + 1, Index{4})) : 0.0f));
          }
      }
    }
  }
}

TEST_CASE("a query that sees no key gives zeros and leaves its neighbours alone", "[attention][mask]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 2));
    Sequence s(context, {DType::f32, 1, 16, 16}, 6, 2);
    Tokens out = s.out();
    attend(context, 0.3f, EvenKeys{}, NoHook{}, s.q.view(), positions_from(0, 6), s.pages.view(6),
           out.view());
    CHECK(misses_reference(s, EvenKeys{}, NoHook{}, out) == 0);
    for (Index t = 3; t < 6; ++t)
      for (Index h = 0; h < 2; ++h)
        for (Index d = 0; d < 16; ++d) REQUIRE(out(t, h, d) == 0.0f);
    for (Index t = 0; t < 3; ++t) REQUIRE(out(t, 0, 0) != 0.0f);

    Tokens alone({1, 2, 16});  // no key at all
    std::fill_n(alone.data(), alone.size(), 7.0f);
    attend(context, 0.3f, CausalMask{}, NoHook{}, s.q.view().slice(0, 0, 1), positions_from(0, 1),
           s.pages.view(0), alone.view());
    for (float x : alone.span()) REQUIRE(x == 0.0f);
  }
}

/// The first `hidden` keys are masked for everyone: whole first tiles, and a page, hold nothing.
struct SkipFirst {
  Index hidden;
  bool honest;  ///< says skip where it can; else calls every tile an edge
  TileClass classify(const ScoreTile& t) const noexcept {
    return honest && t.key_begin + t.keys <= hidden ? TileClass::skip : TileClass::edge;
  }
  bool visible(Index query, Index key) const noexcept { return key >= hidden && key <= query; }
};

TEST_CASE("masked first tiles and pages leave no trace", "[attention][mask]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 2));
    Sequence s(context, {DType::f16, 1, 32, 32}, 340, 1);
    for (const Index hidden : {1, 64, 100, 256, 300, 339}) {
      Tokens told = s.out(), masked = s.out();
      attend_range(context, s, SkipFirst{hidden, true}, NoHook{}, 0, 340, told);
      attend_range(context, s, SkipFirst{hidden, false}, NoHook{}, 0, 340, masked);
      INFO(cpu::to_string(isa) << ", " << hidden << " hidden");
      REQUIRE(misses_reference(s, SkipFirst{hidden, true}, NoHook{}, told) == 0);
      REQUIRE(std::memcmp(told.data(), masked.data(), told.bytes()) == 0);
    }
  }
}

TEST_CASE("pages outside every window need not exist", "[attention]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  Sequence s(context, {DType::f16, 2, 32, 32}, 800, 2);
  const auto mask = CausalMask{} & SlidingWindow{100};
  Tokens out = s.out(), again = s.out();
  attend_range(context, s, mask, NoHook{}, 0, 800, out);
  s.pages.drop_page(0);
  s.pages.drop_page(1);
  attend_range(context, s, mask, NoHook{}, 700, 100, again);
  CHECK(std::memcmp(&again(700, 0, 0), &out(700, 0, 0), 100 * 4 * 32 * sizeof(float)) == 0);
  CHECK_THROWS_WITH(attend_range(context, s, mask, NoHook{}, 400, 100, again), Catch::Contains("page 1"));
}

TEST_CASE("a NaN in a query or a key is not lost", "[attention]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 1));
    Sequence s(context, {DType::f32, 1, 16, 16}, 300, 1);
    Tokens out = s.out();
    s.q(5, 0, 3) = nan;
    s.q(0, 0, 0) = nan;  // its only score is NaN
    attend_range(context, s, CausalMask{}, NoHook{}, 0, 300, out);
    for (Index t = 0; t < 300; ++t) REQUIRE(std::isnan(out(t, 0, 0)) == (t == 5 || t == 0));
    s.q(5, 0, 3) = s.q(0, 0, 0) = 0.0f;
    s.k(270, 0, 1) = nan;
    run(context, AppendKv{}, s.k.view(), s.v.view(), positions_from(0, 300), s.pages.view(300));
    attend_range(context, s, CausalMask{}, NoHook{}, 0, 300, out);
    for (Index t = 0; t < 300; ++t) REQUIRE(std::isnan(out(t, 0, 0)) == (t >= 270));
  }
}

TEST_CASE("attention refuses what does not fit and names it", "[attention]") {
  Cpu context(on(cpu::available_isas().front(), 1));
  Sequence s(context, {DType::f32, 2, 16, 16}, 8, 1);
  Tokens q3({8, 3, 16}), out3({8, 3, 16}), out = s.out();
  const auto p = positions_from(0, 8);
  CHECK_THROWS_WITH(attend(context, 1.0f, CausalMask{}, NoHook{}, q3.view(), p, s.pages.view(8), out3.view()),
                    Catch::Contains("Attention") && Catch::Contains("[8, 3, 16]"));
  CHECK_THROWS_AS(attend(context, 1.0f, CausalMask{}, NoHook{}, s.q.view(), positions_from(0, 7),
                         s.pages.view(8), out.view()),
                  Error);
  CHECK_THROWS_AS(attend(context, 1.0f, CausalMask{}, NoHook{}, s.q.view(), p, s.pages.view(600), out.view()),
                  Error);
  const std::vector<Index> backwards{0, 1, 2, 3, 4, 6, 5, 7};
  CHECK_THROWS_WITH(
      attend(context, 1.0f, CausalMask{}, NoHook{}, s.q.view(), backwards, s.pages.view(8), out.view()),
      Catch::Contains("decrease"));
  CHECK_THROWS_WITH(run(context, AppendKv{}, s.k.view(), s.v.view(), positions_from(250, 8), s.pages.view(8)),
                    Catch::Contains("position 256"));
  CHECK_THROWS_AS(run(context, AppendKv{}, s.q.view(), s.v.view(), positions_from(0, 7), s.pages.view(8)),
                  Error);
}

TEST_CASE("appended keys and values are the reference's bits", "[attention][kv]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const DType type : {DType::f32, DType::f16}) {
      Cpu context(on(isa, 2));
      const KvShape shape{type, 2, 37, 19};
      KvPages mine(shape, 512), reference(shape, 512);
      Tokens k = normal_tokens(300, 2, 37, 1), v = normal_tokens(300, 2, 19, 2);
      const float special[] = {0.0f,  -0.0f,   65504.0f, 65519.9f, 65520.0f, 1e30f,
                               6e-8f, 2.9e-8f, 3e-8f,    -6.1e-5f, 1e-45f};
      std::copy(std::begin(special), std::end(special), k.data());
      run(context, AppendKv{}, k.view(), v.view(), positions_from(100, 300), mine.view(512));
      AppendKv::reference({}, k.view(), v.view(), positions_from(100, 300), reference.view(512));
      for (std::size_t p = 0; p < 2; ++p) {
        CHECK(std::memcmp(mine.view(512).key_pages[p], reference.view(512).key_pages[p],
                          std::size_t{2 * 256 * 37} * size_of(type)) == 0);
        CHECK(std::memcmp(mine.view(512).value_pages[p], reference.view(512).value_pages[p],
                          std::size_t{2 * 256 * 19} * size_of(type)) == 0);
      }
    }
  }
}
