// SPDX-License-Identifier: MIT
// A quantizer of one's own: any type with a name and one member function. This one clips each row before
// rounding, by whatever share loses least; outliers then cost less precision for the rest.
#include <Eigen/Core>
#include <iostream>
#include <limits>
#include <nibble/quantize.hpp>

using namespace nibble;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct ClippedRows {
  static constexpr std::string_view name = "clipped_rows";
  const FormatInfo* format;

  QuantizedTensor quantize(MatrixView<const float> weights, const quant::Calibration&) const {
    QuantizedTensor out(*format, weights.rows(), weights.cols());
    RowMajor row(1, weights.cols()), decoded(1, weights.cols());
    for (Index r = 0; r < weights.rows(); ++r) {
      const auto original = Eigen::Map<const RowMajor>(weights.row(r).data(), 1, weights.cols());
      const float largest = original.cwiseAbs().maxCoeff();
      float least = std::numeric_limits<float>::infinity();
      for (const float share : {1.0f, 0.9f, 0.8f, 0.7f, 0.6f}) {
        row = original.cwiseMax(-share * largest).cwiseMin(share * largest);
        const QuantizedTensor tried = quant::quantize_matrix(*format, view_of(std::as_const(row)));
        tried.decode(view_of(decoded));
        const float error = (decoded - original).squaredNorm();
        if (error >= least) continue;
        least = error;
        std::ranges::copy(tried.view().data(), out.row_data(r).begin());
      }
    }
    return out;
  }
};
static_assert(quant::Quantizer<ClippedRows>);

int main() {
  RowMajor weights = RowMajor::Random(64, 256);
  for (Index r = 0; r < 64; ++r) weights(r, (r * 37) % 256) *= 3;  // one outlier a row
  const FormatInfo* q4_0 = find_format("q4_0");
  RowMajor decoded(weights.rows(), weights.cols());
  const auto report = [&](const auto& quantizer) {
    quant::quantize(quantizer, view_of(std::as_const(weights))).decode(view_of(decoded));
    std::cout << quantizer.name << ": relative error " << (decoded - weights).norm() / weights.norm() << '\n';
  };
  report(quant::RtnFormat{q4_0});
  report(ClippedRows{q4_0});
}
