// SPDX-License-Identifier: MIT
// Every quantizer with every scheme and format: finite and sane on degenerate weights, NaN refused with
// coordinates, errors within the step, importances never harmful, and a user's own quantizer on equal terms.
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "nibble/format/formats.hpp"
#include "nibble/quant/rtn.hpp"
#include "support/format_checks.hpp"
#include "support/toy_format.hpp"

using namespace nibble;
using namespace nibble::quant;

namespace {

/// What a user would write: one bit per weight and the mean magnitude of the row.
struct SignQuantizer {
  static constexpr std::string_view name = "sign";
  QuantizedTensor quantize(MatrixView<const float> w, const Calibration&) const {
    QuantizedTensor t({.bits = 1, .codebook = Codebook::binary, .group = {GroupKind::row, 0, 1}}, w.rows(),
                      w.cols());
    for (Index r = 0; r < w.rows(); ++r) {
      double sum = 0;
      for (Index c = 0; c < w.cols(); ++c) {
        const std::uint8_t code = w(r, c) > 0 ? 1 : 0;
        sum += std::min(60000.0, std::abs(static_cast<double>(w(r, c))));
        t.set_codes(r, c, {&code, 1});
      }
      t.set_scale(r, 0, static_cast<float>(sum / static_cast<double>(w.cols())));
    }
    return t;
  }
};
static_assert(Quantizer<SignQuantizer>);

struct Case {
  std::string name;
  std::function<QuantizedTensor(MatrixView<const float>, const Calibration&)> run;
  Index cols_multiple = 1;
  const FormatInfo* format = nullptr;  ///< where blocks
  QuantSpec spec{};                    ///< where integer groups
  bool searches = false;               ///< integer groups with searched scales
};

template <class Q>
Case make_case(std::string name, Q q) {
  require_quantizer<Q>();
  return {std::move(name),
          [q](MatrixView<const float> w, const Calibration& c) { return quantize(q, w, c); }};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const FormatInfo* f : all_formats()) {
    if (!f->has_encode()) continue;
    cases.push_back(make_case("rtn " + std::string(f->name), RtnFormat{f}));
    cases.back().cols_multiple = f->block_size;
    cases.back().format = f;
  }
  cases.push_back(make_case("rtn of a user's format", Rtn<test::Toy3>{}));
  cases.back().cols_multiple = 8;
  cases.back().format = &format_info<test::Toy3>();
  cases.push_back(make_case("user's sign quantizer", SignQuantizer{}));
  for (int bits = 1; bits <= 8; ++bits)
    for (const Symmetry symmetry :
         {Symmetry::full_range, Symmetry::narrow, Symmetry::asymmetric, Symmetry::float_min})
      for (const Granularity granularity :
           {Granularity::group, Granularity::channel, Granularity::block, Granularity::tensor})
        for (const DType scale : {DType::f16, DType::bf16, DType::f32})
          for (const Fit fit : {Fit::plain, Fit::search}) {
            if (bits == 1 && symmetry == Symmetry::narrow) continue;
            if (scale != DType::f16 && (bits % 3 != 1 || granularity == Granularity::block))
              continue;  // a sample is enough
            const Scheme scheme{bits, symmetry, granularity, 20, scale};
            cases.push_back(make_case(to_string(scheme.spec()) + (fit == Fit::search ? " searched" : ""),
                                      RtnInteger(scheme, fit)));
            cases.back().spec = scheme.spec();
            cases.back().searches = fit == Fit::search;
          }
  return cases;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = all_cases();
  return all;
}

std::vector<float> gaussian(Index n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(rng);
  return x;
}

std::vector<float> decoded(const QuantizedTensor& t) {
  std::vector<float> y(static_cast<std::size_t>(t.rows() * t.cols()));
  t.decode(MatrixView<float>(y.data(), {t.rows(), t.cols()}));
  return y;
}

double squared_error(const std::vector<float>& x, const std::vector<float>& y,
                     const std::vector<float>& w = {}) {
  double e = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    e += (w.empty() ? 1.0 : static_cast<double>(w[i % w.size()])) * d * d;
  }
  return e;
}

