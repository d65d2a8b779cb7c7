// SPDX-License-Identifier: MIT
// Model: a decoder loaded from a file or from memory. Immutable after loading and shareable between
// threads; what changes during inference lives in ExecutionContext and SequenceState, which the caller owns.
//
//   Context ctx;
//   const Model model = Model::load(ctx, "model.gguf");
//   SequenceState state = model.new_sequence({.max_tokens = 2048});
//   const BatchItem item{.sequence = &state, .tokens = ids};
//   const Logits logits = model.forward(ctx, {&item, 1});
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nibble/backend/cpu.hpp"
#include "nibble/backend/pack_options.hpp"
#include "nibble/cache/sequence_state.hpp"
#include "nibble/core/export.hpp"
#include "nibble/core/log.hpp"
#include "nibble/core/result.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/io/weight_source.hpp"
#include "nibble/model/block_spec.hpp"
#include "nibble/model/observer.hpp"
#include "nibble/text/chat_template.hpp"
#include "nibble/text/tokenizer.hpp"

namespace nibble {

/// Which rows of logits a batch item wants.
enum class LogitsOf { none, last, all };

/// New tokens of one sequence. Give `tokens` or, instead, `embeddings`.
struct BatchItem {
  SequenceState* sequence = nullptr;
  std::span<const Token> tokens{};
  MatrixView<const float> embeddings{};    ///< [tokens, hidden], used as they are (already scaled)
  LogitsOf logits = LogitsOf::last;
};

/// Logits of the wanted rows, in the order of items and tokens.
class Logits {
 public:
  Logits() = default;
  explicit Logits(Matrix<float> values) : values_(std::move(values)) {}
  Index rows() const noexcept { return values_.extent(0); }
  Index vocabulary() const noexcept { return values_.extent(1); }
  std::span<const float> row(Index i) const noexcept { return values_.view().row(i); }
  std::span<float> row(Index i) noexcept { return values_.view().row(i); }
  MatrixView<const float> view() const noexcept { return values_.view(); }

 private:
  Matrix<float> values_;
};

struct LoadOptions {
  Progress progress{};        ///< (tensors done, tensors in all, name)
  std::stop_token stop{};
  LogSink log{};
  bool tokenizer = true;      ///< false: weights only, tokenizer() then throws
  PackOptions packing{};      ///< of all matrices; SparsePacking::automatic suits any model. Without a memory of its
                              ///< own, weights lie in large pages of the context's
};

struct SequenceOptions {
  Index max_tokens = 0;       ///< 0 = the model's trained context
  DType dtype = DType::f16;   ///< of keys and values: f32, f16 or i8
  MemoryResource* memory = default_memory();
};

class NIBBLE_API Model {
 public:
  using Context = ExecutionContext<cpu::Backend>;

  /// Loads a GGUF file; weights are packed for `context`'s instruction set and can be run by any context
  /// with the same one. Throws Error naming file, tensor or metadata key.
  static Model load(Context& context, const std::filesystem::path& path, const LoadOptions& options = {});
  static Result<Model> try_load(Context& context, const std::filesystem::path& path,
                                const LoadOptions& options = {});
  /// Loads from any source of weights and metadata (another container, tensors in memory).
  static Model from_source(Context& context, const WeightSource& source, const LoadOptions& options = {});

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelSpec& spec() const noexcept;
  Index layers() const noexcept { return static_cast<Index>(spec().blocks.size()); }
  Index hidden() const noexcept { return spec().hidden; }
  Index vocabulary() const noexcept { return spec().vocabulary; }
  /// Throws Error{unsupported} when the source has none or it was not asked for.
  const Tokenizer& tokenizer() const;
  /// The model's own chat template, null when it has none. Throws when the template cannot be parsed.
  const ChatTemplate* chat_template() const;
  /// Bytes of packed weights.
  std::size_t weight_bytes() const noexcept;

  SequenceState new_sequence(const SequenceOptions& options = {}) const;

  /// Runs new tokens of any number of sequences and appends them to their states. On an error no state has
  /// advanced. A row's result does not depend on what else is in the batch.
  /// Throws Error{invalid_argument} (bad token, full sequence, a sequence twice), Error{cancelled}.
  Logits forward(Context& context, std::span<const BatchItem> batch,
                 std::optional<LayerObserver> observer = std::nullopt) const;

  /// Forgets positions [begin, begin + count) of a sequence and closes the gap: the following keys are turned
  /// to their new positions. What a chat does when its context is full. Hidden states of later tokens were
  /// computed with the forgotten ones in view, so this is not the same as never having seen them.
  void discard(Context& context, SequenceState& state, Index begin, Index count) const;

  // The pieces of `forward`, for loops of one's own:

  /// hidden[tokens, hidden] = embedding rows, scaled as the model wants.
  void embed(Context& context, std::span<const Token> tokens, MatrixView<float> hidden) const;
  /// Layers [first, last) on hidden[tokens, hidden], the next tokens of `state`. Room is reserved, keys and
  /// values are written, but the state does not advance: call state.advance(tokens) after the last layer.
  void run_layers(Context& context, MatrixView<float> hidden, SequenceState& state, Index first, Index last) const;
  /// logits[tokens, vocabulary] of final hidden states.
  void head(Context& context, MatrixView<const float> hidden, MatrixView<float> logits) const;

 private:
  struct Body;
  explicit Model(std::unique_ptr<Body> body) noexcept;
  std::unique_ptr<Body> body_;
};

}  // namespace nibble
