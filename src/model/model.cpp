// SPDX-License-Identifier: MIT
#include "nibble/model/model.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "cpu/page_arena.hpp"
#include "model/weight_loader.hpp"
#include "nibble/core/trace.hpp"
#include "nibble/layers/decoder_block.hpp"
#include "nibble/ops/embedding.hpp"

namespace nibble {

namespace {

/// Rows that go through the layers together: enough to amortize each weight read, little enough that
/// scratch memory stays small for prompts of any length.
constexpr Index max_step_tokens = 512;

/// One item's share of a step.
struct Slice {
  const BatchItem* item;
  Index done;   ///< tokens of the item before this step
  Index count;
};

Index item_tokens(const BatchItem& item) {
  return item.embeddings.rows() > 0 ? item.embeddings.rows() : static_cast<Index>(item.tokens.size());
}

}  // namespace

struct Model::Body {
  using B = cpu::Backend;

  ModelSpec spec;
  std::unique_ptr<MemoryResource> pages;  ///< of the matrices, so before them
  PackedMatrix<B> embedding;
  std::vector<layers::DecoderBlock<B>> blocks;
  layers::RmsNorm<B> output_norm;
  layers::Linear<B> output;
  std::optional<Tokenizer> tokenizer;
  std::variant<std::monostate, ChatTemplate, Error> chat_template;
  std::size_t weight_bytes = 0;

  void load(Context& ctx, const WeightSource& source, const LoadOptions& options);
  layers::DecoderBlock<B> load_block(WeightLoader& loader, Index layer, VectorView<const float> rope_divisors);
  void load_text(const Metadata& metadata, const LoadOptions& options);
  layers::Linear<B> linear(WeightLoader& loader, Role weight, std::optional<Role> bias, Index layer, Index out,
                           Index in);