/// A width with a short last group where the format allows one.
Index width(const Case& c) { return c.cols_multiple == 1 ? 50 : 2 * c.cols_multiple; }

}  // namespace

TEST_CASE("degenerate weights stay finite and zero stays zero", "[quantizer]") {
  for (const Case& c : cases()) {
    const Index cols = width(c);
    for (const auto& [name, group] : test::degenerate_groups(static_cast<std::size_t>(cols))) {
      INFO(c.name << ": " << name);
      bool all_zero = true;
      for (float v : group) all_zero = all_zero && v == 0;
      const auto y = decoded(c.run(MatrixView<const float>(group.data(), {1, cols}), {}));
      for (std::size_t i = 0; i < y.size(); ++i) {
        REQUIRE(std::isfinite(y[i]));
        const bool zero_is_a_code = c.format != nullptr ? !c.format->has_min && c.format->codebook == nullptr
                                                        : c.spec.codebook != Codebook::binary &&
                                                              c.spec.offset != OffsetKind::float_min;
        if (all_zero || (zero_is_a_code && group[i] == 0 && c.name != "user's sign quantizer"))
          REQUIRE(y[i] == 0);
      }
    }
  }
}

TEST_CASE("NaN and infinity are refused with their coordinates", "[quantizer]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const Index cols = width(c);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      auto x = gaussian(3 * cols, 1);
      x[static_cast<std::size_t>(2 * cols + 1)] = bad;
      try {
        c.run(MatrixView<const float>(x.data(), {3, cols}), {});
        FAIL("accepted");
      } catch (const Error& e) {
        CHECK(e.code() == Errc::not_finite);
        CHECK_THAT(std::string(e.what()), Catch::Contains("[2, 1]"));
      }
    }
  }
}

TEST_CASE("errors stay within one step of the range of a group", "[quantizer]") {
  // Plain rules: half a step from rounding; a full step where the range is full (+extreme clips to the last
  // code) or the integer zero was rounded, plus the rounding of the scale itself (2^-8 for bfloat16).
  for (const Case& c : cases()) {
    if (c.format != nullptr || c.spec.group.kind != GroupKind::group || c.searches ||
        c.name == "user's sign quantizer")
      continue;
    INFO(c.name);
    const Index rows = 4, cols = width(c);
    const auto x = gaussian(rows * cols, 5);
    const auto y = decoded(c.run(MatrixView<const float>(x.data(), {rows, cols}), {}));
    for (Index r = 0; r < rows; ++r)
      for (Index g = 0; g * 20 < cols; ++g) {
        float low = 0, high = 0;
        for (Index k = g * 20; k < std::min(cols, g * 20 + 20); ++k) {
          low = std::min(low, x[static_cast<std::size_t>(r * cols + k)]);
          high = std::max(high, x[static_cast<std::size_t>(r * cols + k)]);
        }
        const float extreme = std::max(high, -low);
        const auto levels = static_cast<float>((1 << c.spec.bits) - 1);
        float step = (high - low) / levels;  // asymmetric kinds
        if (c.spec.offset == OffsetKind::none)
          step = c.spec.narrow_range ? 2 * extreme / (levels - 1) : 2 * extreme / (levels + 1);
        const float bound = step * 1.01f + extreme * 0x1p-7f;
        for (Index k = g * 20; k < std::min(cols, g * 20 + 20); ++k) {
          const auto i = static_cast<std::size_t>(r * cols + k);
          REQUIRE(std::abs(x[i] - y[i]) <=
                  (c.spec.bits == 1 && c.spec.offset == OffsetKind::none ? 2 * extreme : bound));
        }
      }
  }
}

