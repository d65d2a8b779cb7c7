// SPDX-License-Identifier: MIT
// Linear on every instruction set of this machine against its double reference: all formats, group shapes
// and tails, exact and fast; packing loses nothing; integer kernels are exact; bits do not depend on
// threads or batch; NaN and infinity arrive; nothing is written outside the output.
#include <limits>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/config.hpp"
#include "nibble/ops/linear.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/tolerance.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using Packed = PackedMatrix<cpu::Backend>;

namespace {

struct Shape {
  Index rows, cols;
};

/// Bits of a difference of scales: 0 == -0, as x * -0 - 0 may be either.
bool same_value(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a == 0 && b == 0);
}

Index unpack_differences(const Packed& packed, const QuantizedView& source) {
  const Matrix<float> w = decoded(source);
  std::vector<float> row(static_cast<std::size_t>(source.cols()));
  Index differing = 0;
  for (Index r = 0; r < source.rows(); ++r) {
    packed.unpack_row(r, row);
    for (Index k = 0; k < source.cols(); ++k)
      differing += !same_value(row[static_cast<std::size_t>(k)], w(r, k));
  }
  return differing;
}

/// Elements of y outside the bound of a plain FP32 dot product.
Index exact_misses(MatrixView<const float> x, const Matrix<float>& w, const Guarded& y) {
  Index wrong = 0;
  for (Index t = 0; t < x.rows(); ++t)
    for (Index o = 0; o < w.extent(0); ++o) {
      double sum = 0, abs = 0;
      for (Index k = 0; k < x.cols(); ++k) {
        const double p = double(x(t, k)) * double(w(o, k));
        sum += p;
        abs += std::abs(p);
      }
      wrong += misses(double(y(t, o)), sum, dot_bound(double(x.cols()), abs));
    }
  return wrong;
}

/// What the fast mode makes of a row, by its definition: groups of 32, scale max|x| / 127, nearest even.
std::vector<double> quantized_row(MatrixView<const float> x, Index t) {
  std::vector<double> q(static_cast<std::size_t>(x.cols()));
  for (Index g = 0; g < x.cols(); g += 32) {
    float max = 0;
    const Index end = std::min(x.cols(), g + 32);
    for (Index k = g; k < end; ++k) max = std::max(max, std::abs(x(t, k)));
    const float inverse = max > 0 ? 127.0f / max : 0.0f, step = max / 127.0f;
    for (Index k = g; k < end; ++k)
      q[static_cast<std::size_t>(k)] = double(step) * double(std::nearbyint(x(t, k) * inverse));
  }
  return q;
}

/// Elements of y outside the bound around the product with quantized activations.
Index fast_misses(MatrixView<const float> x, const QuantizedView& source, const Guarded& y) {
  if (source.dense()) return exact_misses(x, decoded(source), y);
  const Matrix<float> w = decoded(source);
  const auto groups = static_cast<std::size_t>(source.groups_per_row());
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(source.cols()));
  std::vector<float> scales(groups), mins(groups);
  Index wrong = 0;
  for (Index t = 0; t < x.rows(); ++t) {
    const std::vector<double> q = quantized_row(x, t);
    for (Index o = 0; o < w.extent(0); ++o) {
      source.unpack_row(o, {codes, scales, mins});
      double sum = 0, abs = 0;
      for (Index k = 0; k < x.cols(); ++k) {
        const double v = q[static_cast<std::size_t>(k)],
                     min = double(mins[static_cast<std::size_t>(k / source.group())]);
        sum += v * double(w(o, k));
        abs += std::abs(v) * (std::abs(double(w(o, k))) + 2 * std::abs(min));
      }
      wrong += misses(double(y(t, o)), sum, scaled_dot_bound(double(x.cols()) / 8, abs));
    }
  }
  return wrong;
}

