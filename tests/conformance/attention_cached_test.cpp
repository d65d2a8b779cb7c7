// SPDX-License-Identifier: MIT
// CachedAttention equals head norms, rotation, append and attention after each other, bit by bit: results and
// caches, for several sequences at once, one new token or many, short and long caches, any threads and any
// order of tasks; it is one parallel region.
#include <numeric>

#include "nibble/ops/attention/attention.hpp"
#include "support/catch.hpp"
#include "support/counting_executor.hpp"
#include "support/guarded.hpp"
#include "support/kv_pages.hpp"

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

/// New tokens of one sequence behind `past` cached ones.
struct Part {
  Index past, count;
};

struct Case {
  KvShape shape;
  Index group;
  std::vector<Part> parts;
  bool norms = false;
  Index window = 0;
};

struct Result {
  Tokens out;
  std::vector<std::byte> caches;
};

class Setup {
 public:
  explicit Setup(const Case& c) : case_(c) {
    const KvShape& s = c.shape;
    Index tokens = 0;
    for (const Part& p : c.parts) {
      for (Index t = 0; t < p.count; ++t) positions_.push_back(p.past + t);
      tokens += p.count;
    }
    q_ = normal_tokens(tokens, s.kv_heads * c.group, s.head_dim, 1);
    k_ = normal_tokens(tokens, s.kv_heads, s.head_dim, 2);
    v_ = normal_tokens(tokens, s.kv_heads, s.value_dim, 3);
    for (Index i = 0; i < s.head_dim / 2; ++i) frequencies_.push_back(std::pow(0.1f, float(i)));
    weights_ = normal_values(s.head_dim, 4);
  }

  template <class Attend>
  Result result(Cpu& context, const Attend& attend) {
    const KvShape& s = case_.shape;
    std::vector<KvPages> pages;
    std::vector<SequenceRows> sequences;
    Index first = 0;
    for (const Part& p : case_.parts) {
      pages.emplace_back(s, p.past + p.count);
      if (p.past > 0) {
        std::vector<Index> at(static_cast<std::size_t>(p.past));
        std::iota(at.begin(), at.end(), Index{0});
        run(context, AppendKv{}, normal_tokens(p.past, s.kv_heads, s.head_dim, 7).view(),
            normal_tokens(p.past, s.kv_heads, s.value_dim, 8).view(), at, pages.back().view(p.past));
      }
    }
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const Part& p = case_.parts[i];
      sequences.push_back({first, p.count, pages[i].view(p.past + p.count)});
      first += p.count;
    }
    Tokens q = q_.clone(), k = k_.clone(), out({q.extent(0), q.extent(1), s.value_dim});
    attend(*this, context, q, k, sequences, out);
    Result r{std::move(out), {}};
    for (const SequenceRows& rows : sequences) keep_cache(rows.kv, r.caches);
    return r;
  }

  FoldedNorm norm() const {
    return case_.norms ? FoldedNorm{FoldedNorm::Kind::rms, weights_, {}, 1e-6f} : FoldedNorm{};
  }
  Rope rope() const { return {Rope::Pairs::halves, frequencies_}; }

  static void fused(Setup& s, Cpu& context, Tokens& q, Tokens& k, std::span<const SequenceRows> rows, Tokens& out) {
    const auto with = [&](const auto& mask) {
      attend_cached(context, 0.3f, mask, NoHook{}, s.rope(), s.norm(), s.norm(), q.view(), k.view(), s.v_.view(),
                    s.positions_, rows, out.view());
    };
    if (s.case_.window > 0) with(CausalMask{} & SlidingWindow{s.case_.window});
    else with(CausalMask{});
  }
  static void singly(Setup& s, Cpu& context, Tokens& q, Tokens& k, std::span<const SequenceRows> rows, Tokens& out) {
    const FoldedNorm n = s.norm();
    if (n.present())
      for (Tokens* x : {&q, &k}) {
        const MatrixView<float> heads(x->data(), {x->extent(0) * x->extent(1), x->extent(2)});
        run(context, RmsNorm{n.eps}, heads, n.weight, heads);
      }
    run(context, s.rope(), s.positions_, q.view());
    run(context, s.rope(), s.positions_, k.view());
    for (const SequenceRows& r : rows) {
      const auto at = VectorView<const Index>(s.positions_).slice(0, r.first, r.count);
      run(context, AppendKv{}, k.view().slice(0, r.first, r.count), s.v_.view().slice(0, r.first, r.count), at, r.kv);
      const auto with = [&](const auto& mask) {
        attend(context, 0.3f, mask, NoHook{}, q.view().slice(0, r.first, r.count), at, r.kv,
               out.view().slice(0, r.first, r.count));
      };
      if (s.case_.window > 0) with(CausalMask{} & SlidingWindow{s.case_.window});
      else with(CausalMask{});
    }
  }

 private:
  static void keep_cache(const KvView& kv, std::vector<std::byte>& to) {
    const auto bytes = [&](Index dim) {
      return static_cast<std::size_t>(kv_page_bytes(kv.shape, dim));
    };
    for (const std::byte* p : kv.key_pages) to.insert(to.end(), p, p + bytes(kv.shape.head_dim));
    for (const std::byte* p : kv.value_pages) to.insert(to.end(), p, p + bytes(kv.shape.value_dim));
  }

  Case case_;
  std::vector<Index> positions_;
  Tokens q_{}, k_{}, v_{};
  std::vector<float> frequencies_, weights_;
};

