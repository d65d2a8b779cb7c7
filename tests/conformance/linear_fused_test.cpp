// SPDX-License-Identifier: MIT
// Linear layers with norms, gates and epilogues folded in: the same bits as the single ops after each other,
// for mixed formats, both numerics, few and many rows and any number of threads; agreement with the scalar
// references; one parallel region each; arguments that do not fit are refused.
#include <limits>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/ops/linear.hpp"
#include "support/catch.hpp"
#include "support/counting_executor.hpp"
#include "support/guarded.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using B = cpu::Backend;
using Packed = PackedMatrix<B>;
using Then = epilogue::Normed::Then;

namespace {

constexpr Index cols = 512;

std::vector<float> near_one(Index n, std::uint32_t seed) {
  std::vector<float> v = normal_values(n, seed, 0.1f);
  for (float& x : v) x += 1;
  return v;
}

/// Parameters of both kinds of norm for rows of `n`.
struct Norms {
  std::vector<float> weight, bias;
  explicit Norms(Index n) : weight(near_one(n, 71)), bias(normal_values(n, 73)) {}
  FoldedNorm rms() const { return {FoldedNorm::Kind::rms, weight, {}, 1e-5f}; }
  FoldedNorm layer() const { return {FoldedNorm::Kind::layer, weight, bias, 1e-5f}; }
};

/// `norm` as an op of its own.
Matrix<float> normalized(Cpu& context, const FoldedNorm& norm, MatrixView<const float> x) {
  Matrix<float> y({x.rows(), x.cols()});
  if (norm.kind == FoldedNorm::Kind::rms) run(context, RmsNorm{norm.eps}, x, norm.weight, y.view());
  else if (norm.kind == FoldedNorm::Kind::layer) run(context, LayerNorm{norm.eps}, x, norm.weight, norm.bias, y.view());
  else
    for (Index r = 0; r < x.rows(); ++r) std::copy_n(x.row(r).data(), x.cols(), y.view().row(r).data());
  return y;
}

Packed packed(Cpu& context, const char* format, Index rows, Index k, std::uint32_t seed) {
  return Packed::pack(context, random_blocks(*find_format(format), rows, k, seed).view());
}

Matrix<float> copy_of(const Matrix<float>& m) { return m.clone(); }

const std::vector<Index> row_counts{1, 2, 5, 40, 203};  // a decode step to more than one block of rows

/// Calls body(context, rows) for instruction sets, numerics, threads and rows.
template <class Body>
void everywhere(Body&& body) {
  for (const cpu::Isa isa : cpu::available_isas())
    for (const Numerics numerics : {Numerics::fast, Numerics::exact})
      for (const Index threads : {1, 3}) {
        ContextOptions options = on(isa, threads, numerics);
        options.batch_invariant = threads == 1;
        Cpu context(options);
        for (const Index m : row_counts) {
          if (isa == cpu::Isa::scalar && m > 40) continue;
          INFO(cpu::to_string(isa) << (numerics == Numerics::fast ? " fast, " : " exact, ") << threads << " threads, "
                                   << m << " rows");
          body(context, m);
        }
      }
}

}  // namespace

TEST_CASE("a group of linear layers on a norm equals the norm and each layer", "[linear][fused]") {
  const Norms norms(cols);
  Cpu packer(on(cpu::available_isas().back(), 2));
  // As in Q4_K_M files: one scale per 32 columns beside one per 16, and a dense one.
  const Packed q = packed(packer, "q4_k", 165, cols, 1), k = packed(packer, "q6_k", 70, cols, 2),
               v = packed(packer, "f16", 33, cols, 3);
  const std::vector<float> bias = normal_values(70, 5);
  everywhere([&](Cpu& context, Index m) {
    const Matrix<float> x = normal_matrix(m, cols, 9);
    for (const FoldedNorm& norm : {FoldedNorm{}, norms.rms(), norms.layer()})
      for (const bool refined : {false, true}) {
        const Matrix<float> in = normalized(context, norm, x.view());
        Matrix<float> eq({m, 165}), ek({m, 70}), ev({m, 33});
        run(context, Linear{epilogue::None{}, refined}, in.view(), q, eq.view());
        run(context, Linear{epilogue::Bias{bias}, refined}, in.view(), k, ek.view());
        run(context, Linear{epilogue::None{}, refined}, in.view(), v, ev.view());
        Guarded gq(m, 165), gk(m, 70), gv(m, 33);
        const LinearOutput<B> outputs[] = {{&q, gq.view(), {}}, {&k, gk.view(), bias}, {&v, gv.view(), {}}};
        run(context, LinearGroup{refined, norm}, x.view(), std::span<const LinearOutput<B>>(outputs));
        CHECK((gq.intact() && gk.intact() && gv.intact()));
        CHECK(same_bits(gq, eq, m, 165));
        CHECK(same_bits(gk, ek, m, 70));
        CHECK(same_bits(gv, ev, m, 33));
        Guarded one(m, 165);
        run(context, Linear{epilogue::None{}, refined, norm}, x.view(), q, one.view());
        CHECK(one.intact());
        CHECK(same_bits(one, eq, m, 165));
      }
  });
}

