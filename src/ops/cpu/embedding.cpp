// SPDX-License-Identifier: MIT
// Embedding on the CPU: rows of a packed table, dequantized exactly.
#include "nibble/ops/embedding.hpp"

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/trace.hpp"
#include "ops/cpu/rows.hpp"

namespace nibble {

using namespace cpu_ops;

template <>
NIBBLE_API void Kernel<Embedding, cpu::Backend>::run(Context& context, const Embedding& op,
                                          VectorView<const std::int32_t> ids,
                                          const PackedMatrix<cpu::Backend>& table, MatrixView<float> y) {
  const Index row_bytes = table.rows() > 0 ? static_cast<Index>(table.traffic_bytes()) / table.rows() : 0;
  const TraceSpan span(context.trace(), "embedding", {ids.size() * row_bytes, 2 * y.size()});
  require_length("Embedding", "ids", ids.size(), y.rows());
  require_length("Embedding", "a row of y", y.cols(), table.cols());
  require_rows("Embedding", "y", y);
  for (Index t = 0; t < ids.size(); ++t)
    NIBBLE_EXPECTS(ids[t] >= 0 && ids[t] < table.rows(),
                   "Embedding: token id " + std::to_string(ids[t]) + " at position " + std::to_string(t) +
                       " is outside a vocabulary of " + std::to_string(table.rows()));
  if (y.empty()) return;
  for_rows(context, y.rows(), y.cols() * 8, [&](Index t) {
    table.unpack_row(ids[t], y.row(t));
    if (op.scale != 1.0f) context.kernels().scale(y.row(t).data(), y.cols(), op.scale);
  });
}

}  // namespace nibble
