// SPDX-License-Identifier: MIT
// INT8 tiles give the bits of the kernels of AVX-512 and of dot_small, for every format, number of rows and panels,
// with the largest codes and activations, and where activations are not finite. Runs where the machine has AMX, or
// where the build emulates it (NIBBLE_EMULATED_ISAS=amx).
#include <limits>

#include "cpu/packed_impl.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "support/tiles.hpp"
#include "support/weights.hpp"

using namespace nibble;
using namespace nibble::test;
using Packed = PackedMatrix<cpu::Backend>;

namespace {

constexpr Index rows = cpu::dot_tile_rows, columns = 2 * cpu::panel_rows, offset = 3;

struct Wide {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, mins;
  cpu::WidePanel panel{};

  Wide(const cpu::KernelTable& k, const Packed& w, Index index) {
    const cpu::PackedLayout& l = w.impl()->layout;
    codes.resize(static_cast<std::size_t>(l.chunks * cpu::chunk_cols * cpu::panel_rows));
    scales.resize(static_cast<std::size_t>(l.chunks * l.sets * cpu::panel_rows));
    mins.resize(scales.size());
    panel = {codes.data(), scales.data(), mins.data(), 0};
    k.widen(l, w.impl()->panel(index), panel);
  }
};

struct Rows {
  std::vector<std::int8_t> q;
  std::vector<float> scale, scaled_sum;
  std::vector<std::int32_t> sum;
  cpu::QuantizedRows view{};

  Rows(const cpu::KernelTable& k, const cpu::PackedLayout& l, const Matrix<float>& x) {
    const auto groups = static_cast<std::size_t>(x.extent(0) * l.chunks), sets = std::size_t{l.sets};
    q.resize(groups * cpu::chunk_cols);
    scale.resize(groups);
    scaled_sum.resize(groups * sets);
    sum.resize(groups * sets);
    view = {q.data(), scale.data(), sum.data(), scaled_sum.data(), l.chunks, l.sets};
    for (Index r = 0; r < x.extent(0); ++r) k.quantize_row(&x(r, 0), x.extent(1), r, view);
  }
};

/// NaNs need not agree in their bits, on which no kernel depends.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Elements of which the level's dot_tile has other bits than dot_small, and writes to where nothing belongs.
Index differences(const cpu::KernelTable& k, const Packed& w, const Rows& x, Index m, bool two) {
  const cpu::PackedLayout& l = w.impl()->layout;
  const Wide a(k, w, 0), b(k, w, l.panels - 1);
  std::vector<float> c(static_cast<std::size_t>((rows + 1) * columns), std::bit_cast<float>(poison)), small(4 * 32);
  k.dot_tile(l, a.panel, two ? b.panel : cpu::WidePanel{}, x.view, offset, m, c.data());
  Index wrong = 0;
  for (Index r = 0; r < m; ++r)
    for (Index p = 0; p < 2; ++p) {
      if (p == 0 || two) k.dot_small(l, w.impl()->panel(p == 0 ? 0 : l.panels - 1), x.view, offset + r, 1, small.data());
      else std::fill(small.begin(), small.end(), std::bit_cast<float>(poison));
      for (Index i = 0; i < cpu::panel_rows; ++i)
        wrong += !same(c[static_cast<std::size_t>(r * columns + p * cpu::panel_rows + i)],
                       small[static_cast<std::size_t>(i)]);
    }
  for (Index i = rows * columns; i < (rows + 1) * columns; ++i)
    wrong += std::bit_cast<std::uint32_t>(c[static_cast<std::size_t>(i)]) != poison;
  return wrong;
}

/// Random rows; some of the largest activations all, some not finite in one column.
Matrix<float> activations(Index cols) {
  Matrix<float> x = normal_matrix(rows + offset, cols, 9);
  for (Index i = 0; i < cols; ++i) {
    x(offset, i) = 1;
    x(offset + 1, i) = -1;
    x(offset + 2, i) = i % 2 == 0 ? 1.0f : -1.0f;
  }
  x(offset + 3, cols / 2) = std::numeric_limits<float>::quiet_NaN();
  x(offset + 4, cols - 1) = std::numeric_limits<float>::infinity();
  x(offset + 20, 0) = -std::numeric_limits<float>::infinity();
  return x;
}

void check(const QuantizedView& source) {
  Cpu context(with_tiles(1));
  const Packed w = Packed::pack(context, source);
  if (!w.impl()->has_codes()) return;
  const cpu::KernelTable& amx = context.kernels();
  const Rows x(amx, w.impl()->layout, activations(source.cols()));
  for (const Index m : {1, 4, 6, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48})
    for (const bool two : {false, true}) {
      INFO(m << " rows, " << source.cols() << " columns, " << (two ? "two panels" : "one panel"));
      CHECK(differences(amx, w, x, m, two) == 0);
    }
  const cpu::KernelTable& vectors = cpu::kernels_of(cpu::Isa::avx512vnni);
  REQUIRE(vectors.dot_tile != amx.dot_tile);
  for (const Index m : {5, 48}) CHECK(differences(vectors, w, x, m, true) == 0);
}

}  // namespace

TEST_CASE("INT8 tiles have the bits of dot_small for every block format", "[linear][amx]") {
  if (!has_tiles()) return;
  for (const FormatInfo* f : all_formats()) {
    if (f->dense) continue;
    DYNAMIC_SECTION(f->name) {
      const Index block = f->block_size;
      for (const Index blocks : {1, 3, 11}) check(random_blocks(*f, 37, block * blocks, 7).view());
    }
  }
}

TEST_CASE("INT8 tiles have the bits of dot_small for integer groups, tails and the largest codes", "[linear][amx]") {
  if (!has_tiles()) return;
  for (const SpecCase& c : spec_cases()) {
    DYNAMIC_SECTION(c.name) {
      for (const Index cols : {1, 15, 17, 33, 256, 300, 577}) {
        QuantizedTensor source = random_groups(c.spec, 70, cols, 5);
        const auto most = static_cast<std::uint8_t>((1u << c.spec.bits) - 1);
        source.set_codes(0, 0, std::vector<std::uint8_t>(static_cast<std::size_t>(cols), most));
        source.set_codes(1, 0, std::vector<std::uint8_t>(static_cast<std::size_t>(cols), std::uint8_t{0}));
        check(source.view());
      }
    }
  }
}