void check_source(Cpu& context, const QuantizedView& source, const std::vector<Index>& batches,
                  bool fast_is_float) {
  const Packed packed = Packed::pack(context, source);
  REQUIRE(packed.rows() == source.rows());
  REQUIRE(packed.cols() == source.cols());
  CHECK(unpack_differences(packed, source) == 0);
  const Matrix<float> w = decoded(source);
  for (const Index m : batches) {
    INFO("shape " << m << " x " << source.rows() << " x " << source.cols());
    const Matrix<float> x = normal_matrix(m, source.cols(), static_cast<std::uint32_t>(m));
    Guarded exact(m, source.rows()), fast(m, source.rows());
    context.set_numerics(Numerics::exact);
    run(context, Linear{}, x.view(), packed, exact.view());
    CHECK(exact.intact());
    CHECK(exact_misses(x, w, exact) == 0);
    context.set_numerics(Numerics::fast);
    run(context, Linear{}, x.view(), packed, fast.view());
    CHECK(fast.intact());
    CHECK((fast_is_float ? exact_misses(x, w, fast) : fast_misses(x, source, fast)) == 0);
  }
}

const std::vector<Index> all_batches{1, 2, 3, 4, 5, 7, 16, 33};

}  // namespace

TEST_CASE("linear agrees with its reference for every block format", "[linear]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const FormatInfo* f : all_formats()) {
      DYNAMIC_SECTION(cpu::to_string(isa) << " " << f->name) {
        Cpu context(on(isa, 2));
        std::vector<Shape> shapes{{33, 256}, {70, 512}};
        if (f->block_size <= 32) shapes = {{1, 32}, {31, 64}, {32, 96}, {33, 576}, {64, 640}};
        if (f->block_size == 1) shapes = {{1, 1}, {31, 31}, {32, 32}, {33, 33}, {64, 64}, {96, 576}};
        for (const Shape s : shapes)
          check_source(context, random_blocks(*f, s.rows, s.cols, 7),
                       s.cols > 300 ? std::vector<Index>{1, 4, 33} : all_batches, false);
      }
    }
  }
}

TEST_CASE("linear agrees with its reference for integer groups with tails", "[linear]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const SpecCase& c : spec_cases()) {
      DYNAMIC_SECTION(cpu::to_string(isa) << " " << c.name) {
        Cpu context(on(isa, 1));
        const bool floats = std::string_view(c.name).find("(floats)") != std::string_view::npos;
        for (const Shape s : {Shape{1, 1}, {31, 31}, {32, 32}, {33, 33}, {65, 100}, {96, 200}})
          check_source(context, random_groups(c.spec, s.rows, s.cols, 11),
                       s.cols == 33 ? all_batches : std::vector<Index>{1, 9}, floats);
      }
    }
  }
}

TEST_CASE("packing FP32 keeps every bit, strides included", "[linear][pack]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  const Matrix<float> w = normal_matrix(40, 37, 3);
  const MatrixView<const float> transposed(w.data(), {37, 40}, {1, 37});
  const Packed packed = Packed::pack(context, transposed);
  std::vector<float> row(40);
  for (Index r = 0; r < 37; ++r) {
    packed.unpack_row(r, row);
    for (Index k = 0; k < 40; ++k) REQUIRE(row[static_cast<std::size_t>(k)] == transposed(r, k));
  }
  CHECK_THROWS_AS(packed.unpack_row(37, row), Error);
  CHECK_THROWS_AS(packed.unpack_row(-1, row), Error);
  CHECK_THROWS_AS(packed.unpack_row(0, std::span<float>(row).first(39)), Error);
}

TEST_CASE("packing stores scales in 16 bits exactly where nothing is lost", "[pack]") {
  Cpu context(on(cpu::available_isas().back(), 1));
  const auto bytes_per_weight = [&](const QuantizedTensor& t) {
    return double(Packed::pack(context, t.view()).bytes()) / double(t.rows() * t.cols());
  };
  CHECK(bytes_per_weight(random_blocks(*find_format("q4_1"), 32, 512, 1)) == 0.625);
  CHECK(bytes_per_weight(random_blocks(*find_format("q4_0"), 32, 512, 1)) == 0.5625);
  CHECK(bytes_per_weight(random_blocks(*find_format("q8_0"), 32, 512, 1)) == 1.0625);
  CHECK(bytes_per_weight(random_blocks(*find_format("f16"), 32, 512, 1)) == 2.0);
  CHECK(bytes_per_weight(random_blocks(*find_format("q4_k"), 32, 512, 1)) <= 0.75);
  CHECK(bytes_per_weight(random_groups(integer::symmetric(4, 128), 32, 512, 1)) == 0.515625);
}

