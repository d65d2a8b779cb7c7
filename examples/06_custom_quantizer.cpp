// SPDX-License-Identifier: MIT
// A quantizer of one's own: any type with a name and one member function. This one clips each block before
// rounding, by whatever share loses least: the largest weight gets less exact, and all others more.
#include <Eigen/Core>
#include <algorithm>
#include <iostream>
#include <limits>
#include <nibble/quantize.hpp>

using namespace nibble;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct ClippedBlocks {
  static constexpr std::string_view name = "clipped_blocks";
  const FormatInfo* format;

  QuantizedTensor quantize(MatrixView<const float> weights, const quant::Calibration&) const {
    QuantizedTensor out(*format, weights.rows(), weights.cols());
    const Index n = format->block_size;
    RowMajor clipped(1, n), decoded(1, n);
    for (Index r = 0; r < weights.rows(); ++r) {
      for (Index b = 0; b < weights.cols() / n; ++b) {
        const Eigen::Map<const RowMajor> block(weights.row(r).data() + b * n, 1, n);
        const float largest = block.cwiseAbs().maxCoeff();
        float least = std::numeric_limits<float>::infinity();
        for (const float share : {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f}) {
          clipped = block.cwiseMax(-share * largest).cwiseMin(share * largest);
          const QuantizedTensor tried = quant::quantize_matrix(*format, view_of(std::as_const(clipped)));
          tried.decode(view_of(decoded));
          const float error = (decoded - block).squaredNorm();
          if (error >= least) continue;
          least = error;
          std::ranges::copy(tried.view().data(), out.row_data(r).begin() + b * format->block_bytes);
        }
      }
    }
    return out;
  }
};
static_assert(quant::Quantizer<ClippedBlocks>);

int main() {
  const RowMajor weights = RowMajor::Random(64, 256).array().cube();  // many small weights, few large ones
  const FormatInfo* q4_0 = find_format("q4_0");
  RowMajor decoded(weights.rows(), weights.cols());
  const auto report = [&](const auto& quantizer) {
    quant::quantize(quantizer, view_of(std::as_const(weights))).decode(view_of(decoded));
    std::cout << quantizer.name << ": relative error " << (decoded - weights).norm() / weights.norm() << '\n';
  };
  report(quant::RtnFormat{q4_0});
  report(ClippedBlocks{q4_0});
}
