// SPDX-License-Identifier: MIT
// Eigen matrices, spans and strided pointers are quantized where they lie, with the same bytes as a copy.
#include <vector>

#include <Eigen/Core>

#include "nibble/quantize.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<std::byte> bytes_of(const QuantizedTensor& t) {
  const auto d = t.view().data();
  return {d.begin(), d.end()};
}

}  // namespace

TEST_CASE("views of Eigen objects point into them", "[eigen]") {
  Eigen::MatrixXf m = Eigen::MatrixXf::Random(4, 64);
  const MatrixView<float> v = view_of(m);
  CHECK(v.data() == m.data());
  CHECK(v.rows() == 4);
  CHECK(v.stride(0) == 1);
  v(3, 2) = 9;
  CHECK(m(3, 2) == 9);
  const auto block = view_of(m.block(1, 8, 2, 32));
  CHECK(block.rows() == 2);
  CHECK(block(1, 31) == m(2, 39));
  const auto transposed = view_of(m.transpose());
  CHECK(transposed(5, 3) == m(3, 5));
  const std::vector<float> raw(200, 1.0f);
  const Eigen::Map<const RowMajor, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> map(raw.data(), 3, 32,
                                                                                         {64, 2});
  const MatrixView<const float> mapped = view_of(map);
  CHECK(mapped.stride(0) == 64);
  CHECK(mapped.stride(1) == 2);
  CHECK(mapped.data() == raw.data());
}

TEST_CASE("every memory layout quantizes to the same bytes", "[eigen]") {
  const Eigen::MatrixXf columns = Eigen::MatrixXf::Random(6, 96);
  const RowMajor rows = columns;
  std::vector<float> padded(6 * 200, -77.0f);
  for (Index r = 0; r < 6; ++r)
    for (Index c = 0; c < 96; ++c) padded[static_cast<std::size_t>(r * 200 + c * 2)] = columns(r, c);
  const MatrixView<const float> strided(padded.data(), {6, 96}, {200, 2});

  const quant::RtnInteger integer(
      quant::Scheme{.bits = 3, .symmetry = quant::Symmetry::asymmetric, .group = 40});
  const auto expect = bytes_of(quant::quantize(quant::Rtn<Q4_0>{}, view_of(rows)));
  const auto expect_integer = bytes_of(quant::quantize(integer, view_of(rows)));
  CHECK(expect.size() == 6 * 3 * 18);
  for (const MatrixView<const float> v : {MatrixView<const float>(view_of(columns)), strided}) {
    CHECK(bytes_of(quant::quantize(quant::Rtn<Q4_0>{}, v)) == expect);
    CHECK(bytes_of(quant::quantize(integer, v)) == expect_integer);
  }
}
