// SPDX-License-Identifier: MIT
// Matrices packed without their pruned weights, on every instruction set of this machine: packing loses nothing,
// takes less memory where it should, and every product has the bits of the dense matrix.
#include <algorithm>
#include <limits>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/ops/linear.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using Packed = PackedMatrix<cpu::Backend>;

namespace {

constexpr PackOptions bitmap{SparsePacking::bitmap}, blocks{SparsePacking::blocks};

/// Which weights of a matrix stay.
struct Pruning {
  const char* name;
  double weights;     ///< share of weights kept
  double chunks = 1;  ///< share of 32 x 32 blocks kept
  bool two_of_four = false;
};

const std::vector<Pruning>& prunings() {
  static const std::vector<Pruning> all{{"none kept", 0},       {"1/64 kept", 1 / 64.0},
                                        {"1/4 kept", 0.25},     {"1/2 kept", 0.5},
                                        {"3/4 kept", 0.75},     {"all kept", 1},
                                        {"half of blocks", 1, 0.5}, {"a tenth of blocks, half of those", 0.5, 0.1},
                                        {"2:4", 1, 1, true}};
  return all;
}

/// The code that stands for zero.
std::uint8_t zero_code(const QuantizedView& v) {
  std::uint8_t code = 0;
  while (v.code_value(code) != 0) ++code;
  return code;
}

/// What of a matrix's codes a pruning leaves.
void prune_codes(std::vector<std::uint8_t>& codes, std::uint8_t zero, const Pruning& p, Index row,
                 std::mt19937& random) {
  const auto drawn = [&](double share) { return double(random() % 4096) < share * 4096; };
  for (std::size_t k = 0; k < codes.size(); ++k) {
    const auto block = static_cast<std::uint32_t>(row / 32 * 7919 + static_cast<Index>(k) / 32);
    const bool in_block = double(block * 2654435761u >> 20) < p.chunks * 4096;
    if (!drawn(p.weights) || !in_block || (p.two_of_four && (k / 4 + k) % 4 < 2)) codes[k] = zero;
  }
}

QuantizedTensor pruned_groups(const QuantSpec& spec, Index rows, Index cols, const Pruning& p) {
  QuantizedTensor t = random_groups(spec, rows, cols, 11);
  std::mt19937 random(5);
  const auto groups = static_cast<std::size_t>(t.view().groups_per_row());
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols));
  std::vector<float> scales(groups), mins(groups);
  for (Index r = 0; r < rows; ++r) {
    t.unpack_row(r, {codes, scales, mins});
    prune_codes(codes, zero_code(t), p, r, random);
    t.set_codes(r, 0, codes);
  }
  return t;
}

/// Of a block format that has an encoder: its own zeros, where values are zero.
QuantizedTensor pruned_blocks(const FormatInfo& f, Index rows, Index cols, const Pruning& p) {
  QuantizedTensor t = random_blocks(f, rows, cols, 7);
  std::mt19937 random(5);
  std::vector<float> values(static_cast<std::size_t>(cols));
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(cols));
  for (Index r = 0; r < rows; ++r) {
    t.view().decode_row(r, values);
    std::fill(kept.begin(), kept.end(), std::uint8_t{1});
    prune_codes(kept, 0, p, r, random);
    for (std::size_t k = 0; k < kept.size(); ++k) values[k] *= float(kept[k]);
    f.encode(values.data(), nullptr, t.row_data(r).data(), cols / f.block_size);
  }
  return t;
}

/// The same with two-level scales: code 32 of 6 bits stands for zero.
QuantizedTensor pruned_q6_k(Index rows, Index cols, const Pruning& p) {
  QuantizedTensor t = random_blocks(*find_format("q6_k"), rows, cols, 7);
  std::mt19937 random(5);
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(cols));
  for (Index r = 0; r < rows; ++r) {
    std::fill(kept.begin(), kept.end(), std::uint8_t{1});
    prune_codes(kept, 0, p, r, random);
    auto* blocks_of_row = reinterpret_cast<Q6_K::Block*>(t.row_data(r).data());
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k] != 0) continue;
      Q6_K::Block& b = blocks_of_row[k / 256];
      const std::size_t i = k % 256;
      b.ql[i / 128 * 64 + i % 64] &= static_cast<std::uint8_t>(i % 128 < 64 ? 0xF0 : 0x0F);
      std::uint8_t& high = b.qh[i / 128 * 32 + i % 32];
      const auto shift = static_cast<int>(i % 128 / 32 * 2);
      high = static_cast<std::uint8_t>((high & ~(3 << shift)) | 2 << shift);
    }
  }
  std::vector<float> values(static_cast<std::size_t>(cols));
  t.view().decode_row(0, values);
  REQUIRE((p.weights > 0 || std::count(values.begin(), values.end(), 0.0f) == cols));
  return t;
}