TEST_CASE("a gated layer equals its two layers and the activation", "[linear][fused]") {
  struct Pair {
    const char *gate, *up;
  };
  const Norms norms(cols);
  Cpu packer(on(cpu::available_isas().back(), 2));
  const std::vector<float> gate_bias = normal_values(75, 11), up_bias = normal_values(75, 12);
  for (const Pair p : {Pair{"q4_1", "q4_1"}, {"q4_k", "q6_k"}, {"q8_0", "f32"}, {"f16", "q4_0"}}) {
    INFO(p.gate << " and " << p.up);
    const Packed gate = packed(packer, p.gate, 75, cols, 1), up = packed(packer, p.up, 75, cols, 2);
    everywhere([&](Cpu& context, Index m) {
      const Matrix<float> x = normal_matrix(m, cols, 9);
      const bool biased = m % 2 == 0, refined = m == 5;
      const Matrix<float> in = normalized(context, norms.rms(), x.view());
      Matrix<float> g({m, 75}), u({m, 75}), expected({m, 75});
      if (biased) {
        run(context, Linear{epilogue::Bias{gate_bias}, refined}, in.view(), gate, g.view());
        run(context, Linear{epilogue::Bias{up_bias}, refined}, in.view(), up, u.view());
      } else {
        run(context, Linear{epilogue::None{}, refined}, in.view(), gate, g.view());
        run(context, Linear{epilogue::None{}, refined}, in.view(), up, u.view());
      }
      GatedLinear op{Activation::silu, refined, norms.rms(), {}, {}};
      if (biased) op.gate_bias = gate_bias, op.up_bias = up_bias;
      for (const Activation a : {Activation::silu, Activation::gelu_tanh}) {
        op.activation = a;
        if (a == Activation::silu) run(context, SwiGlu{}, g.view(), u.view(), expected.view());
        else run(context, GeGlu{}, g.view(), u.view(), expected.view());
        Guarded y(m, 75);
        run(context, op, x.view(), gate, up, y.view());
        CHECK(y.intact());
        CHECK(same_bits(y, expected, m, 75));
      }
    });
  }
}

TEST_CASE("a feed-forward network equals its layers one by one", "[linear][fused]") {
  struct Formats {
    const char *gate, *down;
    Index inner;
  };
  const Norms norms(cols);
  Cpu packer(on(cpu::available_isas().back(), 2));
  const std::vector<float> bias = normal_values(cols, 13);
  // An inner width that is no multiple of 32 only fits formats without blocks: the last group is short.
  for (const Formats f : {Formats{"q4_k", "q6_k", 768}, {"q4_1", "q4_1", 96}, {"q8_0", "f16", 77}, {"f32", "q4_0", 64}}) {
    INFO(f.gate << ", " << f.down);
    const Packed gate = packed(packer, f.gate, f.inner, cols, 1), up = packed(packer, f.gate, f.inner, cols, 2),
                 down = packed(packer, f.down, cols, f.inner, 3);
    everywhere([&](Cpu& context, Index m) {
      const Matrix<float> x = normal_matrix(m, cols, 9);
      const GatedLinear inner{Activation::silu, false, norms.rms(), {}, {}};
      Matrix<float> between({m, f.inner});
      run(context, inner, x.view(), gate, up, between.view());
      for (const bool post : {false, true})
        for (const bool refined : {false, true}) {
          Matrix<float> branch({m, cols}), expected = copy_of(x), y = copy_of(x);
          run(context, Linear{epilogue::Bias{bias}, refined}, between.view(), down, branch.view());
          if (post) branch = normalized(context, norms.rms(), branch.view());
          run(context, Add{}, branch.view(), expected.view());
          run(context, FeedForward{inner, post ? norms.rms() : FoldedNorm{}, bias, refined}, y.view(), gate, up, down,
              y.view());
          CHECK(same_bits(y, expected, m, cols));
        }
    });
  }
  // A down projection that ends inside a group of 32, from weights without blocks.
  const Matrix<float> dense = normal_matrix(cols, 77, 21);
  const Packed down = Packed::pack(packer, random_groups(integer::symmetric(4, 32), cols, 77, 4).view());
  const Packed gate = packed(packer, "q4_0", 77, cols, 5), up = packed(packer, "q4_0", 77, cols, 6);
  everywhere([&](Cpu& context, Index m) {
    const Matrix<float> x = normal_matrix(m, cols, 9);
    Matrix<float> between({m, 77}), expected = copy_of(x), y = copy_of(x);
    run(context, GatedLinear{}, x.view(), gate, up, between.view());
    run(context, Linear{epilogue::Add{}}, between.view(), down, expected.view());
    run(context, FeedForward{}, x.view(), gate, up, down, y.view());
    CHECK(same_bits(y, expected, m, cols));
  });
}

