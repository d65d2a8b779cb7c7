// SPDX-License-Identifier: MIT
// The control of the quantizer cases: a user's own quantizer is one struct.
// expect: ok
#include "nibble/quant/quantizer.hpp"

struct Mine {
  static constexpr std::string_view name = "mine";
  nibble::QuantizedTensor quantize(nibble::MatrixView<const float>, const nibble::quant::Calibration&) const;
};

nibble::QuantizedTensor right(nibble::MatrixView<const float> weights) {
  return nibble::quant::quantize(Mine{}, weights);
}