TEST_CASE("integer dot products are exact", "[linear][integer]") {
  // Scale 1, activations whole with a maximum of 127 in every group: each sum is an integer below 2^24.
  struct Fill {
    const char* name;
    int code, x;
  };  // -1: random
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const Index group : {16, 32, 64, 0}) {
        for (const Fill fill : {Fill{"random", -1, 0},
                                {"all codes highest, x highest", (1 << bits) - 1, 127},
                                {"all codes highest, x lowest", (1 << bits) - 1, -127},
                                {"all codes zero, x highest", 0, 127},
                                {"all codes zero, x lowest", 0, -127}}) {
          Cpu context(on(isa, 1));
          const Index rows = 35, cols = 96;
          QuantizedTensor t = random_groups(integer::symmetric(bits, group), rows, cols, 5);
          if (fill.code >= 0) {
            const std::vector<std::uint8_t> codes(std::size_t{96}, static_cast<std::uint8_t>(fill.code));
            for (Index r = 0; r < rows; ++r) t.set_codes(r, 0, codes);
          }
          for (Index r = 0; r < rows; ++r)
            for (Index g = 0; g < t.view().groups_per_row(); ++g) t.set_scale(r, g, 1.0f);
          const Packed packed = Packed::pack(context, t.view());
          const Matrix<float> w = decoded(t);
          Matrix<float> x({9, cols});
          std::mt19937 random(9);
          for (Index i = 0; i < x.size(); ++i)
            x.data()[i] = float(fill.code >= 0 ? fill.x : i % 32 == 7 ? 127 : int(random() % 255) - 127);
          for (const Index m : {1, 2, 3, 4, 9}) {
            Guarded y(m, rows);
            run(context, Linear{}, x.view().slice(0, 0, m), packed, y.view());
            Index wrong = 0;
            for (Index r = 0; r < m; ++r)
              for (Index o = 0; o < rows; ++o) {
                long sum = 0;
                for (Index k = 0; k < cols; ++k) sum += long(x(r, k)) * long(w(o, k));
                wrong += y(r, o) != float(sum);
              }
            INFO(cpu::to_string(isa) << ", " << bits << " bits, group " << group << ", " << fill.name << ", "
                                     << m << " rows");
            REQUIRE(wrong == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("a token's result has the same bits for any threads and any batch", "[linear][determinism]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const char* name : {"f32", "f16", "q4_1", "q8_0", "q4_k", "q6_k", "iq4_nl"}) {
      for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
        const FormatInfo& f = *find_format(name);
        const Index rows = 165, cols = 512, m = 21;
        const QuantizedTensor source = random_blocks(f, rows, cols, 13);
        const Matrix<float> x = normal_matrix(m, cols, 17);
        Cpu base(on(isa, 1, numerics));
        const Packed packed = Packed::pack(base, source.view());
        Matrix<float> one({m, rows});
        for (Index t = 0; t < m; ++t)
          run(base, Linear{}, x.view().slice(0, t, 1), packed, one.view().slice(0, t, 1));
        INFO(cpu::to_string(isa) << " " << name << (numerics == Numerics::fast ? " fast" : " exact"));
        for (const Index threads : {1, 2, 3, 16}) {
          Cpu context(on(isa, threads, numerics));
          const std::vector<Index> some{1, 4, 21}, all{1, 2, 3, 4, 5, 6, 7, 21};
          for (const Index batch : threads == 2 ? all : some) {
            Matrix<float> y({m, rows});
            for (Index t = 0; t < m; t += batch)
              run(context, Linear{}, x.view().slice(0, t, std::min(batch, m - t)), packed,
                  y.view().slice(0, t, std::min(batch, m - t)));
            REQUIRE(same_bits(one, y, m, rows));
          }
        }
      }
    }
  }
}

TEST_CASE("dense products of many rows through oneDNN agree with their reference", "[linear][onednn]") {
#if NIBBLE_HAS_ONEDNN
  for (const char* name : {"f32", "f16", "bf16"}) {
    for (const Shape s : {Shape{1, 1}, Shape{33, 70}, Shape{70, 512}}) {
      ContextOptions options = on(cpu::available_isas().back(), 1);
      options.batch_invariant = false;
      if (std::string_view(name) == "bf16") options.isa = cpu::Isa::avx2;  // tiles would take it
      if (std::ranges::count(cpu::available_isas(), *options.isa) == 0) continue;
      Cpu one(options);
      const QuantizedTensor source = random_blocks(*find_format(name), s.rows, s.cols, 7);
      const Packed packed = Packed::pack(one, source.view());
      for (const Index m : {64, 203}) {
        const Matrix<float> x = normal_matrix(m, s.cols, 5);
        Guarded y(m, s.rows);
        run(one, Linear{}, x.view(), packed, y.view());
        CHECK(y.intact());
        CHECK(exact_misses(x, decoded(source.view()), y) == 0);
        options.threads = 3;
        Cpu many(options);
        Guarded z(m, s.rows);
        run(many, Linear{}, x.view(), packed, z.view());
        CHECK(same_bits(y, z, m, s.rows));
      }
    }
  }
#else
  WARN("skipped: this build has no oneDNN");
#endif
}

TEST_CASE("epilogues add a bias or the residual", "[linear]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 2, Numerics::exact));
    const QuantizedTensor source = random_blocks(*find_format("q4_1"), 45, 64, 3);
    const Packed packed = Packed::pack(context, source.view());
    const std::vector<float> bias = normal_values(45, 5);
    for (const Index m : {1, 9}) {
      const Matrix<float> x = normal_matrix(m, 64, 6);
      Matrix<float> plain({m, 45}), biased({m, 45}), added = normal_matrix(m, 45, 8);
      const Matrix<float> residual = added.clone();
      run(context, Linear{}, x.view(), packed, plain.view());
      run(context, Linear{epilogue::Bias{bias}}, x.view(), packed, biased.view());
      run(context, Linear{epilogue::Add{}}, x.view(), packed, added.view());
      for (Index t = 0; t < m; ++t)
        for (Index o = 0; o < 45; ++o) {
          REQUIRE(biased(t, o) == plain(t, o) + bias[static_cast<std::size_t>(o)]);
          REQUIRE(added(t, o) == residual(t, o) + plain(t, o));
        }
    }
  }
}