  void check(std::span<const BatchItem> batch) const;
  void check_state(const SequenceState& state) const;
  /// False when the observer stopped.
  bool run(Context& ctx, MatrixView<float> hidden, std::span<const Slice> slices, Index first, Index last,
           const std::optional<LayerObserver>& observer) const;
  void embed(Context& ctx, std::span<const Token> tokens, MatrixView<float> hidden) const;
  void head(Context& ctx, MatrixView<const float> hidden, MatrixView<float> logits) const;
  /// Embeds, runs and writes the wanted logits rows of one step, from row `logits_row` on; returns the next row,
  /// or nothing when the observer stopped.
  std::optional<Index> step(Context& ctx, std::span<const Slice> slices, Index logits_row, MatrixView<float> logits,
                            const std::optional<LayerObserver>& observer) const;
};

// ---- loading -------------------------------------------------------------------------------------------------

layers::Linear<cpu::Backend> Model::Body::linear(WeightLoader& loader, Role weight, std::optional<Role> bias,
                                                 Index layer, Index out, Index in) {
  layers::Linear<B> l;
  l.weight = loader.matrix(weight, layer, out, in);
  if (bias) l.bias = loader.vector(*bias, layer, out);
  weight_bytes += l.weight.bytes();
  return l;
}

layers::DecoderBlock<cpu::Backend> Model::Body::load_block(WeightLoader& loader, Index layer,
                                                           VectorView<const float> rope_divisors) {
  const BlockSpec& b = spec.blocks[static_cast<std::size_t>(layer)];
  const AttentionSpec& a = b.attention;
  const Index hidden = spec.hidden, queries = checked::mul(a.heads, a.head_dim, "query size"),
              keys = checked::mul(a.kv_heads, a.head_dim, "key size"),
              values = checked::mul(a.kv_heads, a.value_dim, "value size"),
              heads = checked::mul(a.heads, a.value_dim, "attention size");
  const auto norm = [&](Role role, Index size) {
    return layers::RmsNorm<B>{loader.vector(role, layer, size), b.norm_eps};
  };
  layers::DecoderBlock<B> block;
  block.attention_norm = norm(Role::attention_norm, hidden);
  block.attention.spec = a;
  block.attention.query = linear(loader, Role::query, Role::query_bias, layer, queries, hidden);
  block.attention.key = linear(loader, Role::key, Role::key_bias, layer, keys, hidden);
  block.attention.value = linear(loader, Role::value, Role::value_bias, layer, values, hidden);
  block.attention.output = linear(loader, Role::attention_output, Role::attention_output_bias, layer, hidden, heads);
  block.attention.query_norm = norm(Role::query_norm, a.head_dim);
  block.attention.key_norm = norm(Role::key_norm, a.head_dim);
  block.attention.frequencies = layers::rope_frequencies(a.rope, rope_divisors);
  block.attention_post_norm = norm(Role::attention_post_norm, hidden);
  block.ffn_norm = norm(Role::ffn_norm, hidden);
  block.ffn.activation = b.activation;
  block.ffn.gate = linear(loader, Role::ffn_gate, {}, layer, b.ffn_hidden, hidden);
  block.ffn.up = linear(loader, Role::ffn_up, {}, layer, b.ffn_hidden, hidden);
  block.ffn.down = linear(loader, Role::ffn_down, {}, layer, hidden, b.ffn_hidden);
  block.ffn_post_norm = norm(Role::ffn_post_norm, hidden);
  return block;
}

void Model::Body::load_text(const Metadata& metadata, const LoadOptions& options) {
  if (!options.tokenizer || metadata.find("tokenizer.ggml.model") == nullptr) return;
  tokenizer.emplace(load_tokenizer(metadata));
  if (static_cast<Index>(tokenizer->vocab_size()) > spec.vocabulary)
    throw Error(Errc::malformed, metadata.source() + ": the tokenizer has " +
                                     std::to_string(tokenizer->vocab_size()) + " tokens, the embedding only " +
                                     std::to_string(spec.vocabulary) + " rows");
  if (metadata.find("tokenizer.chat_template") == nullptr) return;
  auto parsed = ChatTemplate::try_parse(metadata.get<std::string>("tokenizer.chat_template"));
  // A model whose template we cannot run still completes text: the error waits until the template is asked for.
  if (parsed) chat_template = *parsed;
  else chat_template = parsed.error().in(metadata.source() + ": tokenizer.chat_template");
}

void Model::Body::load(Context& ctx, const WeightSource& source, const LoadOptions& options) {
  const Metadata& metadata = source.metadata();
  const Architecture& architecture = find_architecture(metadata.get<std::string_view>("general.architecture"));
  spec = architecture.spec(metadata);
  LoadOptions loading = options;
  if (loading.packing.memory == nullptr) {
    pages = std::make_unique<cpu::PageArena>(ctx.memory());
    loading.packing.memory = pages.get();
  }
  WeightLoader loader(ctx, source, architecture, loading);

  const auto [rows, cols] = loader.shape(Role::token_embedding);
  if (spec.vocabulary == 0) spec.vocabulary = rows;
  embedding = loader.matrix(Role::token_embedding, 0, spec.vocabulary, spec.hidden);
  weight_bytes += embedding.bytes();
  load_text(metadata, options);

  Vector<float> divisors;
  if (loader.has(Role::rope_divisors))
    divisors = loader.vector(Role::rope_divisors, 0, spec.blocks.front().attention.rope.dimensions / 2);
  blocks.reserve(spec.blocks.size());
  for (Index l = 0; l < static_cast<Index>(spec.blocks.size()); ++l)
    blocks.push_back(load_block(loader, l, divisors.view()));

  output_norm = {loader.vector(Role::output_norm, 0, spec.hidden), spec.norm_eps};
  if (loader.has(Role::output)) output = linear(loader, Role::output, {}, 0, spec.vocabulary, spec.hidden);
  else output.weight = embedding;  // tied: shares the packed matrix
  output.refined = true;  // about a third of the fast mode's divergence would come from this one layer
  loader.finish();
}

// ---- running -------------------------------------------------------------------------------------------------

void Model::Body::check_state(const SequenceState& state) const {
  NIBBLE_EXPECTS(state.layers() == static_cast<Index>(blocks.size()),
                 "the sequence state has " + std::to_string(state.layers()) + " layers, the model " +
                     std::to_string(blocks.size()));
}

void Model::Body::check(std::span<const BatchItem> batch) const {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const BatchItem& item = batch[i];
    const std::string name = "batch item " + std::to_string(i);
    NIBBLE_EXPECTS(item.sequence != nullptr, name + " has no sequence");
    check_state(*item.sequence);
    NIBBLE_EXPECTS(item.tokens.empty() || item.embeddings.rows() == 0, name + " gives both tokens and embeddings");
    NIBBLE_EXPECTS(item_tokens(item) > 0, name + " is empty");
    NIBBLE_EXPECTS(item.embeddings.rows() == 0 || item.embeddings.cols() == spec.hidden,
                   name + ": embeddings have " + std::to_string(item.embeddings.cols()) + " columns, not " +
                       std::to_string(spec.hidden));
    for (Token t : item.tokens)
      NIBBLE_EXPECTS(t >= 0 && t < spec.vocabulary, name + ": token " + std::to_string(t) +
                                                         " is outside the vocabulary of " +
                                                         std::to_string(spec.vocabulary));
    for (std::size_t j = 0; j < i; ++j)
      NIBBLE_EXPECTS(batch[j].sequence != item.sequence, name + " names the sequence of item " + std::to_string(j));
  }
}

