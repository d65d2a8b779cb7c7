// SPDX-License-Identifier: MIT
// Norms, softmax, activations, rotary embedding and embedding on every instruction set against their double
// references, over lengths with tails, in place, with special values, and without a write too far.
#include <limits>

#include "cpu/dispatch.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "nibble/ops/activation.hpp"
#include "nibble/ops/embedding.hpp"
#include "nibble/ops/norm.hpp"
#include "nibble/ops/rope.hpp"
#include "nibble/ops/softmax.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/tolerance.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
const std::vector<Index> lengths{1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 576, 1000};

template <class Body>
void for_every_isa(Body&& body) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO(cpu::to_string(isa));
    Cpu context(on(isa, 2));
    body(context);
  }
}

/// Elements of `got` outside bound(r, c, expected).
template <class Bound>
Index count_misses(const Guarded& got, const Matrix<float>& expected, Bound&& bound) {
  Index wrong = got.intact() ? 0 : 1000000;
  for (Index r = 0; r < expected.extent(0); ++r)
    for (Index c = 0; c < expected.extent(1); ++c)
      wrong += misses(double(got(r, c)), double(expected(r, c)), bound(r, c, double(expected(r, c))));
  return wrong;
}

/// Every FP32 exponent, both signs, and the special values around 1 and 0.
std::vector<float> wide_values() {
  std::vector<float> v{0.0f,   -0.0f, 1.0f,   -1.0f,   0.624f, 0.625f,
                       0.626f, 88.0f, -88.0f, -104.0f, 1e30f,  -1e30f};
  std::mt19937 random(3);
  for (int e = -40; e <= 6; ++e)
    for (int i = 0; i < 20; ++i) {
      const float m = std::ldexp(1.0f + float(random() % 10000) / 10000.0f, e);
      v.push_back(m);
      v.push_back(-m);
    }
  return v;
}

}  // namespace

TEST_CASE("elementary functions keep their stated accuracy", "[math]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO(cpu::to_string(isa));
    const cpu::KernelTable& k = cpu::kernels_of(isa);
    std::vector<float> x{0.0f};  // the maximum of the row, so that scores are exponents
    for (int i = 1; i <= 20000; ++i) x.push_back(-float(i) * 0.0052f);
    std::vector<float> e = x;
    float max = 1, sum = 0;
    k.softmax_tile({e.data(), Index(e.size()), 1, Index(e.size()), &max, &sum});
    REQUIRE(max == 0.0f);
    double worst_exp = 0, worst_tanh = 0, worst_angle = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {  // relative in the normal range, zero below it
      const double expected = std::exp(double(x[i]));
      if (x[i] < -87.0f) REQUIRE(e[i] == 0.0f);
      else worst_exp = std::max(worst_exp, std::abs(double(e[i]) / expected - 1));
    }
    CHECK(worst_exp <= 1.6 * unit_roundoff);

    std::vector<float> t;
    for (int i = -6000; i <= 6000; ++i) t.push_back(float(i) * 0.001f);
    const std::vector<float> arguments = t;
    k.soft_cap(t.data(), Index(t.size()), 1.0f);
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double expected = std::tanh(double(arguments[i]));
      if (expected != 0) worst_tanh = std::max(worst_tanh, std::abs(double(t[i]) / expected - 1));
    }
    CHECK(worst_tanh <= 3 * unit_roundoff);

    std::vector<float> frequencies(std::size_t{16}), cosine(std::size_t{16}), sine(std::size_t{16});
    for (std::size_t i = 0; i < 16; ++i) frequencies[i] = 0.37f + 0.041f * float(i);
    for (Index position = 0; position < 1000000; position += 977) {
      k.rope_angles(position, frequencies.data(), 1.0f, cosine.data(), sine.data(), 16);
      for (std::size_t i = 0; i < 16; ++i) {
        const double angle = double(position) * double(frequencies[i]);
        worst_angle = std::max({worst_angle, std::abs(double(cosine[i]) - std::cos(angle)),
                                std::abs(double(sine[i]) - std::sin(angle))});
      }
    }
    CHECK(worst_angle <= 2 * unit_roundoff);
  }
}

