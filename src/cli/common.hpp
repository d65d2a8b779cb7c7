// SPDX-License-Identifier: MIT
// Options of the command line as options of the library.
#pragma once

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "nibble/io/gguf.hpp"
#include "nibble/runtime/generator.hpp"

namespace nibble::cli {

inline ContextOptions context_options(const ComputeOptions& o, Numerics fallback, std::stop_token stop = {}) {
  ContextOptions options;
  options.threads = o.threads;
  if (!o.isa.empty()) options.isa = cpu::parse_isa(o.isa);
  options.numerics = o.exact ? Numerics::exact : o.fast ? Numerics::fast : fallback;
  options.stop = std::move(stop);
  return options;
}

inline DType kv_dtype(const ComputeOptions& o, DType fallback = DType::f16) {
  return o.kv.empty() ? fallback : find_dtype(o.kv).value_or(fallback);
}

/// Throws UsageError for values out of range.
inline GeneratorOptions generator_options(const SamplingOptions& o, const ComputeOptions& compute) {
  GeneratorOptions options;
  options.sampler = o.sampler;
  options.max_tokens = o.max_tokens;
  options.stop_strings = o.stop_strings;
  options.sequence.max_tokens = o.ctx;
  options.sequence.dtype = kv_dtype(compute);
  try {
    options.validate();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return options;
}

inline double weights_of(const GgufFile& file) {
  double n = 0;
  for (const GgufTensor& t : file.tensors()) n += static_cast<double>(t.elements());
  return n;
}

/// Bits of the whole file per weight, vocabulary and all: what a model costs on disk.
inline double bits_per_weight(const GgufFile& file) {
  const double n = weights_of(file);
  return n > 0 ? 8.0 * static_cast<double>(file.file_bytes()) / n : 0;
}

}  // namespace nibble::cli
