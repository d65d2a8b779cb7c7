// SPDX-License-Identifier: MIT
// Whole-model loading on hostile bytes: metadata, shapes, formats, tokenizer and template together, then one
// step. A file either gives an Error or a model that runs; nothing else.
#include <cstddef>
#include <cstdint>
#include <span>

#include "nibble/core/error.hpp"
#include "nibble/model/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nibble;
  static ExecutionContext<cpu::Backend> context({.threads = 1});
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const GgufWeightSource source(GgufFile::from_memory(bytes));
    const Model model = Model::from_source(context, source);
    SequenceState state = model.new_sequence({.max_tokens = 4});
    const Token tokens[] = {0, static_cast<Token>(model.vocabulary() - 1)};
    const BatchItem item{.sequence = &state, .tokens = tokens};
    (void)model.forward(context, {&item, 1});
  } catch (const Error&) {
  }
  return 0;
}
