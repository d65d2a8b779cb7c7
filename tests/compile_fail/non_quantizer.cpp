// SPDX-License-Identifier: MIT
// Something that is no quantizer at all: the message states the signature to write.
// expect: a quantizer needs `QuantizedTensor quantize\(MatrixView<const float> weights, const Calibration&\) const`
#include "nibble/quant/quantizer.hpp"

struct Mine {
  static constexpr std::string_view name = "mine";
  float quantize(float weight) const { return weight; }
};

nibble::QuantizedTensor wrong(nibble::MatrixView<const float> weights) {
  return nibble::quant::quantize(Mine{}, weights);
}