TEST_CASE("norms agree with their references", "[norm]") {
  for_every_isa([](Cpu& context) {
    for (const Index n : lengths) {
      for (const float offset : {0.0f, 3.0f}) {
        const Matrix<float> x = [&] {
          Matrix<float> m = normal_matrix(5, n, 1);
          for (float& v : m.span()) v += offset;
          return m;
        }();
        const std::vector<float> w = normal_values(n, 2), b = normal_values(n, 3);
        Matrix<float> expected({5, n});
        Guarded y(5, n);
        INFO("length " << n);
        run(context, RmsNorm{1e-5f}, x.view(), w, y.view());
        RmsNorm::reference({1e-5f}, x.view(), w, expected.view());
        REQUIRE(count_misses(y, expected, [&](Index, Index, double e) {
                  return norm_bound(double(n), std::abs(e));
                }) == 0);
        Guarded z(5, n);
        run(context, LayerNorm{1e-5f}, x.view(), w, b, z.view());
        LayerNorm::reference({1e-5f}, x.view(), w, b, expected.view());
        REQUIRE(count_misses(z, expected, [&](Index r, Index c, double) {
                  // the mean's error, gamma_n max|x|, is divided by the deviation as the numbers are
                  double square = 0, mean = 0;
                  for (Index k = 0; k < n; ++k) mean += double(x(r, k)) / double(n);
                  for (Index k = 0; k < n; ++k)
                    square += (double(x(r, k)) - mean) * (double(x(r, k)) - mean) / double(n);
                  const double scale = std::abs(double(w[std::size_t(c)])) / std::sqrt(square + 1e-5);
                  return rounding(double(n) + 12) *
                         (scale * (std::abs(double(x(r, c))) + std::abs(mean) + 8) +
                          std::abs(double(b[std::size_t(c)])) +
                          scale * (std::abs(double(x(r, c)) - mean)) * (1 + mean * mean / (square + 1e-5)));
                }) == 0);
      }
    }
    Matrix<float> zero({2, 33});
    const std::vector<float> w(std::size_t{33}, 1.0f);
    run(context, RmsNorm{}, zero.view(), w, zero.view());
    for (float v : zero.span()) REQUIRE(v == 0.0f);
  });
}

TEST_CASE("softmax agrees with its reference; a masked row gives zeros", "[softmax]") {
  for_every_isa([](Cpu& context) {
    for (const Index n : lengths) {
      Matrix<float> x = normal_matrix(6, n, 4, 5.0f), expected({6, n});
      for (Index c = 0; c < n; ++c) {
        x(1, c) = -infinity;             // all masked
        if (c > 0) x(2, c) = -infinity;  // one left
        x(3, c) = 1e30f;                 // equal and huge
        if (c % 2 == 1) x(4, c) = -infinity;
      }
      Guarded y(6, n);
      run(context, Softmax{0.7f}, x.view(), y.view());
      Softmax::reference({0.7f}, x.view(), expected.view());
      INFO("length " << n);
      REQUIRE(count_misses(y, expected,
                           [&](Index, Index, double e) { return softmax_bound(double(n), 30, e); }) == 0);
      for (Index c = 0; c < n; ++c) REQUIRE(y(1, c) == 0.0f);
      REQUIRE(y(2, 0) == 1.0f);
      x(5, n / 2) = nan_value;
      run(context, Softmax{}, x.view(), y.view());
      for (Index c = 0; c < n; ++c) REQUIRE(std::isnan(y(5, c)));
      for (Index c = 0; c < n; ++c) REQUIRE_FALSE(std::isnan(y(0, c)));
    }
  });
}

