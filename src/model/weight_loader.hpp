// SPDX-License-Identifier: MIT
// Takes a model's tensors from a WeightSource by role, checks each shape against the spec, packs it, and in
// the end insists that nothing was left over: a tensor nobody asked for means the file is another model.
#pragma once

#include <set>
#include <string>

#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/io/weight_source.hpp"
#include "nibble/model/arch.hpp"
#include "nibble/model/load_tokenizer.hpp"
#include "nibble/model/model.hpp"

namespace nibble {

class WeightLoader {
 public:
  using Context = ExecutionContext<cpu::Backend>;

  WeightLoader(Context& context, const WeightSource& source, const Architecture& architecture,
               const LoadOptions& options);

  /// Whether the architecture has this role and the source this tensor.
  bool has(Role role, Index layer = 0) const;
  /// [rows, cols]; empty when the role is not of this architecture, or optional and absent.
  PackedMatrix<cpu::Backend> matrix(Role role, Index layer, Index rows, Index cols);
  /// [size] as FP32; empty likewise.
  Vector<float> vector(Role role, Index layer, Index size);
  /// The shape of a required matrix, before it is loaded.
  std::pair<Index, Index> shape(Role role) const;
  /// Throws Error{unsupported} naming a tensor that was not used.
  void finish() const;

 private:
  std::optional<StoredTensor> find(Role role, Index layer);
  [[noreturn]] void wrong_shape(const StoredTensor& tensor, const std::string& expected) const;
  void done(const StoredTensor& tensor);

  Context& context_;
  const WeightSource& source_;
  const Architecture& architecture_;
  const LoadOptions& options_;
  std::set<std::string, std::less<>> used_;
  long long total_ = 0;
};

}  // namespace nibble