void Model::Body::embed(Context& ctx, std::span<const Token> tokens, MatrixView<float> hidden) const {
  nibble::run(ctx, Embedding{float(spec.embedding_scale)}, VectorView<const Token>(tokens), embedding, hidden);
}

void Model::Body::head(Context& ctx, MatrixView<const float> hidden, MatrixView<float> logits) const {
  const TraceSpan span(ctx.trace(), "head");  // around the span of its linear layer
  output(ctx, hidden, logits, output_norm.folded());
  if (spec.logit_soft_cap > 0) nibble::run(ctx, SoftCapLogits{float(spec.logit_soft_cap)}, logits);
}

bool Model::Body::run(Context& ctx, MatrixView<float> hidden, std::span<const Slice> slices, Index first, Index last,
                      const std::optional<LayerObserver>& observer) const {
  ArenaScope scope(ctx.arena());
  const auto positions = ctx.arena().take<Index>(hidden.rows());
  std::vector<SequenceRows> sequences;
  sequences.reserve(slices.size());
  Index row = 0;
  for (const Slice& s : slices) {
    for (Index i = 0; i < s.count; ++i)
      positions[static_cast<std::size_t>(row + i)] = s.item->sequence->tokens() + s.done + i;
    sequences.push_back({row, s.count, {}});
    row += s.count;
  }
  for (Index l = first; l < last; ++l) {
    throw_if_stopped(ctx.stop(), "inference");
    for (std::size_t i = 0; i < slices.size(); ++i)
      sequences[i].kv = slices[i].item->sequence->view(l, slices[i].done + slices[i].count);
    blocks[static_cast<std::size_t>(l)](ctx, hidden, VectorView<const Index>(positions), sequences);
    if (observer && (*observer)(l, hidden) == LayerAction::stop) return false;
  }
  return true;
}

std::optional<Index> Model::Body::step(Context& ctx, std::span<const Slice> slices, Index logits_row,
                                       MatrixView<float> logits, const std::optional<LayerObserver>& observer) const {
  ArenaScope scope(ctx.arena());
  Index rows = 0;
  for (const Slice& s : slices) rows += s.count;
  const auto hidden = ctx.arena().take<float>(Extents<2>{rows, spec.hidden});
  const auto wanted = ctx.arena().take<float>(Extents<2>{rows, spec.hidden});
  Index row = 0;
  for (const Slice& s : slices) {
    const auto part = hidden.slice(0, row, s.count);
    if (s.item->embeddings.rows() > 0) {
      for (Index i = 0; i < s.count; ++i)
        for (Index c = 0; c < spec.hidden; ++c) part(i, c) = s.item->embeddings(s.done + i, c);
    } else {
      embed(ctx, s.item->tokens.subspan(std::size_t(s.done), std::size_t(s.count)), part);
    }
    row += s.count;
  }
  if (observer && (*observer)(-1, hidden) == LayerAction::stop) return std::nullopt;
  if (!run(ctx, hidden, slices, 0, static_cast<Index>(blocks.size()), observer)) return std::nullopt;

  Index count = 0;
  row = 0;
  for (const Slice& s : slices) {
    const bool ends = s.done + s.count == item_tokens(*s.item);
    for (Index i = 0; i < s.count; ++i, ++row) {
      const bool want =
          s.item->logits == LogitsOf::all || (s.item->logits == LogitsOf::last && ends && i + 1 == s.count);
      if (want) std::ranges::copy(hidden.row(row), wanted.row(count++).begin());
    }
  }
  if (count > 0) head(ctx, wanted.slice(0, 0, count), logits.slice(0, logits_row, count));
  return logits_row + count;
}

// ---- the public face -----------------------------------------------------------------------------------------

