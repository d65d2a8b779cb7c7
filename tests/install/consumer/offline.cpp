// SPDX-License-Identifier: MIT
// Offline use: quantize.hpp and Eigen, nothing to link.
#include <nibble/quantize.hpp>

#include <Eigen/Core>
#include <cstdio>

int main() {
  Eigen::Matrix<float, 8, 64, Eigen::RowMajor> weights;
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 64; ++c) weights(r, c) = 0.01f * static_cast<float>((r * 64 + c) % 17 - 8);
  const nibble::QuantizedTensor quantized =
      nibble::quant::quantize(nibble::quant::RtnFormat{nibble::find_format("q4_0")}, nibble::view_of(weights));
  std::printf("offline: %lld x %lld\n", static_cast<long long>(quantized.rows()),
              static_cast<long long>(quantized.cols()));
  return quantized.rows() == 8 && quantized.cols() == 64 ? 0 : 1;
}
