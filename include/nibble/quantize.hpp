// SPDX-License-Identifier: MIT
// Everything needed to quantize matrices offline: formats, quantized tensors, quantizers. Header-only, needs
// the standard library (and takes Eigen matrices); no thread, no file. For users: library headers include
// what they use.
#pragma once

#include "nibble/core/dtype.hpp"
#include "nibble/core/error.hpp"
#include "nibble/core/float_types.hpp"
#include "nibble/core/result.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/core/view.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/format/integer_group.hpp"
#include "nibble/format/quant_spec.hpp"
#include "nibble/format/quantized_tensor.hpp"
#include "nibble/quant/calibration.hpp"
#include "nibble/quant/eigen.hpp"
#include "nibble/quant/grid.hpp"
#include "nibble/quant/quantizer.hpp"
#include "nibble/quant/rtn.hpp"
#include "nibble/quant/scale_search.hpp"
#include "nibble/quant/scheme.hpp"