TEST_CASE("NaN and infinity in an activation reach every output of its token and no other", "[linear]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const char* name : {"f32", "q4_0", "q4_1", "q8_0", "q6_k", "iq4_nl"}) {
      for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
        Cpu context(on(isa, 1, numerics));
        const Packed packed = Packed::pack(context, random_blocks(*find_format(name), 40, 256, 3).view());
        for (const float bad : {nan, -nan, inf, -inf})
          for (const Index at : {Index{0}, Index{37}, Index{255}})
            for (const Index m : {1, 7}) {
              Matrix<float> x = normal_matrix(m, 256, 4), y({m, 40});
              x(m - 1, at) = bad;
              run(context, Linear{}, x.view(), packed, y.view());
              INFO(cpu::to_string(isa) << " " << name << ", " << bad << " at " << at << ", " << m << " rows");
              for (Index t = 0; t < m; ++t)
                for (Index o = 0; o < 40; ++o) REQUIRE(std::isfinite(y(t, o)) == (t != m - 1));
            }
      }
    }
  }
}

TEST_CASE("extreme but finite activations stay finite where their product is", "[linear]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 1));
    QuantizedTensor t = random_groups(integer::symmetric(4, 32), 33, 64, 3);
    const Packed packed = Packed::pack(context, t.view());
    for (const float scale : {1e-45f, 1e-38f, 1e-30f, 1e30f}) {
      Matrix<float> x = normal_matrix(6, 64, 4);
      for (float& v : x.span()) v *= scale;
      Guarded y(6, 33);
      run(context, Linear{}, x.view(), packed, y.view());
      CHECK(y.intact());
      for (Index r = 0; r < 6; ++r)
        for (Index o = 0; o < 33; ++o) {
          double sum = 0, abs = 0;
          const Matrix<float> w = decoded(t);
          for (Index k = 0; k < 64; ++k) {
            sum += double(x(r, k)) * double(w(o, k));
            abs += std::abs(double(x(r, k)) * double(w(o, k)));
          }
          // one part in 127 of a group's maximum, which is at most 8 times a typical value here
          REQUIRE_FALSE(misses(double(y(r, o)), sum, 0.1 * abs + 1e-33));
        }
    }
  }
}

