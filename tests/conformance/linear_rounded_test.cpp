// SPDX-License-Identifier: MIT
// Linear on BF16 tiles: against its double reference with rounded operands, for all formats and tails; the tile
// products bit for bit against the instruction as its manual defines it; which products take this path; NaN and
// infinity arrive. Runs where the machine has AMX, or where the build emulates it (NIBBLE_EMULATED_ISAS=amx).
#include <cstring>
#include <limits>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/float_types.hpp"
#include "nibble/ops/linear.hpp"
#include "support/tiles.hpp"
#include "support/tolerance.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using Packed = PackedMatrix<cpu::Backend>;

namespace {

double rounded(float v) { return double(float(bfloat16(v))); }

Index rounded_misses(MatrixView<const float> x, const Matrix<float>& w, const Guarded& y) {
  Index wrong = 0;
  for (Index t = 0; t < x.rows(); ++t)
    for (Index o = 0; o < w.extent(0); ++o) {
      double sum = 0, abs = 0;
      for (Index k = 0; k < x.cols(); ++k) {
        const double p = rounded(x(t, k)) * rounded(w(o, k));
        sum += p;
        abs += std::abs(p);
      }
      wrong += misses(double(y(t, o)), sum, dot_bound(double(x.cols()), abs));
    }
  return wrong;
}

void check_source(Cpu& context, const QuantizedView& source, const std::vector<Index>& batches) {
  const Packed packed = Packed::pack(context, source);
  const Matrix<float> w = decoded(source);
  for (const Index m : batches) {
    INFO("shape " << m << " x " << source.rows() << " x " << source.cols());
    const Matrix<float> x = normal_matrix(m, source.cols(), static_cast<std::uint32_t>(m));
    Guarded y(m, source.rows());
    run(context, Linear{}, x.view(), packed, y.view());
    CHECK(y.intact());
    CHECK(rounded_misses(x, w, y) == 0);
  }
}

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
float flushed(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }

/// c += a b of one tile pair, as Intel's manual defines TDPBF16PS: even and odd columns are summed apart, each step a
/// fused multiply-add without subnormal numbers.
void reference_tile(const std::uint16_t* a, const std::uint16_t* b, float* c, Index c_stride) {
  for (Index m = 0; m < 16; ++m)
    for (Index n = 0; n < 16; ++n) {
      float sums[2] = {0, 0};
      for (Index k = 0; k < 16; ++k)
        for (Index half = 0; half < 2; ++half) {
          const float x = flushed(as_float(std::uint32_t{a[m * 32 + 2 * k + half]} << 16));
          const float w = flushed(as_float(std::uint32_t{b[k * 32 + 2 * n + half]} << 16));
          sums[half] = flushed(std::fma(x, w, sums[half]));
        }
      float& out = c[m * c_stride + n];
      out = flushed(flushed(out) + flushed(sums[0] + sums[1]));
    }
}

}  // namespace

TEST_CASE("BF16 products agree with their reference for every block format", "[linear][amx]") {
  if (!has_tiles()) return;
  for (const FormatInfo* f : all_formats()) {
    if (f->dense && std::string_view(f->name) != "bf16") continue;
    DYNAMIC_SECTION(f->name) {
      Cpu context(with_tiles(2));
      const bool small = f->block_size <= 32;
      if (f->dense) check_source(context, random_blocks(*f, 37, 65, 7).view(), {9, 40});
      check_source(context, random_blocks(*f, 33, small ? 32 : 256, 7).view(), {9, 15, 16, 17, 31, 32, 33, 48});
      check_source(context, random_blocks(*f, 70, small ? 672 : 768, 7).view(), {9, 33});
    }
  }
}