bool same(const Result& a, const Result& b) {
  return std::memcmp(a.out.data(), b.out.data(), static_cast<std::size_t>(a.out.size()) * sizeof(float)) == 0 &&
         a.caches == b.caches;
}

std::vector<Case> cases() {
  const KvShape half{DType::f16, 3, 64, 64}, full{DType::f32, 2, 32, 48}, bytes{DType::i8, 2, 40, 64};
  return {{half, 3, {{0, 1}}},
          {half, 3, {{700, 1}}, true},
          {full, 4, {{0, 300}}},
          {half, 1, {{250, 40}}, true, 100},
          {full, 2, {{1000, 3}}, false, 300},
          {half, 3, {{0, 70}, {513, 1}, {255, 2}, {30, 5}}, true},
          {bytes, 3, {{0, 70}, {513, 1}, {250, 9}}, true},
          {half, 2, {{900, 1}, {10, 1}, {300, 1}}}};
}

}  // namespace

TEST_CASE("cached attention equals its ops one by one", "[attention][fused]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    std::size_t number = 0;
    for (const Case& c : cases()) {
      INFO(cpu::to_string(isa) << ", case " << number++);
      Setup setup(c);
      Cpu one(on(isa, 1));
      const Result expected = setup.result(one, Setup::singly);
      for (const Index threads : {1, 2, 5}) {
        ThreadPool pool(threads, threads);
        Cpu context{ExecutorRef(pool), on(isa)};
        CHECK(same(setup.result(context, Setup::fused), expected));
      }
      for (const bool shuffled : {false, true}) {
        OddExecutor odd{.shuffled = shuffled};
        Cpu context{ExecutorRef(odd), on(isa)};
        CHECK(same(setup.result(context, Setup::fused), expected));
      }
    }
  }
}

TEST_CASE("cached attention is one region, however many sequences and pages", "[attention][fused][regions]") {
  for (const Case& c : cases()) {
    Setup setup(c);
    CountingExecutor threads(3);
    Cpu context{ExecutorRef(threads), on(cpu::available_isas().back())};
    setup.result(context, [&](auto&&... args) {
      threads.regions = 0;
      Setup::fused(args...);
      CHECK(threads.regions == 1);
    });
  }
}

TEST_CASE("cached attention refuses what does not fit", "[attention][fused]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  KvPages pages({DType::f32, 2, 32, 32}, 10);
  Tokens q = normal_tokens(3, 4, 32, 1), k = normal_tokens(3, 2, 32, 2), v = normal_tokens(3, 2, 32, 3), out({3, 4, 32});
  const std::vector<Index> positions{0, 1, 2}, beyond{254, 255, 256};
  const std::vector<float> frequencies(17, 1.0f);
  const auto attend_rows = [&](SequenceRows rows, std::span<const Index> at, const Rope& rope = {},
                               const FoldedNorm& norm = {}) {
    attend_cached(context, 1.0f, CausalMask{}, NoHook{}, rope, norm, {}, q.view(), k.view(), v.view(), at, {&rows, 1},
                  out.view());
  };
  CHECK_NOTHROW(attend_rows({0, 3, pages.view(3)}, positions));
  CHECK_THROWS_AS(attend_rows({1, 3, pages.view(3)}, positions), Error);
  CHECK_THROWS_AS(attend_rows({-1, 3, pages.view(3)}, positions), Error);
  CHECK_THROWS_AS(attend_rows({0, 3, pages.view(10)}, beyond), Error);  // position 256 has no page
  CHECK_THROWS_AS(attend_rows({0, 3, pages.view(3)}, positions, {Rope::Pairs::halves, frequencies}), Error);
  CHECK_THROWS_AS(attend_rows({0, 3, pages.view(3)}, positions, {}, {FoldedNorm::Kind::rms, frequencies, {}, 1e-5f}),
                  Error);
  KvPages other({DType::f32, 2, 16, 32}, 10);
  CHECK_THROWS_AS(attend_rows({0, 3, other.view(3)}, positions), Error);
}