Model::Model(std::unique_ptr<Body> body) noexcept : body_(std::move(body)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(Context& context, const std::filesystem::path& path, const LoadOptions& options) {
  const auto source = GgufWeightSource::open(path);
  if (options.log)
    for (const std::string& w : source.file().warnings()) options.log(LogLevel::warning, w);
  return from_source(context, source, options);
}

Result<Model> Model::try_load(Context& context, const std::filesystem::path& path, const LoadOptions& options) {
  return try_invoke([&] { return load(context, path, options); });
}

Model Model::from_source(Context& context, const WeightSource& source, const LoadOptions& options) {
  auto body = std::make_unique<Body>();
  body->load(context, source, options);
  return Model(std::move(body));
}

const ModelSpec& Model::spec() const noexcept { return body_->spec; }
std::size_t Model::weight_bytes() const noexcept { return body_->weight_bytes; }

const Tokenizer& Model::tokenizer() const {
  if (!body_->tokenizer) throw Error(Errc::unsupported, "this model was loaded without a tokenizer");
  return *body_->tokenizer;
}

const ChatTemplate* Model::chat_template() const {
  if (const auto* error = std::get_if<Error>(&body_->chat_template)) throw *error;
  return std::get_if<ChatTemplate>(&body_->chat_template);
}

SequenceState Model::new_sequence(const SequenceOptions& options) const {
  std::vector<LayerState> layers;
  for (const BlockSpec& b : body_->spec.blocks)
    layers.push_back({{options.dtype, b.attention.kv_heads, b.attention.head_dim, b.attention.value_dim},
                      b.attention.window});
  return SequenceState(layers, options.max_tokens > 0 ? options.max_tokens : body_->spec.context, options.memory);
}

Logits Model::forward(Context& context, std::span<const BatchItem> batch, std::optional<LayerObserver> observer) const {
  body_->check(batch);
  Index rows = 0;
  for (const BatchItem& item : batch) {
    item.sequence->reserve(item_tokens(item));
    rows += item.logits == LogitsOf::all ? item_tokens(item) : (item.logits == LogitsOf::last ? 1 : 0);
  }
  Logits logits(Matrix<float>({rows, body_->spec.vocabulary}, context.memory()));
  const MatrixView<float> out(rows > 0 ? logits.row(0).data() : nullptr, {rows, body_->spec.vocabulary});

  // Rows of a step are independent of each other, so where a long batch is cut changes no result; an
  // observer, however, is promised the whole batch at once.
  const Index limit = observer ? std::numeric_limits<Index>::max() : max_step_tokens;
  std::vector<Slice> slices;
  Index filled = 0, row = 0;
  const auto flush = [&] {
    if (slices.empty()) return true;
    const auto next = body_->step(context, slices, row, out, observer);
    slices.clear();
    filled = 0;
    if (next) row = *next;
    return next.has_value();
  };
  bool completed = true;
  for (const BatchItem& item : batch) {
    for (Index done = 0; done < item_tokens(item) && completed;) {
      const Index count = std::min(item_tokens(item) - done, limit - filled);
      slices.push_back({&item, done, count});
      filled += count;
      done += count;
      if (filled == limit) completed = flush();
    }
  }
  if (completed) completed = flush();
  if (!completed) return Logits(Matrix<float>({0, body_->spec.vocabulary}));
  for (const BatchItem& item : batch) item.sequence->advance(item_tokens(item));
  return logits;
}

void Model::discard(Context& context, SequenceState& state, Index begin, Index count) const {
  body_->check_state(state);
  state.erase(begin, count);
  for (Index l = 0; l < layers(); ++l) {
    const auto& attention = body_->blocks[static_cast<std::size_t>(l)].attention;
    const Rope rope{attention.spec.rope.pairs, attention.frequencies.view()};
    run(context, RotateKeys{rope, begin, state.tokens() - begin, -count}, state.view(l, 0));
  }
}

void Model::embed(Context& context, std::span<const Token> tokens, MatrixView<float> hidden) const {
  body_->embed(context, tokens, hidden);
}

void Model::run_layers(Context& context, MatrixView<float> hidden, SequenceState& state, Index first,
                       Index last) const {
  NIBBLE_EXPECTS(first >= 0 && first <= last && last <= layers(),
                 "layers [" + std::to_string(first) + ", " + std::to_string(last) + ") of " + std::to_string(layers()));
  NIBBLE_EXPECTS(hidden.cols() == body_->spec.hidden, "hidden states have " + std::to_string(hidden.cols()) +
                                                          " columns, not " + std::to_string(body_->spec.hidden));
  body_->check_state(state);
  state.reserve(hidden.rows());
  const BatchItem item{.sequence = &state};
  for (Index done = 0; done < hidden.rows(); done += max_step_tokens) {
    const Slice slice{&item, done, std::min(max_step_tokens, hidden.rows() - done)};
    body_->run(context, hidden.slice(0, done, slice.count), {&slice, 1}, first, last, std::nullopt);
  }
}

void Model::head(Context& context, MatrixView<const float> hidden, MatrixView<float> logits) const {
  NIBBLE_EXPECTS(hidden.cols() == body_->spec.hidden && logits.cols() == body_->spec.vocabulary &&
                     hidden.rows() == logits.rows(),
                 "head: hidden " + to_string(hidden.extents()) + " and logits " + to_string(logits.extents()) +
                     " do not fit the model");
  body_->head(context, hidden, logits);
}

}  // namespace nibble