TEST_CASE("a norm and GELU behind a layer, and sums with a bias", "[linear][fused]") {
  constexpr Index rows = 150;
  const Norms norms(rows);
  Cpu packer(on(cpu::available_isas().back(), 2));
  const std::vector<float> bias = normal_values(rows, 15);
  for (const char* format : {"q4_1", "q6_k", "f16"}) {
    const Packed w = packed(packer, format, rows, cols, 3);
    everywhere([&](Cpu& context, Index m) {
      const Matrix<float> x = normal_matrix(m, cols, 9), before = normal_matrix(m, rows, 17);
      Matrix<float> t({m, rows});
      run(context, Linear{epilogue::Bias{bias}}, x.view(), w, t.view());
      for (const FoldedNorm& norm : {FoldedNorm{}, norms.rms(), norms.layer()})
        for (const Then then : {Then::store, Then::gelu_erf, Then::gelu_tanh, Then::add}) {
          Matrix<float> expected = normalized(context, norm, t.view());
          if (then == Then::gelu_erf) run(context, Gelu{Gelu::Form::erf}, expected.view(), expected.view());
          if (then == Then::gelu_tanh) run(context, Gelu{Gelu::Form::tanh}, expected.view(), expected.view());
          if (then == Then::add) run(context, Add{}, before.view(), expected.view());
          Guarded y(m, rows);
          for (Index r = 0; then == Then::add && r < m; ++r)
            std::copy_n(before.view().row(r).data(), rows, y.view().row(r).data());
          run(context, Linear{epilogue::Normed{then, norm, bias}}, x.view(), w, y.view());
          INFO(format << ", then " << int(then) << ", norm " << int(norm.kind));
          CHECK(y.intact());
          CHECK(same_bits(y, expected, m, rows));
        }
      Matrix<float> expected = copy_of(before), y = copy_of(before);
      run(context, Add{}, t.view(), expected.view());
      run(context, Linear{epilogue::Add{bias}}, x.view(), w, y.view());
      CHECK(same_bits(y, expected, m, rows));
    });
  }
}

TEST_CASE("folded layers agree with their scalar references", "[linear][fused]") {
  constexpr Index rows = 20, k = 24, m = 3;
  const Norms in(k), out(rows);
  const Matrix<float> w = normal_matrix(rows, k, 1), u = normal_matrix(rows, k, 2), x = normal_matrix(m, k, 3);
  const std::vector<float> bias = normal_values(rows, 4);
  Cpu context(on(cpu::available_isas().back(), 2, Numerics::exact));
  const Packed pw = Packed::pack(context, w.view()), pu = Packed::pack(context, u.view());
  // Values of magnitude 1 to 10 through 24 products, a norm and an activation: 2^-24 times some dozens.
  const auto check = [&](const Matrix<float>& got, const Matrix<float>& expected) {
    for (Index i = 0; i < got.size(); ++i) CHECK(got.data()[i] == Approx(expected.data()[i]).margin(2e-5).epsilon(1e-5));
  };
  for (const FoldedNorm& norm : {FoldedNorm{}, in.rms(), in.layer()}) {
    Matrix<float> y({m, rows}), expected({m, rows});
    const GatedLinear gated{Activation::gelu_tanh, false, norm, bias, {}};
    run(context, gated, x.view(), pw, pu, y.view());
    GatedLinear::reference(gated, x.view(), w.view(), u.view(), expected.view());
    check(y, expected);
    for (const FoldedNorm& post : {FoldedNorm{}, out.rms(), out.layer()})
      for (const Then then : {Then::store, Then::gelu_erf, Then::gelu_tanh, Then::add}) {
        const Linear op{epilogue::Normed{then, post, bias}, false, norm};
        run(context, op, x.view(), pw, y.view());
        decltype(op)::reference(op, x.view(), w.view(), expected.view());
        check(y, expected);
      }
  }
}