TEST_CASE("activations agree with their references over the whole range", "[activation]") {
  for_every_isa([](Cpu& context) {
    const std::vector<float> values = wide_values();
    const auto n = static_cast<Index>(values.size());
    Matrix<float> x({1, n}), up({1, n}), expected({1, n});
    std::copy(values.begin(), values.end(), x.data());
    for (Index i = 0; i < n; ++i) up(0, i) = 0.5f + float(i % 7);
    const auto ulps = [](double u) { return [u](Index, Index, double e) { return function_bound(u, e); }; };

    Guarded swiglu(1, n), geglu(1, n), erf(1, n), tanh(1, n);
    run(context, SwiGlu{}, x.view(), up.view(), swiglu.view());
    SwiGlu::reference({}, x.view(), up.view(), expected.view());
    // a negative gate's sigmoid is e^v: its rounding is amplified by |v| up to 104
    CHECK(count_misses(swiglu, expected, [&](Index, Index c, double e) {
            return function_bound(8 + std::min(std::abs(double(x(0, c))), 104.0), e) +
                   1e-35 * std::abs(double(x(0, c)));
          }) == 0);

    run(context, GeGlu{}, x.view(), up.view(), geglu.view());
    GeGlu::reference({}, x.view(), up.view(), expected.view());
    const auto gelu_bound = [&](Index, Index c, double e) {
      const double v = std::abs(double(x(0, c))), u = std::min(1.6 * (v + 0.05 * v * v * v), 104.0);
      // the reference's own 1 + tanh cancels for v below -3: 1e-16 absolute there
      return function_bound(12 + 2 * u, e) + 2e-15 * v * double(up(0, c)) + 1e-35;
    };
    CHECK(count_misses(geglu, expected, gelu_bound) == 0);
    run(context, Gelu{Gelu::Form::tanh}, x.view(), tanh.view());
    Gelu::reference({Gelu::Form::tanh}, x.view(), expected.view());
    CHECK(count_misses(tanh, expected, gelu_bound) == 0);
    run(context, Gelu{Gelu::Form::erf}, x.view(), erf.view());
    Gelu::reference({Gelu::Form::erf}, x.view(), expected.view());
    CHECK(count_misses(erf, expected, [&](Index, Index c, double e) {
            const double v = std::abs(double(x(0, c)));
            return function_bound(16 + std::min(v * v, 104.0), e) + 2e-15 * v + 1e-35;
          }) == 0);

    Guarded capped(1, n);
    for (Index i = 0; i < n; ++i) capped(0, i) = expected(0, i) = x(0, i);
    run(context, SoftCapLogits{30.0f}, capped.view());
    SoftCapLogits::reference({30.0f}, expected.view());
    CHECK(count_misses(capped, expected, ulps(6)) == 0);
    for (Index i = 0; i < n; ++i) REQUIRE(std::abs(capped(0, i)) <= 30.0f);

    Guarded sum(1, n);
    for (Index i = 0; i < n; ++i) sum(0, i) = up(0, i);
    run(context, Add{}, x.view(), sum.view());
    for (Index i = 0; i < n; ++i) REQUIRE(sum(0, i) == x(0, i) + up(0, i));
    CHECK(sum.intact());
  });
}

TEST_CASE("activations write every length and nothing more, and keep NaN", "[activation]") {
  for_every_isa([](Cpu& context) {
    for (const Index n : lengths) {
      const Matrix<float> x = normal_matrix(3, n, 5), up = normal_matrix(3, n, 6);
      Matrix<float> expected({3, n});
      Guarded y(3, n);
      run(context, SwiGlu{}, x.view(), up.view(), y.view());
      SwiGlu::reference({}, x.view(), up.view(), expected.view());
      INFO("length " << n);
      REQUIRE(count_misses(y, expected, [](Index, Index, double e) { return function_bound(16, e); }) == 0);
    }
    Matrix<float> bad({1, 5}), y({1, 5});
    for (float& v : bad.span()) v = nan_value;
    const auto all_nan = [&] {
      return std::all_of(y.span().begin(), y.span().end(), [](float v) { return std::isnan(v); });
    };
    run(context, SwiGlu{}, bad.view(), bad.view(), y.view());
    CHECK(all_nan());
    run(context, Gelu{}, bad.view(), y.view());
    CHECK(all_nan());
    run(context, Gelu{Gelu::Form::tanh}, bad.view(), y.view());
    CHECK(all_nan());
    run(context, SoftCapLogits{}, y.view());
    CHECK(all_nan());
  });
}

TEST_CASE("rope agrees with its reference up to position 10^6", "[rope]") {
  for_every_isa([](Cpu& context) {
    for (const auto pairs : {Rope::Pairs::halves, Rope::Pairs::neighbours}) {
      for (const Index half : {1, 5, 16, 20, 32, 64}) {
        std::vector<float> f(static_cast<std::size_t>(half));
        for (Index i = 0; i < half; ++i)
          f[std::size_t(i)] = float(std::pow(10000.0, -double(i) / double(half)));
        const std::vector<Index> positions{0, 1, 2, 511, 4096, 131071, 999983, 1000000};
        Tensor<float, 3> x({8, 3, 2 * half + 3}), expected({8, 3, 2 * half + 3});
        const std::vector<float> v = normal_values(x.size(), 7);
        std::copy(v.begin(), v.end(), x.data());
        std::copy(v.begin(), v.end(), expected.data());
        const Rope op{pairs, f, 1.2f};
        run(context, op, positions, x.view());
        Rope::reference(op, positions, expected.view());
        Index wrong = 0;
        for (Index i = 0; i < x.size(); ++i)  // |a c - b s| <= 1.2 (|a| + |b|), |a|, |b| <= 5
          wrong += misses(double(x.data()[i]), double(expected.data()[i]), rounding(6) * 1.2 * 10);
        INFO(half << " frequencies");
        REQUIRE(wrong == 0);
      }
    }
  });
}