/// Equal values; zeros of either sign, since a block that is left out has lost its scale's.
Index unpack_differences(const Packed& packed, const QuantizedView& source) {
  const Matrix<float> w = decoded(source);
  std::vector<float> row(static_cast<std::size_t>(source.cols()));
  Index differing = 0;
  for (Index r = 0; r < source.rows(); ++r) {
    packed.unpack_row(r, row);
    for (Index k = 0; k < source.cols(); ++k) {
      const float a = row[static_cast<std::size_t>(k)], b = w(r, k);
      differing += !(std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a == 0 && b == 0));
    }
  }
  return differing;
}

Guarded product(Cpu& context, const Packed& w, MatrixView<const float> x) {
  Guarded y(x.rows(), w.rows());
  run(context, Linear{}, x, w, y.view());
  CHECK(y.intact());
  return y;
}

/// Sparse against dense: values, and products of few and many rows in both numerics.
void check_source(Cpu& context, const QuantizedView& source, PackOptions options, const std::vector<Index>& batches) {
  const Packed dense = Packed::pack(context, source), sparse = Packed::pack(context, source, options);
  REQUIRE(sparse.rows() == source.rows());
  REQUIRE(sparse.cols() == source.cols());
  REQUIRE(sparse.sparsity().packing == options.sparse);
  CHECK(unpack_differences(sparse, source) == 0);
  for (const Index m : batches) {
    const Matrix<float> x = normal_matrix(m, source.cols(), static_cast<std::uint32_t>(m));
    for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
      context.set_numerics(numerics);
      INFO(m << " x " << source.rows() << " x " << source.cols()
             << (numerics == Numerics::fast ? " fast" : " exact"));
      const Guarded a = product(context, dense, x.view()), b = product(context, sparse, x.view());
      CHECK(same_bits(a, b, m, source.rows()));
    }
  }
}

struct Shape {
  Index rows, cols;
};
const std::vector<Shape> shapes{{1, 1}, {31, 31}, {33, 100}, {70, 352}};

std::vector<SpecCase> bitmap_specs() {
  QuantSpec e2m1 = integer::symmetric(4, 16);
  e2m1.codebook = Codebook::e2m1;
  return {{"int8 g32", integer::symmetric(8, 32)},   {"int8 row", integer::symmetric(8, 0)},
          {"int8 g16", integer::symmetric(8, 16)},   {"int7 g128", integer::symmetric(7, 128)},
          {"int4 g32", integer::symmetric(4, 32)},   {"int4 g64", integer::symmetric(4, 64)},
          {"int4 g16", integer::symmetric(4, 16)},   {"int4 min g32", integer::affine_min(4, 32)},
          {"int8 min g64", integer::affine_min(8, 64, DType::f32)},
          {"int8 g64 f32", integer::symmetric(8, 64, DType::f32)},
          {"e2m1 g16", e2m1}};
}

}  // namespace

TEST_CASE("bitmap panels give the bits of dense ones", "[linear][sparse]") {
  for (const cpu::Isa isa : cpu::available_isas())
    for (const SpecCase& c : bitmap_specs())
      for (const Pruning& p : prunings()) {
        DYNAMIC_SECTION(cpu::to_string(isa) << " " << c.name << ", " << p.name) {
          Cpu context(on(isa, 2));
          for (const Shape s : shapes)
            check_source(context, pruned_groups(c.spec, s.rows, s.cols, p), bitmap,
                         s.cols == 100 ? std::vector<Index>{1, 2, 3, 4, 5, 40} : std::vector<Index>{1, 7});
        }
      }
}