TEST_CASE("linear refuses extents that do not fit and says which", "[linear]") {
  Cpu context(on(cpu::available_isas().front(), 1));
  const Packed packed = Packed::pack(context, normal_matrix(8, 4, 1).view());
  Matrix<float> x({3, 5}), y({3, 8});
  CHECK_THROWS_WITH(run(context, Linear{}, x.view(), packed, y.view()),
                    Catch::Contains("Linear") && Catch::Contains("[3, 5]") && Catch::Contains("[8, 4]") &&
                        Catch::Contains("[3, 8]"));
  Matrix<float> good({3, 4}), few({2, 8});
  CHECK_THROWS_AS(run(context, Linear{}, good.view(), packed, few.view()), Error);
  const std::vector<float> bias(7);
  CHECK_THROWS_WITH(run(context, Linear{epilogue::Bias{bias}}, good.view(), packed, y.view()),
                    Catch::Contains("bias"));
  const MatrixView<const float> columns(good.data(), {3, 4}, {1, 3});
  CHECK_THROWS_WITH(run(context, Linear{}, columns, packed, y.view()), Catch::Contains("contiguous"));
  Matrix<float> none({0, 4}), nothing({0, 8});
  CHECK_NOTHROW(run(context, Linear{}, none.view(), packed, nothing.view()));
}

TEST_CASE("packed codes take the bits they have, and two-level scales stay integers", "[linear][packed]") {
  // bits per weight: code + scales and minima, as cpu/packed_layout.hpp lays them out.
  const std::vector<std::pair<std::string_view, double>> sizes{
      {"q4_0", 4 + 16 / 32.0},
      {"q4_1", 4 + 32 / 32.0},
      {"q5_0", 5 + 16 / 32.0},
      {"q5_1", 5 + 32 / 32.0},
      {"q8_0", 8 + 16 / 32.0},
      {"iq4_nl", 4 + 16 / 32.0},
      {"q2_k", 2 + 2 * (16 / 256.0 + 8 / 16.0)},
      {"q3_k", 3 + 16 / 256.0 + 8 / 16.0},
      {"q4_k", 4 + 2 * (16 / 256.0 + 8 / 32.0)},
      {"q5_k", 5 + 2 * (16 / 256.0 + 8 / 32.0)},
      {"q6_k", 6 + 16 / 256.0 + 8 / 16.0},
      {"iq4_xs", 4 + 16 / 256.0 + 8 / 32.0}};
  Cpu context(on(cpu::Isa::scalar, 1));
  for (const auto& [name, bits] : sizes) {
    INFO(name);
    const FormatInfo* format = find_format(name);
    REQUIRE(format != nullptr);
    const Packed packed = Packed::pack(context, random_blocks(*format, 64, 512, 3));
    CHECK(double(packed.bytes()) * 8 / (64 * 512) == bits);
  }
}

TEST_CASE("packing tells which rows it has read, once and in order", "[linear][packed]") {
  Cpu context(on(cpu::Isa::scalar, 2));
  const auto check = [&](const QuantizedView& source) {
    Index next = 0, calls = 0;
    const Packed packed = Packed::pack(context, source, [&](Index first, Index end) {
      CHECK(first == next);
      CHECK(end > first);
      next = end;
      ++calls;
    });
    CHECK(next == source.rows());
    CHECK(calls > 1);  // the source is larger than what is read at once
    CHECK(unpack_differences(packed, source) == 0);
  };
  check(random_blocks(*find_format("q8_0"), 10007, 1024, 5));
  check(random_blocks(*find_format("f16"), 10007, 512, 5));
}