TEST_CASE("BF16 products agree with their reference for integer groups with tails", "[linear][amx]") {
  if (!has_tiles()) return;
  for (const SpecCase& c : spec_cases()) {
    if (std::string(c.name).ends_with("(floats)")) continue;  // stored dense
    DYNAMIC_SECTION(c.name) {
      Cpu context(with_tiles(1));
      for (const Index cols : {1, 31, 33, 65, 200, 577})
        check_source(context, random_groups(c.spec, 37, cols, 5).view(), {10, 35});
    }
  }
}

TEST_CASE("many rows, many columns and many threads change nothing", "[linear][amx]") {
  if (!has_tiles()) return;
  const QuantizedTensor source = random_blocks(*find_format("q4_k"), 165, 2048, 13);
  const Index m = 1100;  // more than one block of rows
  const Matrix<float> x = normal_matrix(m, 2048, 17);
  Cpu base(with_tiles(1));
  const Packed packed = Packed::pack(base, source.view());
  Matrix<float> one({m, 165}), y({m, 165});
  run(base, Linear{}, x.view(), packed, one.view());
  for (const Index threads : {2, 3, 16}) {
    Cpu context(with_tiles(threads));
    run(context, Linear{}, x.view(), packed, y.view());
    REQUIRE(same_bits(one, y, m, 165));
  }
  for (const Index batch : {9, 64, 700}) {  // the bits of a row depend on its path alone
    const Index rows = m / batch * batch;
    for (Index t = 0; t < rows; t += batch)
      run(base, Linear{}, x.view().slice(0, t, batch), packed, y.view().slice(0, t, batch));
    REQUIRE(same_bits(one, y, rows, 165));
  }
}

TEST_CASE("two weights together give the bits of each row block alone", "[linear][amx]") {
  if (!has_tiles()) return;
  Cpu base(with_tiles(1));
  const Index m = 400, rows = 300;  // more columns than L2 holds of so many rows
  const Packed gate = Packed::pack(base, random_blocks(*find_format("q4_k"), rows, 2048, 3).view());
  const Packed up = Packed::pack(base, random_blocks(*find_format("q6_k"), rows, 2048, 4).view());
  const Matrix<float> x = normal_matrix(m, 2048, 17);
  Matrix<float> expected({m, rows}), y({m, rows});
  for (Index t = 0; t < m; t += 50)
    run(base, GatedLinear{}, x.view().slice(0, t, 50), gate, up, expected.view().slice(0, t, 50));
  for (const Index threads : {1, 3}) {
    Cpu context(with_tiles(threads));
    for (int time = 0; time < 4; ++time) {  // each way to cut it that is being tried
      run(context, GatedLinear{}, x.view(), gate, up, y.view());
      REQUIRE(same_bits(expected, y, m, rows));
    }
  }
}