TEST_CASE("a rotated token has the same bits whatever its batch", "[rope][determinism]") {
  for_every_isa([](Cpu& context) {
    const std::vector<float> f = normal_values(24, 1);
    Tensor<float, 3> x({40, 2, 48}), y({40, 2, 48});
    const std::vector<float> v = normal_values(x.size(), 7);
    std::copy(v.begin(), v.end(), x.data());
    std::copy(v.begin(), v.end(), y.data());
    std::vector<Index> positions(40);
    for (Index t = 0; t < 40; ++t) positions[std::size_t(t)] = t * 7;
    run(context, Rope{.frequencies = f}, positions, x.view());
    for (Index t = 0; t < 40; ++t)
      run(context, Rope{.frequencies = f}, std::vector<Index>{t * 7}, y.view().slice(0, t, 1));
    CHECK(std::memcmp(x.data(), y.data(), x.bytes()) == 0);
  });
}

TEST_CASE("embedding gathers exact rows and refuses ids outside the table", "[embedding]") {
  for_every_isa([](Cpu& context) {
    for (const char* name : {"f16", "q8_0", "q4_1", "q6_k"}) {
      const QuantizedTensor source = random_blocks(*find_format(name), 70, 256, 3);
      const PackedMatrix<cpu::Backend> table = PackedMatrix<cpu::Backend>::pack(context, source.view());
      const Matrix<float> dense = decoded(source);
      const std::vector<std::int32_t> ids{0, 69, 31, 32, 32, 5};
      Guarded y(6, 256);
      Matrix<float> expected({6, 256});
      run(context, Embedding{2.5f}, ids, table, y.view());
      Embedding::reference({2.5f}, ids, dense.view(), expected.view());
      CHECK(count_misses(y, expected, [](Index, Index, double) { return 0.0; }) == 0);
      for (const std::int32_t bad : {-1, 70, std::numeric_limits<std::int32_t>::max()}) {
        const std::vector<std::int32_t> wrong{3, bad, 4, 5, 6, 7};
        CHECK_THROWS_WITH(run(context, Embedding{}, wrong, table, y.view()),
                          Catch::Contains("id " + std::to_string(bad)) && Catch::Contains("position 1") &&
                              Catch::Contains("70"));
      }
    }
  });
}

TEST_CASE("element-wise ops refuse extents that do not fit", "[op]") {
  Cpu context(on(cpu::available_isas().front(), 1));
  Matrix<float> a({2, 3}), b({2, 4}), c({3, 3});
  const std::vector<float> w3(3), w4(4);
  CHECK_THROWS_WITH(run(context, RmsNorm{}, a.view(), w4, a.view()),
                    Catch::Contains("RmsNorm") && Catch::Contains("weight"));
  CHECK_THROWS_WITH(run(context, RmsNorm{}, a.view(), w3, b.view()),
                    Catch::Contains("[2, 3]") && Catch::Contains("[2, 4]"));
  CHECK_THROWS_WITH(run(context, LayerNorm{}, a.view(), w3, w4, a.view()),
                    Catch::Contains("LayerNorm") && Catch::Contains("bias"));
  CHECK_THROWS_WITH(run(context, Softmax{}, a.view(), c.view()), Catch::Contains("Softmax"));
  CHECK_THROWS_WITH(run(context, SwiGlu{}, a.view(), b.view(), a.view()),
                    Catch::Contains("SwiGlu") && Catch::Contains("up"));
  CHECK_THROWS_WITH(run(context, GeGlu{}, b.view(), a.view(), a.view()),
                    Catch::Contains("GeGlu") && Catch::Contains("gate"));
  CHECK_THROWS_WITH(run(context, Gelu{}, a.view(), b.view()), Catch::Contains("Gelu"));
  CHECK_THROWS_WITH(run(context, Add{}, a.view(), c.view()), Catch::Contains("Add"));
  CHECK_THROWS_WITH(run(context, SoftCapLogits{0.0f}, a.view()), Catch::Contains("SoftCapLogits"));
  Tensor<float, 3> x({2, 1, 4});
  CHECK_THROWS_WITH(run(context, Rope{.frequencies = w3}, std::vector<Index>{0, 1}, x.view()),
                    Catch::Contains("Rope"));
  CHECK_THROWS_WITH(
      run(context, Rope{.frequencies = std::span<const float>(w3).first(2)}, std::vector<Index>{0}, x.view()),
      Catch::Contains("positions"));
}
