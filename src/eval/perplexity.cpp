// SPDX-License-Identifier: MIT
#include "nibble/eval/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "nibble/core/contract.hpp"
#include "nibble/core/parallel.hpp"
#include "nibble/runtime/score.hpp"

namespace nibble {

namespace {

/// A context with other numerics and stop token for a while.
class Borrowed {
 public:
  Borrowed(Model::Context& context, const EvalOptions& options)
      : context_(context), numerics_(context.numerics()), stop_(context.stop()) {
    if (options.stop.stop_possible()) context.set_stop(options.stop);
  }
  ~Borrowed() {
    context_.set_numerics(numerics_);
    context_.set_stop(stop_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  Model::Context& context_;
  Numerics numerics_;
  std::stop_token stop_;
};

/// One model on one chunk: hidden states of all its tokens, then logits of a few rows at a time.
class Pass {
 public:
  Pass(const Model& model, Model::Context& context, const EvalOptions& options, Numerics numerics, DType kv_dtype)
      : model_(model), context_(context), numerics_(numerics),
        state_(model.new_sequence({.max_tokens = options.ctx, .dtype = kv_dtype})),
        hidden_({options.ctx, model.hidden()}),
        logits_({std::min(options.ctx, logit_rows_at_once(model.vocabulary())), model.vocabulary()}) {}

  void embed(std::span<const Token> tokens) {
    context_.set_numerics(numerics_);
    model_.embed(context_, tokens, hidden_);
  }
  // The state never advances, so the next chunk starts at position 0 again.
  void run(Index first, Index last) {
    context_.set_numerics(numerics_);
    model_.run_layers(context_, hidden_, state_, first, last);
  }
  Index rows_at_once() const { return logits_.extent(0); }
  MatrixView<const float> hidden() const { return hidden_.view(); }
  /// Logits of positions [begin, begin + rows).
  MatrixView<const float> logits(Index begin, Index rows) {
    context_.set_numerics(numerics_);
    const auto out = logits_.view().slice(0, 0, rows);
    model_.head(context_, hidden_.view().slice(0, begin, rows), out);
    return out;
  }

 private:
  const Model& model_;
  Model::Context& context_;
  Numerics numerics_;
  SequenceState state_;
  Matrix<float> hidden_, logits_;
};

Index chunk_count(const EvalText& text, const EvalOptions& options) {
  NIBBLE_EXPECTS(options.ctx >= 4, "ctx is " + std::to_string(options.ctx) + "; a chunk needs at least 4 tokens");
  NIBBLE_EXPECTS(options.chunks >= 0, "chunks is " + std::to_string(options.chunks) + "; it must be 0 (all) or more");
  const auto tokens = static_cast<Index>(text.tokens.size());
  NIBBLE_EXPECTS(tokens >= options.ctx, "the text has " + std::to_string(tokens) + " tokens, and one chunk needs " +
                                            std::to_string(options.ctx) + ": give a longer text or a smaller ctx");
  const Index whole = tokens / options.ctx;
  return options.chunks == 0 ? whole : std::min(whole, options.chunks);
}

std::vector<Token> chunk_tokens(const EvalText& text, Index chunk, Index ctx) {
  const auto begin = text.tokens.begin() + static_cast<std::ptrdiff_t>(chunk * ctx);
  std::vector<Token> tokens(begin, begin + static_cast<std::ptrdiff_t>(ctx));
  if (text.first) tokens.front() = *text.first;
  return tokens;
}

/// Calls body(position) for the positions [begin, begin + rows) on all workers; an error names where it was.
template <class Body>
void for_positions(Model::Context& context, Index chunk, Index begin, Index rows, const Body& body) {
  parallel_for(context.executor(), rows, 1, [&](Index first, Index last, Index) {
    for (Index r = first; r < last; ++r) {
      try {
        body(r);
      } catch (const Error& e) {
        throw e.in("chunk " + std::to_string(chunk) + ", position " + std::to_string(begin + r));
      }
    }
  });
}

PerplexityResult perplexity_of(const RunningMean& nll, Index chunks) {
  const double value = std::exp(nll.mean());
  return {value, value * nll.standard_error(), nll.count(), chunks};
}

}  // namespace

EvalText eval_text(const Tokenizer& tokenizer, std::string_view text) {
  return {tokenizer.encode(text, {.add_special = true, .parse_special = false}),
          tokenizer.add_bos() ? tokenizer.bos() : std::nullopt};
}

PerplexityResult perplexity(const Model& model, Model::Context& context, const EvalText& text,
                            const EvalOptions& options) {
  const Index chunks = chunk_count(text, options);
  const Borrowed borrowed(context, options);
  Pass pass(model, context, options, options.numerics, options.kv_dtype);
  RunningMean nll;
  std::vector<double> values(static_cast<std::size_t>(pass.rows_at_once()));
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    throw_if_stopped(options.stop, "evaluation");
    const std::vector<Token> tokens = chunk_tokens(text, chunk, options.ctx);
    pass.embed(tokens);
    pass.run(0, model.layers());
    for (Index begin = options.ctx / 2; begin < options.ctx - 1; begin += pass.rows_at_once()) {
      const Index rows = std::min(pass.rows_at_once(), options.ctx - 1 - begin);
      const auto logits = pass.logits(begin, rows);
      for_positions(context, chunk, begin, rows, [&](Index r) {
        values[static_cast<std::size_t>(r)] =
            -log_probability(logits.row(r), tokens[static_cast<std::size_t>(begin + r + 1)]);
      });
      for (Index r = 0; r < rows; ++r) nll.add(values[static_cast<std::size_t>(r)]);  // in order, always
    }
    if (options.progress) options.progress(chunk + 1, chunks, "chunks");
  }
  return perplexity_of(nll, chunks);
}

ComparisonResult compare(const Model& model, const Model& reference, Model::Context& context, const EvalText& text,
                         const EvalOptions& options) {
  NIBBLE_EXPECTS(model.vocabulary() == reference.vocabulary(),
                 "the model has " + std::to_string(model.vocabulary()) + " tokens, its reference " +
                     std::to_string(reference.vocabulary()));
  const Index chunks = chunk_count(text, options);
  const Borrowed borrowed(context, options);
  Pass mine(model, context, options, options.numerics, options.kv_dtype);
  Pass theirs(reference, context, options, options.reference_numerics, options.reference_kv_dtype);
  const bool same_shape = model.layers() == reference.layers() && model.hidden() == reference.hidden();
  std::vector<HiddenErrorMeter> meters(same_shape ? static_cast<std::size_t>(model.layers()) + 1 : 0);
  struct Row { double nll, reference_nll, kl; bool agree; };
  std::vector<Row> values(static_cast<std::size_t>(mine.rows_at_once()));
  RunningMean nll, reference_nll, kl, agreement;

  for (Index chunk = 0; chunk < chunks; ++chunk) {
    throw_if_stopped(options.stop, "evaluation");
    const std::vector<Token> tokens = chunk_tokens(text, chunk, options.ctx);
    mine.embed(tokens);
    theirs.embed(tokens);
    if (same_shape) {
      meters[0].add(theirs.hidden(), mine.hidden());
      for (Index layer = 0; layer < model.layers(); ++layer) {
        mine.run(layer, layer + 1);
        theirs.run(layer, layer + 1);
        meters[static_cast<std::size_t>(layer + 1)].add(theirs.hidden(), mine.hidden());
      }
    } else {
      mine.run(0, model.layers());
      theirs.run(0, reference.layers());
    }
    for (Index begin = options.ctx / 2; begin < options.ctx - 1; begin += mine.rows_at_once()) {
      const Index rows = std::min(mine.rows_at_once(), options.ctx - 1 - begin);
      const auto logits = mine.logits(begin, rows), reference_logits = theirs.logits(begin, rows);
      for_positions(context, chunk, begin, rows, [&](Index r) {
        const auto q = logits.row(r), p = reference_logits.row(r);
        const Token next = tokens[static_cast<std::size_t>(begin + r + 1)];
        values[static_cast<std::size_t>(r)] = {-log_probability(q, next), -log_probability(p, next),
                                               kl_divergence(p, q), argmax(p) == argmax(q)};
      });
      for (Index r = 0; r < rows; ++r) {
        const Row& v = values[static_cast<std::size_t>(r)];
        nll.add(v.nll);
        reference_nll.add(v.reference_nll);
        kl.add(v.kl);
        agreement.add(v.agree ? 1 : 0);
      }
    }
    if (options.progress) options.progress(chunk + 1, chunks, "chunks");
  }

  ComparisonResult result;
  result.model = perplexity_of(nll, chunks);
  result.reference = perplexity_of(reference_nll, chunks);
  result.mean_kl = kl.mean();
  result.mean_kl_stderr = kl.standard_error();
  result.top1_agreement = agreement.mean();
  for (std::size_t i = 0; i < meters.size(); ++i)
    result.layers.push_back({static_cast<Index>(i) - 1, meters[i].relative_rms(), meters[i].mean_cosine()});
  return result;
}

}  // namespace nibble