TEST_CASE("tile products have the bits that the manual defines", "[linear][amx]") {
  if (!has_tiles()) return;
  const cpu::KernelTable& k = cpu::kernels_of(cpu::available_isas().back());
  std::mt19937 random(3);
  for (const Index m : {1, 16, 17, 32, 33, 48}) {
    for (const int spread : {3, 60}) {  // exponents near one, and out to subnormal numbers
      constexpr Index chunks = 3, tile = 512;
      const Index groups = (m + 15) / 16;
      const auto value = [&] {
        const float v = std::ldexp(1.0f + float(random() % 256) / 256, int(random() % unsigned(2 * spread)) - spread);
        return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(random() % 2 != 0 ? v : -v) >> 16);
      };
      std::vector<std::uint16_t> a(static_cast<std::size_t>(groups * chunks * tile)), b(std::size_t{2 * chunks * tile});
      for (auto& v : a) v = value();
      for (auto& v : b) v = value();
      if (spread > 3) a[5] = 1;  // subnormal
      std::vector<float> c(static_cast<std::size_t>(groups * 16 * 32), 0.5f), expected = c;
      for (const bool accumulate : {false, true}) {
        if (!accumulate) std::fill(expected.begin(), expected.end(), 0.0f);
        for (Index g = 0; g < groups; ++g)
          for (Index half = 0; half < 2; ++half)
            for (Index chunk = 0; chunk < chunks; ++chunk)
              reference_tile(a.data() + (g * chunks + chunk) * tile, b.data() + (2 * chunk + half) * tile,
                             expected.data() + g * 16 * 32 + half * 16, 32);
        k.dot_rounded({a.data(), chunks * tile, b.data(), 0, c.data(), 32, 0, 32 * 32, m, 1, chunks, accumulate});
        REQUIRE(std::memcmp(c.data(), expected.data(), static_cast<std::size_t>(m * 32) * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("activations are rounded to nearest even, subnormal numbers to zero", "[linear][amx]") {
  if (!has_tiles()) return;
  const cpu::KernelTable& k = cpu::kernels_of(cpu::available_isas().back());
  std::mt19937 random(5);
  for (const Index cols : {1, 15, 16, 17, 31, 32, 33, 70}) {
    const Index chunks = (cols + 31) / 32;
    std::vector<float> x(static_cast<std::size_t>(cols));
    std::vector<std::uint16_t> tiles(static_cast<std::size_t>(chunks * 512), 0x7FFF);
    for (float& v : x) do v = as_float(static_cast<std::uint32_t>(random()));
      while (std::isnan(v));
    if (cols > 16) {
      x[0] = as_float(0x3F808000);  // ties
      x[1] = as_float(0x3F818000);
      x[2] = std::numeric_limits<float>::infinity();
      x[3] = std::numeric_limits<float>::max();
      x[4] = std::numeric_limits<float>::denorm_min();
    }
    k.round_rows(x.data(), cols, 1, cols, 3, {tiles.data(), chunks});
    for (Index i = 0; i < chunks * 32; ++i) {
      const float v = i < cols ? flushed(x[static_cast<std::size_t>(i)]) : 0.0f;
      const auto got = tiles[static_cast<std::size_t>(i / 32 * 512 + 3 * 32 + i % 32)];
      REQUIRE(got == std::bit_cast<std::uint16_t>(bfloat16(v)));
    }
    CHECK(tiles[0] == 0x7FFF);  // other rows are left alone
  }
}

TEST_CASE("few rows, batch invariance and refined products keep to codes", "[linear][amx]") {
  if (!has_tiles()) return;
  const QuantizedTensor source = random_blocks(*find_format("q4_0"), 64, 256, 3);
  ContextOptions options = with_tiles(1);
  Cpu tiles(options);
  options.batch_invariant = true;
  Cpu codes(options);
  const Packed packed = Packed::pack(tiles, source.view());
  const auto differ = [&](Index m, bool refined) {
    const Matrix<float> x = normal_matrix(m, 256, 4);
    Matrix<float> a({m, 64}), b({m, 64});
    Linear<> op{};
    op.refined = refined;
    run(tiles, op, x.view(), packed, a.view());
    run(codes, op, x.view(), packed, b.view());
    return !same_bits(a, b, m, 64);
  };
  CHECK_FALSE(differ(1, false));
  CHECK_FALSE(differ(8, false));
  CHECK(differ(9, false));
  CHECK_FALSE(differ(64, true));
}

TEST_CASE("NaN and infinity pass BF16 tiles to every output of their token and no other", "[linear][amx]") {
  if (!has_tiles()) return;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Cpu context(with_tiles(1));
  const Packed packed = Packed::pack(context, random_blocks(*find_format("q4_1"), 40, 256, 3).view());
  for (const float bad : {nan, -nan, inf, -inf})
    for (const Index at : {Index{0}, Index{37}, Index{255}}) {
      Matrix<float> x = normal_matrix(18, 256, 4), y({18, 40});
      x(17, at) = bad;
      run(context, Linear{}, x.view(), packed, y.view());
      for (Index t = 0; t < 18; ++t)
        for (Index o = 0; o < 40; ++o) REQUIRE(std::isfinite(y(t, o)) == (t != 17));
    }
}
