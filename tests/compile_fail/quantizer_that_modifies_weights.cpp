// SPDX-License-Identifier: MIT
// A quantizer that wants to write to its caller's weights.
// expect: a quantizer needs `QuantizedTensor quantize
#include "nibble/quant/quantizer.hpp"

struct Mine {
  static constexpr std::string_view name = "mine";
  nibble::QuantizedTensor quantize(nibble::MatrixView<float>, const nibble::quant::Calibration&) const;
};

nibble::QuantizedTensor wrong(nibble::MatrixView<const float> weights) {
  return nibble::quant::quantize(Mine{}, weights);
}
