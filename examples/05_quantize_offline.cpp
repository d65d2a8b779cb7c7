// SPDX-License-Identifier: MIT
// The quantization routines alone: one header, no library to link, no thread, no file. Views are zero-copy:
// an Eigen matrix here, a span or a strided pointer elsewhere.
#include <Eigen/Core>
#include <iomanip>
#include <iostream>
#include <nibble/quantize.hpp>

using namespace nibble;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  const RowMajor weights = RowMajor::Random(256, 512);
  const auto report = [&](const QuantizedTensor& q) {
    RowMajor decoded(weights.rows(), weights.cols());
    q.decode(view_of(decoded));
    std::cout << std::setw(44) << std::left << q.type_name() << std::setw(8) << q.bits_per_weight()
              << " bits, relative error " << (decoded - weights).norm() / weights.norm() << '\n';
  };

  // Block formats, as files of llama.cpp hold them, known at run time or at compile time:
  for (const char* name : {"q4_0", "q4_1", "q8_0"})
    report(quant::quantize_matrix(*find_format(name), view_of(weights)));
  report(quant::Rtn<IQ4_NL>{}.quantize(view_of(weights), {}));

  // Integer groups of any width, symmetric or not:
  for (const int bits : {2, 3, 4, 8})
    report(quant::RtnInteger(quant::Scheme{.bits = bits, .group = 64}).quantize(view_of(weights), {}));
}