TEST_CASE("each folded op is one parallel region, a feed-forward network two, a norm behind many rows one more", "[linear][fused][regions]") {
  const Norms norms(cols);
  for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
    CountingExecutor threads(2);
    Cpu context{ExecutorRef(threads), on(cpu::available_isas().back(), 0, numerics)};
    const Packed a = packed(context, "q4_k", cols, cols, 1), b = packed(context, "q6_k", cols, cols, 2);
    for (const Index m : {1, 3, 64, 300}) {
      const Matrix<float> x = normal_matrix(m, cols, 9);
      Matrix<float> y({m, cols}), z({m, cols});
      const auto regions = [&](auto&& body) {
        threads.regions = 0;
        body();
        return threads.regions;
      };
      const LinearOutput<B> outputs[] = {{&a, y.view(), {}}, {&b, z.view(), {}}};
      CHECK(regions([&] {
              run(context, LinearGroup{false, norms.rms()}, x.view(), std::span<const LinearOutput<B>>(outputs));
            }) == 1);
      CHECK(regions([&] { run(context, GatedLinear{.norm = norms.rms()}, x.view(), a, b, y.view()); }) == 1);
      CHECK(regions([&] {
              run(context, Linear{epilogue::Normed{Then::gelu_erf, norms.layer(), {}}}, x.view(), a, y.view());
            }) == (m > 16 ? 2 : 1));
      CHECK(regions([&] { run(context, Linear{epilogue::None{}, true, norms.rms()}, x.view(), a, y.view()); }) == 1);
      CHECK(regions([&] {
              run(context, FeedForward{{.norm = norms.rms()}, norms.rms(), {}, false}, y.view(), a, b, a, y.view());
            }) == (m > 16 ? 3 : 2));
      CHECK(regions([&] {
              run(context, FeedForward{{.norm = norms.rms()}, {}, {}, false}, y.view(), a, b, a, y.view());
            }) == 2);
    }
  }
}

TEST_CASE("NaN and infinity pass through folded layers", "[linear][fused]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  const Norms norms(cols);
  const Packed w = packed(context, "q4_1", 64, cols, 1), down = packed(context, "q4_1", cols, 64, 2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const Index m : {1, 30}) {
      Matrix<float> x = normal_matrix(m, cols, 9), y({m, cols});
      x(m - 1, 7) = bad;
      run(context, FeedForward{{.norm = norms.rms()}, {}, {}, false}, x.view(), w, w, down, y.view());
      for (Index c = 0; c < cols; ++c) REQUIRE_FALSE(std::isfinite(y(m - 1, c)));
      if (m > 1) CHECK(std::isfinite(y(0, 0)));
    }
}

TEST_CASE("folded layers refuse what does not fit", "[linear][fused]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  const Packed w = packed(context, "q4_1", 64, cols, 1), narrow = packed(context, "q4_1", 32, cols, 2);
  const Matrix<float> x = normal_matrix(3, cols, 9), short_x = normal_matrix(3, 32, 9);
  Matrix<float> y({3, 64}), wide({3, cols});
  const Norms wrong(cols - 1);
  const std::vector<float> short_bias(std::size_t{63});
  const auto group = [&](const LinearOutput<B>& o, const FoldedNorm& norm = {}) {
    run(context, LinearGroup{false, norm}, x.view(), std::span<const LinearOutput<B>>(&o, 1));
  };
  CHECK_THROWS_AS(group({&w, wide.view(), {}}), Error);
  CHECK_THROWS_AS(group({nullptr, y.view(), {}}), Error);
  CHECK_THROWS_AS(group({&w, y.view(), short_bias}), Error);
  CHECK_THROWS_AS(group({&w, y.view(), {}}, wrong.rms()), Error);
  const Packed nothing;
  CHECK_THROWS_AS(group({&nothing, y.view(), {}}), Error);
  const std::vector<LinearOutput<B>> many(9, {&w, y.view(), {}});
  CHECK_THROWS_AS(run(context, LinearGroup{}, x.view(), std::span<const LinearOutput<B>>(many)), Error);
  CHECK_THROWS_AS(run(context, GatedLinear{}, x.view(), w, narrow, y.view()), Error);
  CHECK_THROWS_AS(run(context, GatedLinear{}, short_x.view(), w, w, y.view()), Error);
  CHECK_THROWS_AS(run(context, GatedLinear{}, x.view(), w, w, wide.view()), Error);
  CHECK_THROWS_AS(run(context, FeedForward{}, x.view(), w, w, w, wide.view()), Error);
  const Norms wrong_out(63);
  CHECK_THROWS_AS(run(context, Linear{epilogue::Normed{Then::store, wrong_out.rms(), {}}}, x.view(), w, y.view()), Error);
  CHECK_THROWS_AS(run(context, Linear{epilogue::Add{short_bias}}, x.view(), w, y.view()), Error);
}