TEST_CASE("panels in blocks give the bits of dense ones, for every width of code", "[linear][sparse]") {
  for (const cpu::Isa isa : cpu::available_isas())
    for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8})
      for (const Index group : {16, 32, 128, 0})
        for (const Pruning& p : prunings()) {
          DYNAMIC_SECTION(cpu::to_string(isa) << " int" << bits << " g" << group << ", " << p.name) {
            Cpu context(on(isa, 2));
            for (const Shape s : shapes)
              check_source(context, pruned_groups(integer::symmetric(bits, group), s.rows, s.cols, p), blocks,
                           s.cols == 100 ? std::vector<Index>{1, 2, 3, 4, 5, 40} : std::vector<Index>{1, 7});
          }
        }
}

TEST_CASE("block formats of files are packed sparsely", "[linear][sparse]") {
  for (const cpu::Isa isa : cpu::available_isas())
    for (const Pruning& p : prunings()) {
      DYNAMIC_SECTION(cpu::to_string(isa) << " " << p.name) {
        Cpu context(on(isa, 2));
        check_source(context, pruned_q6_k(70, 512, p), blocks, {1, 4, 40});
        for (const char* name : {"q8_0", "q4_0"})
          for (const PackOptions options : {bitmap, blocks})
            check_source(context, pruned_blocks(*find_format(name), 70, 512, p), options, {1, 4, 40});
      }
    }
}

TEST_CASE("what is pruned takes no memory", "[sparse][pack]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  const Index rows = 128, cols = 1024;
  const auto bytes_per_weight = [&](int bits, const Pruning& p, PackOptions options) {
    const QuantizedTensor t = pruned_groups(integer::symmetric(bits, 128), rows, cols, p);
    return double(Packed::pack(context, t, options).bytes()) / double(rows * cols);
  };
  const double scales = 2 / 128.0, mask = 1 / 8.0;
  for (const Pruning& p : {Pruning{"0", 0}, {"1/4", 0.25}, {"1/2", 0.5}, {"1", 1}}) {
    INFO(p.name);
    // Of random codes of 4 bits one in 16 stands for zero; the halves of a byte's codes differ in number.
    CHECK(bytes_per_weight(8, p, bitmap) == Approx(scales + mask + p.weights).margin(0.01));
    CHECK(bytes_per_weight(4, p, bitmap) == Approx(scales + mask + p.weights / 2 * 15 / 16).margin(0.035));
  }
  // A block's own scales: 64 bytes beside 1024 or 512.
  CHECK(bytes_per_weight(8, {"", 1, 0.25}, blocks) < 0.3 * 1.0625);
  CHECK(bytes_per_weight(4, {"", 1, 0.25}, blocks) < 0.3 * 0.5625);
  CHECK(bytes_per_weight(8, {"", 0}, blocks) < 0.003);
}

TEST_CASE("packing says what it found and chooses by it", "[sparse][pack]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    Cpu context(on(isa, 1));
    const bool reads_bitmaps = isa >= cpu::Isa::avx512vnni;
    INFO(cpu::to_string(isa));
    const auto packed = [&](const QuantizedTensor& t, SparsePacking packing) {
      return Packed::pack(context, t, PackOptions{packing}).sparsity();
    };
    const auto chosen = [&](int bits, const Pruning& p) {
      return packed(pruned_groups(integer::symmetric(bits, 32), 128, 512, p), SparsePacking::automatic).packing;
    };
    const SparsePacking best = reads_bitmaps ? SparsePacking::bitmap : SparsePacking::dense;
    CHECK(chosen(8, {"", 1}) == SparsePacking::dense);
    CHECK(chosen(8, {"", 0.5}) == best);
    CHECK(chosen(4, {"", 0.25}) == best);
    CHECK(chosen(8, {"", 1, 0.25}) == SparsePacking::blocks);
    CHECK(chosen(6, {"", 0.5}) == SparsePacking::dense);
    CHECK(chosen(6, {"", 1, 0.25}) == SparsePacking::blocks);
    const QuantizedTensor half = pruned_groups(integer::symmetric(8, 32), 64, 512, {"", 1, 1, true});
    CHECK(packed(half, SparsePacking::bitmap).most_of_four == 2);
    CHECK(packed(half, SparsePacking::bitmap).stored == Approx(0.5).margin(0.01));
    CHECK(packed(half, SparsePacking::dense).stored == 1);
    const QuantizedTensor plain = random_blocks(*find_format("f16"), 33, 64, 3);
    CHECK(packed(plain, SparsePacking::automatic).packing == SparsePacking::dense);
  }
}

