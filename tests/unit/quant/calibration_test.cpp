// SPDX-License-Identifier: MIT
// Channel statistics and the checks on calibration.
#include <limits>
#include <vector>

#include "nibble/quant/calibration.hpp"
#include "nibble/quant/scheme.hpp"
#include "support/catch.hpp"

using namespace nibble;
using namespace nibble::quant;

TEST_CASE("the mean square of each channel is accumulated over batches", "[calibration]") {
  const std::vector<float> a{1, 2, 3, 4}, b{5, 6};
  ChannelStatistics s(2);
  CHECK(s.mean_square() == std::vector<float>{0, 0});
  s.add(MatrixView<const float>(a.data(), {2, 2}));
  s.add(MatrixView<const float>(b.data(), {1, 2}));
  CHECK(s.tokens() == 3);
  CHECK(s.mean_square() == std::vector<float>{static_cast<float>(35 / 3.0), static_cast<float>(56 / 3.0)});
  CHECK_THROWS_AS(s.add(MatrixView<const float>(a.data(), {1, 3})), Error);
  const std::vector<float> bad{0, 0, 0, std::numeric_limits<float>::infinity()};
  CHECK_THROWS_WITH(s.add(MatrixView<const float>(bad.data(), {2, 2})), Catch::Contains("[1, 1]"));
}

TEST_CASE("calibration that does not fit is refused", "[calibration]") {
  const std::vector<float> w{1, 2, 3}, negative{1, -1, 1}, nan{1, 1, std::numeric_limits<float>::quiet_NaN()};
  CHECK_NOTHROW(Calibration{}.require_fits(7));
  CHECK_NOTHROW(Calibration{.importance = w}.require_fits(3));
  CHECK_THROWS_WITH(Calibration{.importance = w}.require_fits(4), Catch::Contains("3 channels"));
  CHECK_THROWS_WITH(Calibration{.importance = negative}.require_fits(3), Catch::Contains("channel 1"));
  CHECK_THROWS_WITH(Calibration{.importance = nan}.require_fits(3), Catch::Contains("channel 2"));
  const Calibration h{.hessian = MatrixView<const float>(w.data(), {1, 3})};
  CHECK_THROWS_WITH(h.require_fits(3), Catch::Contains("[1, 3]"));
}

TEST_CASE("schemes become specs in the words of storage", "[scheme]") {
  CHECK(Scheme{}.spec() == integer::symmetric(4, 128));
  CHECK(Scheme{.symmetry = Symmetry::asymmetric, .group = 64}.spec() == integer::asymmetric(4, 64));
  CHECK(Scheme{.bits = 8, .symmetry = Symmetry::narrow, .granularity = Granularity::channel}.spec() ==
        integer::symmetric_narrow(8, 0));
  CHECK(Scheme{.bits = 3, .symmetry = Symmetry::float_min, .scale = DType::bf16}.spec() ==
        integer::affine_min(3, 128, DType::bf16));
  CHECK(Scheme{.granularity = Granularity::block}.spec().group == GroupShape{GroupKind::block, 128, 128});
  CHECK(Scheme{.granularity = Granularity::tensor}.spec().group.kind == GroupKind::tensor);
  CHECK_THROWS_AS(Scheme{.bits = 9}.spec(), Error);
  CHECK_THROWS_AS((Scheme{.bits = 1, .symmetry = Symmetry::narrow}.spec()), Error);
}