TEST_CASE("more bits never hurt, and searching never does", "[quantizer]") {
  const Index rows = 6, cols = 100;
  const auto x = gaussian(rows * cols, 9);
  auto importance = gaussian(cols, 10);
  for (float& v : importance) v = std::exp(v);
  const MatrixView<const float> w(x.data(), {rows, cols});
  for (const Symmetry symmetry :
       {Symmetry::full_range, Symmetry::narrow, Symmetry::asymmetric, Symmetry::float_min}) {
    double last = std::numeric_limits<double>::infinity();
    for (int bits = symmetry == Symmetry::narrow ? 2 : 1; bits <= 8; ++bits) {
      const Scheme scheme{.bits = bits, .symmetry = symmetry, .group = 32};
      INFO(to_string(scheme.spec()));
      const double plain = squared_error(x, decoded(RtnInteger(scheme, Fit::plain).quantize(w, {})));
      const double search = squared_error(x, decoded(RtnInteger(scheme).quantize(w, {})));
      CHECK(search <= plain * (1 + 1e-6));
      CHECK(search < last);
      last = search;
      const double unaware = squared_error(x, decoded(RtnInteger(scheme).quantize(w, {})), importance);
      const double aware =
          squared_error(x, decoded(RtnInteger(scheme).quantize(w, {.importance = importance})), importance);
      CHECK(aware <= unaware * 1.001);
    }
  }
}

TEST_CASE("importances lower the weighted error of block formats", "[quantizer]") {
  const Index rows = 8, cols = 256;
  const auto x = gaussian(rows * cols, 11);
  auto importance = gaussian(cols, 12);
  for (float& v : importance) v = std::exp(2 * v);
  const MatrixView<const float> w(x.data(), {rows, cols});
  for (const FormatInfo* f : {&format_info<Q4_0>(), &format_info<Q4_1>(), &format_info<Q5_0>(),
                              &format_info<Q5_1>(), &format_info<IQ4_NL>()}) {
    INFO(f->name);
    const double without = squared_error(x, decoded(quantize_matrix(*f, w)), importance);
    const double with =
        squared_error(x, decoded(quantize(RtnFormat{f}, w, {.importance = importance})), importance);
    CHECK(with < 0.95 * without);
  }
}

TEST_CASE("quantizing twice gives the same bytes, and splitting rows too", "[quantizer]") {
  const Index rows = 7, cols = 96;
  const auto x = gaussian(rows * cols, 13);
  const MatrixView<const float> w(x.data(), {rows, cols});
  const QuantizedTensor whole = quantize_matrix(format_info<Q5_1>(), w);
  QuantizedTensor parts(format_info<Q5_1>(), rows, cols);
  encode_rows(w, {}, parts, 4, 7);
  encode_rows(w, {}, parts, 0, 4);
  CHECK(std::memcmp(whole.view().row_data(0), parts.view().row_data(0), whole.bytes()) == 0);
  for (const Case& c : cases()) {
    if (cols % c.cols_multiple != 0) continue;
    INFO(c.name);
    REQUIRE(decoded(c.run(w, {})) == decoded(c.run(w, {})));
  }
}

TEST_CASE("misuse of quantizers is an error with the numbers", "[quantizer]") {
  const auto x = gaussian(3 * 50, 1);
  const MatrixView<const float> w(x.data(), {3, 50});
  CHECK_THROWS_WITH(quantize(Rtn<Q4_0>{}, w), Catch::Contains("50 weights") && Catch::Contains("q4_0"));
  CHECK_THROWS_WITH(quantize(RtnFormat{nullptr}, w), Catch::Contains("no format"));
  for (const FormatInfo* f : all_formats())
    if (!f->has_encode())
      CHECK_THROWS_WITH(quantize_matrix(*f, MatrixView<const float>(x.data(), {0, 256})),
                        Catch::Contains("not yet written"));
  const std::vector<float> four(4, 1.0f);
  CHECK_THROWS_WITH(quantize(RtnInteger(Scheme{}), w, {.importance = four}), Catch::Contains("4 channels"));
  CHECK(quantize(RtnInteger(Scheme{}), MatrixView<const float>(x.data(), {0, 50})).rows() == 0);
  CHECK(quantize(RtnInteger(Scheme{}), MatrixView<const float>(x.data(), {3, 0})).cols() == 0);
  CHECK(quantize(Rtn<Q4_0>{}, MatrixView<const float>(x.data(), {3, 0})).bytes() == 0);
}