TEST_CASE("a format that a sparse packing cannot hold is refused by name", "[sparse][pack]") {
  Cpu context(on(cpu::available_isas().back(), 1));
  for (const char* name : {"f16", "q5_0", "iq4_nl"})
    CHECK_THROWS_WITH(Packed::pack(context, random_blocks(*find_format(name), 33, 64, 3), bitmap),
                      Catch::Contains(name) && Catch::Contains("bitmap"));
  for (const char* name : {"f32", "q4_1", "iq4_nl"})
    CHECK_THROWS_WITH(Packed::pack(context, random_blocks(*find_format(name), 33, 64, 3), blocks),
                      Catch::Contains(name) && Catch::Contains("blocks"));
}

TEST_CASE("NaN and infinity reach every output through pruned weights too", "[linear][sparse]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const cpu::Isa isa : cpu::available_isas())
    for (const Pruning& p : {Pruning{"", 0}, {"", 0.5}, {"", 1, 0.3}})
      for (const PackOptions options : {bitmap, blocks})
        for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
          Cpu context(on(isa, 1, numerics));
          const Packed packed = Packed::pack(context, pruned_groups(integer::symmetric(8, 32), 70, 256, p), options);
          for (const float bad : {nan, inf})
            for (const Index m : {1, 7}) {
              Matrix<float> x = normal_matrix(m, 256, 4), y({m, 70});
              x(m - 1, 37) = bad;
              run(context, Linear{}, x.view(), packed, y.view());
              for (Index t = 0; t < m; ++t)
                for (Index o = 0; o < 70; ++o) REQUIRE(std::isfinite(y(t, o)) == (t != m - 1));
            }
        }
}

TEST_CASE("fused layers and BF16 tiles read sparse weights", "[linear][sparse]") {
  const Pruning p{"", 0.5, 0.5};
  for (const cpu::Isa isa : cpu::available_isas())
    for (const bool invariant : {true, false}) {
      ContextOptions options = on(isa, 2);
      options.batch_invariant = invariant;
      Cpu context(options);
      const QuantizedTensor gate = pruned_groups(integer::symmetric(8, 32), 96, 160, p),
                            up = pruned_groups(integer::symmetric(4, 32), 96, 160, p);
      const Packed dense_gate = Packed::pack(context, gate), dense_up = Packed::pack(context, up);
      for (const PackOptions one : {bitmap, blocks})
        for (const PackOptions other : {bitmap, blocks}) {
          const Packed sparse_gate = Packed::pack(context, gate, one), sparse_up = Packed::pack(context, up, other);
          for (const Index m : {1, 5, 40}) {
            const Matrix<float> x = normal_matrix(m, 160, 6);
            Matrix<float> a({m, 96}), b({m, 96});
            run(context, GatedLinear{}, x.view(), dense_gate, dense_up, a.view());
            run(context, GatedLinear{}, x.view(), sparse_gate, sparse_up, b.view());
            INFO(cpu::to_string(isa) << ", " << m << " rows");
            CHECK(same_bits(a, b, m, 96));
          }
        }
    }
}

TEST_CASE("sparse packing reads its source in order, row by row", "[sparse][pack]") {
  Cpu context(on(cpu::available_isas().back(), 2));
  const QuantizedTensor source = pruned_groups(integer::symmetric(8, 32), 5003, 1024, {"", 0.3});
  Index next = 0, passes = 0;
  const Packed packed = Packed::pack(context, source, bitmap, [&](Index first, Index end) {
    CHECK(first == next % source.rows());
    CHECK(end > first);
    next = end;
    passes += end == source.rows();
  });
  CHECK(next == source.rows());
  CHECK(passes == 2);
  CHECK(unpack_differences(packed, source) == 0);
}
