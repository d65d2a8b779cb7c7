// SPDX-License-Identifier: MIT
#include "nibble/eval/layer_error.hpp"

#include <cmath>
#include <string>

#include "nibble/core/contract.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/format/quantized_tensor.hpp"

namespace nibble {

void HiddenErrorMeter::add(MatrixView<const float> reference, MatrixView<const float> candidate) {
  NIBBLE_EXPECTS(reference.extents() == candidate.extents(), "hidden states " + to_string(reference.extents()) +
                                                                 " and " + to_string(candidate.extents()));
  for (Index t = 0; t < reference.rows(); ++t) {
    const auto r = reference.row(t), c = candidate.row(t);
    double difference = 0, r_square = 0, c_square = 0, product = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double a = static_cast<double>(r[i]), b = static_cast<double>(c[i]);
      difference += (b - a) * (b - a);
      r_square += a * a;
      c_square += b * b;
      product += a * b;
    }
    const bool same = difference == 0;
    squares_.add(same ? 0 : r_square > 0 ? difference / r_square : 1);
    cosines_.add(same ? 1 : r_square > 0 && c_square > 0 ? product / std::sqrt(r_square) / std::sqrt(c_square) : 0);
  }
}

namespace {

QuantizedView view_of(const StoredTensor& t) {
  const FormatInfo* format = find_format_by_gguf(t.gguf_type());
  if (format == nullptr)
    throw Error(Errc::unsupported,
                "tensor " + std::string(t.name) + ": no decoder for type " + std::string(t.type->name));
  return QuantizedView::from_blocks(*format, t.rows(), t.cols(), t.bytes);
}

double relative_error(const QuantizedView& reference_rows, const QuantizedView& candidate_rows) {
  std::vector<float> r(static_cast<std::size_t>(reference_rows.cols())), c(r.size());
  double difference = 0, square = 0;
  for (Index row = 0; row < reference_rows.rows(); ++row) {
    reference_rows.decode_row(row, r);
    candidate_rows.decode_row(row, c);
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double a = static_cast<double>(r[i]), d = static_cast<double>(c[i]) - a;
      difference += d * d;
      square += a * a;
    }
  }
  if (difference == 0) return 0;
  return square > 0 ? std::sqrt(difference / square) : 1;
}

}  // namespace

double relative_weight_error(const StoredTensor& reference, const StoredTensor& candidate) {
  NIBBLE_EXPECTS(reference.rank == candidate.rank && reference.dims == candidate.dims,
                 "tensor " + std::string(candidate.name) + " has another shape than its reference");
  return relative_error(view_of(reference), view_of(candidate));
}

std::vector<TensorError> weight_errors(const WeightSource& reference, const WeightSource& candidate) {
  std::vector<TensorError> result;
  for (const std::string_view name : candidate.names()) {
    const StoredTensor c = candidate.require(name);
    const auto r = reference.find(name);
    if (!r || r->rank != c.rank || r->dims != c.dims) continue;
    const auto groups = candidate.quantized(name);
    result.push_back({std::string(name), std::string(r->type->name),
                      groups ? groups->type_name() : std::string(c.type->name),
                      groups ? relative_error(view_of(*r), *groups) : relative_weight_error(*r, c)});
    reference.release(name);
    candidate.release(name);
  }
  return result;
}

}  // namespace nibble
