// SPDX-License-Identifier: MIT
// Round to nearest: every group by itself, no error feedback. With importances (mean square of the input
// channels) block formats search their scales for the least weighted error; integer schemes search always
// unless told not to. The base line of every other quantizer, and the fallback for any format.
#pragma once

#include <vector>

#include "nibble/format/formats.hpp"
#include "nibble/quant/grid.hpp"
#include "nibble/quant/quantizer.hpp"
#include "nibble/quant/scheme.hpp"

namespace nibble::quant {

/// Encodes rows [begin, end) of `weights` into `out`, which has blocks of one format. Rows are independent:
/// callers may split them over threads. `importance` is empty or one number per column. Throws
/// Error{not_finite} with coordinates, Error{unsupported} when the format has no encoder.
inline void encode_rows(MatrixView<const float> weights, std::span<const float> importance,
                        QuantizedTensor& out, Index begin, Index end) {
  const FormatInfo* f = out.format();
  NIBBLE_EXPECTS(f != nullptr && out.rows() == weights.rows() && out.cols() == weights.cols(),
                 "encode_rows needs blocks of the shape of the weights " + to_string(weights.extents()));
  NIBBLE_EXPECTS(importance.empty() || static_cast<Index>(importance.size()) == weights.cols(),
                 "one importance per column is needed");
  if (!f->has_encode())
    throw Error(Errc::unsupported, "format " + std::string(f->name) + " can be read, but not yet written");
  std::vector<float> copy;
  for (Index r = begin; r < end; ++r) {
    const MatrixView<const float> row = weights.slice(0, r, 1);
    require_finite(row, r);
    const float* values = row.data();
    if (weights.stride(1) != 1 && weights.cols() > 1) {
      copy.resize(static_cast<std::size_t>(weights.cols()));
      for (Index c = 0; c < weights.cols(); ++c) copy[static_cast<std::size_t>(c)] = row(Index{0}, c);
      values = copy.data();
    }
    f->encode(values, importance.empty() ? nullptr : importance.data(), out.row_data(r).data(),
              weights.cols() / f->block_size);
  }
}

/// A whole matrix in one block format; `importance` is empty or [cols]. Without importance the bytes are
/// those of the format's reference rule. Throws as encode_rows, and Error{invalid_argument} when cols is no
/// whole number of blocks.
inline QuantizedTensor quantize_matrix(const FormatInfo& format, MatrixView<const float> weights,
                                       std::span<const float> importance = {},
                                       MemoryResource* memory = default_memory()) {
  QuantizedTensor out(format, weights.rows(), weights.cols(), memory);
  encode_rows(weights, importance, out, 0, weights.rows());
  return out;
}

/// Round to nearest in a block format known at run time.
struct RtnFormat {
  static constexpr std::string_view name = "rtn";
  const FormatInfo* format;

  QuantizedTensor quantize(MatrixView<const float> weights, const Calibration& calibration) const {
    NIBBLE_EXPECTS(format != nullptr, "RtnFormat has no format");
    calibration.require_fits(weights.cols());
    return quantize_matrix(*format, weights, calibration.importance);
  }
};

/// Round to nearest in block format F: Rtn<Q4_0>{}.
template <EncodableFormat F>
struct Rtn {
  static constexpr std::string_view name = "rtn";

  QuantizedTensor quantize(MatrixView<const float> weights, const Calibration& calibration) const {
    return RtnFormat{&format_info<F>()}.quantize(weights, calibration);
  }
};

/// Round to nearest in integer groups of any scheme, or of any spec that integer groups can store.
class RtnInteger {
 public:
  static constexpr std::string_view name = "rtn";

  explicit RtnInteger(const Scheme& scheme, Fit fit = Fit::search) : grid_(scheme.spec(), fit) {}
  explicit RtnInteger(const QuantSpec& spec, Fit fit = Fit::search) : grid_(spec, fit) {}

  QuantizedTensor quantize(MatrixView<const float> weights, const Calibration& calibration) const {
    calibration.require_fits(weights.cols());
    require_finite(weights);
    QuantizedTensor out = grid_.make(weights.rows(), weights.cols());
    const QuantSpec& spec = grid_.spec();
    const Index tile_rows = spec.group.kind == GroupKind::tensor  ? weights.rows()
                            : spec.group.kind == GroupKind::block ? spec.group.rows
                                                                  : 1;
    const Index tile_cols = spec.group_cols(weights.cols());
    for (Index r = 0; r < weights.rows(); r += tile_rows)
      for (Index c = 0; c < weights.cols(); c += tile_cols)
        quantize_tile(weights.slice(0, r, std::min(tile_rows, weights.rows() - r))
                          .slice(1, c, std::min(tile_cols, weights.cols() - c)),
                      calibration.importance, r, c, out);
    return out;
  }

 private:
  /// One set of weights that share parameters, gathered in row order.
  void quantize_tile(MatrixView<const float> tile, std::span<const float> importance, Index row, Index col,
                     QuantizedTensor& out) const {
    const auto cols = static_cast<std::size_t>(tile.cols());
    std::vector<float> x(static_cast<std::size_t>(tile.size())), w(importance.empty() ? 0 : x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = tile(static_cast<Index>(i / cols), static_cast<Index>(i % cols));
      if (!w.empty()) w[i] = importance[static_cast<std::size_t>(col) + i % cols];
    }
    const GroupParams p = grid_.fit_group(x, w);
    std::vector<std::uint8_t> codes(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = grid_.nearest(p, x[i]);
    for (Index r = 0; r < tile.rows(); ++r)
      grid_.store(out, row + r, col, {&p, 1},
                  std::span<const std::uint8_t>(codes).subspan(static_cast<std::size_t>(r) * cols, cols));
  }

  IntegerGrid grid_;
};

static_assert(Grid<IntegerGrid> && Grid<BlockGrid<Q4_0>> && Grid<BlockGrid<IQ4_NL>>);
static_assert(Quantizer<RtnFormat> && Quantizer<Rtn<Q4_0>> && Quantizer<RtnInteger>);

}  // namespace nibble::quant
