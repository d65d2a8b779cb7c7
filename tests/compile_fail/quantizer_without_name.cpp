// SPDX-License-Identifier: MIT
// A quantizer that does not say its name.
// expect: a quantizer needs `static constexpr std::string_view name`
#include "nibble/quant/quantizer.hpp"

struct Mine {
  nibble::QuantizedTensor quantize(nibble::MatrixView<const float>, const nibble::quant::Calibration&) const;
};

nibble::QuantizedTensor wrong(nibble::MatrixView<const float> weights) {
  return nibble::quant::quantize(Mine{}, weights);
}
