// SPDX-License-Identifier: MIT
#include "nibble/eval/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "nibble/runtime/score.hpp"
#include "support/catch.hpp"
#include "support/tiny_text_model.hpp"

using namespace nibble;
using Catch::Matchers::Contains;

namespace {

struct Fixture {
  Model::Context context{ContextOptions{.threads = 2}};
  test::TinyModel tiny = test::tiny_text_model(test::tiny_template, true);
  Model model = test::load(context, tiny);

  static EvalText text(std::size_t tokens) {
    Random random(3);
    EvalText t;
    for (std::size_t i = 0; i < tokens; ++i) t.tokens.push_back(Token(random.next() % 260));
    t.first = test::tiny_start;
    return t;
  }
  /// The convention spelled out, on top of score().
  std::vector<double> scored(const EvalText& t, Index ctx, Index chunks) {
    std::vector<double> nll;
    for (Index c = 0; c < chunks; ++c) {
      std::vector<Token> chunk(t.tokens.begin() + c * ctx, t.tokens.begin() + (c + 1) * ctx);
      if (t.first) chunk[0] = *t.first;
      context.set_numerics(Numerics::exact);
      const std::vector<float> scores = score(model, context, chunk);
      for (Index i = ctx / 2; i < ctx - 1; ++i) nll.push_back(-double(scores[std::size_t(i)]));
    }
    return nll;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "perplexity scores the second half of each whole chunk behind BOS") {
  for (const Index ctx : {4, 16, 17, 64}) {
    const EvalText t = text(150);
    const Index chunks = 150 / ctx;
    const std::vector<double> nll = scored(t, ctx, chunks);
    double mean = 0, squares = 0;
    for (const double x : nll) mean += x / double(nll.size());
    for (const double x : nll) squares += (x - mean) * (x - mean);
    const PerplexityResult r = perplexity(model, context, t, {.ctx = ctx});
    CHECK(r.chunks == chunks);
    CHECK(r.tokens == chunks * (ctx - 1 - ctx / 2));
    CHECK(r.perplexity == Approx(std::exp(mean)).epsilon(1e-5));
    const double n = double(nll.size());
    CHECK(r.perplexity_stderr == Approx(std::exp(mean) * std::sqrt(squares / n / (n - 1))).epsilon(1e-4));
  }
  CHECK(perplexity(model, context, text(150), {.ctx = 16, .chunks = 2}).chunks == 2);
  CHECK(perplexity(model, context, text(150), {.ctx = 16, .chunks = 99}).chunks == 9);
}

TEST_CASE_METHOD(Fixture, "the first token is replaced only where there is one to replace it") {
  EvalText with = text(64), without = text(64), other = text(64);
  without.first.reset();
  other.tokens[0] = (other.tokens[0] + 1) % 260;
  const auto value = [&](const EvalText& t) { return perplexity(model, context, t, {.ctx = 32}).perplexity; };
  CHECK(value(with) == value(other));
  CHECK(value(without) != value(with));
  EvalText moved = other;
  moved.first.reset();
  CHECK(value(moved) != value(without));
}

TEST_CASE_METHOD(Fixture, "a text comes with BOS as the tokenizer says") {
  CHECK(eval_text(model.tokenizer(), "hi").first == test::tiny_start);
  CHECK(eval_text(model.tokenizer(), "hi").tokens.front() == test::tiny_start);
  const Model plain = test::load(context, test::tiny_text_model());
  CHECK_FALSE(eval_text(plain.tokenizer(), "hi").first);
  CHECK(eval_text(plain.tokenizer(), "<|im_end|>").tokens.size() == 10);  // text, not a special token
}

TEST_CASE_METHOD(Fixture, "a model compared with itself has no divergence at all") {
  const ComparisonResult r = compare(model, model, context, text(130), {.ctx = 32});
  CHECK(r.mean_kl == 0);
  CHECK(r.mean_kl_stderr == 0);
  CHECK(r.top1_agreement == 1);
  CHECK(r.model.perplexity == r.reference.perplexity);
  CHECK(r.model.perplexity == perplexity(model, context, text(130), {.ctx = 32}).perplexity);
  REQUIRE(r.layers.size() == 3);
  for (const LayerError& e : r.layers) {
    CHECK(e.relative_rms == 0);
    CHECK(e.cosine == 1);
  }
  CHECK(r.layers.front().layer == -1);
}

TEST_CASE_METHOD(Fixture, "divergence and layer errors of a changed model are those of its logits and hidden states") {
  test::TinyModel changed = test::tiny_text_model(test::tiny_template, true);
  Random random(8);
  for (float& w : changed.tensor("blk.1.ffn_down.weight").values) w += float(0.02 * random.normal());
  const Model other = test::load(context, changed);
  const Index ctx = 32;
  const EvalText t = text(64);
  const ComparisonResult r = compare(other, model, context, t, {.ctx = ctx});

  context.set_numerics(Numerics::exact);
  RunningMean kl;
  double agree = 0;
  HiddenErrorMeter last;
  for (Index c = 0; c < 2; ++c) {
    std::vector<Token> chunk(t.tokens.begin() + c * ctx, t.tokens.begin() + (c + 1) * ctx);
    chunk[0] = *t.first;
    const auto run = [&](const Model& m, Matrix<float>& hidden) {
      SequenceState state = m.new_sequence({.max_tokens = ctx, .dtype = DType::f32});
      const auto keep = [&](Index layer, MatrixView<float> x) {
        if (layer == 1) std::ranges::copy(x.span(), hidden.span().begin());
        return LayerAction::proceed;
      };
      const BatchItem item{.sequence = &state, .tokens = chunk, .logits = LogitsOf::all};
      return m.forward(context, {&item, 1}, LayerObserver(keep));
    };
    Matrix<float> p_hidden({ctx, 64}), q_hidden({ctx, 64});
    const Logits p = run(model, p_hidden), q = run(other, q_hidden);
    last.add(p_hidden, q_hidden);
    for (Index i = ctx / 2; i < ctx - 1; ++i) {
      kl.add(kl_divergence(p.row(i), q.row(i)));
      agree += argmax(p.row(i)) == argmax(q.row(i)) ? 1.0 : 0.0;
    }
  }
  CHECK(r.mean_kl > 1e-5);
  CHECK(r.mean_kl == Approx(kl.mean()).epsilon(1e-6));
  CHECK(r.mean_kl_stderr == Approx(kl.standard_error()).epsilon(1e-6));
  CHECK(r.top1_agreement == Approx(agree / double(kl.count())));
  CHECK(r.layers[0].relative_rms == 0);  // the change is in the last layer only
  CHECK(r.layers[1].relative_rms == 0);
  CHECK(r.layers[2].relative_rms == Approx(last.relative_rms()).epsilon(1e-6));
  CHECK(r.layers[2].cosine == Approx(last.mean_cosine()).epsilon(1e-6));
  CHECK(r.layers[2].relative_rms > 1e-3);
}

TEST_CASE_METHOD(Fixture, "results do not depend on threads, and the context comes back as it was") {
  const EvalText t = text(96);
  Model::Context one(ContextOptions{.threads = 1, .numerics = Numerics::fast});
  const double first = perplexity(model, one, t, {.ctx = 48}).perplexity;
  CHECK(first == perplexity(model, context, t, {.ctx = 48}).perplexity);
  CHECK(one.numerics() == Numerics::fast);
  CHECK_THROWS_AS(perplexity(model, one, t, {.ctx = 97}), Error);
  CHECK(one.numerics() == Numerics::fast);
}

TEST_CASE_METHOD(Fixture, "the cost of the fast mode is measured against the exact one") {
  const EvalText t = text(96);
  const ComparisonResult r = compare(model, model, context, t, {.ctx = 48, .numerics = Numerics::fast});
  CHECK(r.reference.perplexity == perplexity(model, context, t, {.ctx = 48}).perplexity);
  CHECK(r.mean_kl >= 0);
  CHECK(r.mean_kl < 0.05);
}

TEST_CASE_METHOD(Fixture, "texts too short, wrong options, another vocabulary, cancellation") {
  CHECK_THROWS_WITH(perplexity(model, context, text(31), {.ctx = 32}), Contains("31 tokens") && Contains("needs 32"));
  CHECK_NOTHROW(perplexity(model, context, text(32), {.ctx = 32}));
  CHECK_THROWS_WITH(perplexity(model, context, text(32), {.ctx = 3}), Contains("ctx is 3"));
  CHECK_THROWS_WITH(perplexity(model, context, text(32), {.ctx = 32, .chunks = -1}), Contains("chunks is -1"));
  const Model small = test::load(context, test::tiny_llama());
  CHECK_THROWS_WITH(compare(model, small, context, text(32), {.ctx = 32}), Contains("260 tokens") && Contains("50"));
  std::stop_source stop;
  EvalOptions o{.ctx = 32, .stop = stop.get_token()};
  o.progress = [&](long long done, long long total, std::string_view) {
    CHECK(total == 3);
    if (done == 1) stop.request_stop();
  };
  try {
    perplexity(model, context, text(96), o);
    FAIL("was not cancelled");
  } catch (const Error& e) {
    CHECK(e.code() == Errc::cancelled);
  }
}

TEST_CASE("hidden errors are taken per token") {
  Matrix<float> r({3, 2}), c({3, 2});
  r(0, 0) = 1e6f;  // a huge first token, reproduced exactly
  c(0, 0) = 1e6f;
  r(1, 0) = 1;
  c(1, 0) = 1;
  c(1, 1) = 1;     // relative error 1, cosine 1/sqrt 2
  HiddenErrorMeter m;
  m.add(r, c);
  CHECK(m.relative_rms() == Approx(std::sqrt(1 / 3.0)));
  CHECK(m.mean_cosine() == Approx((2 + std::sqrt(0.5)) / 3));
  CHECK_THROWS_AS(m.add(Matrix<float>({2, 2}), Matrix<float>({2, 3})), Error);
}

TEST_CASE("weight errors compare decoded tensors of the same name and shape") {
  const std::vector<float> ones(64, 1.0f), close(64, 1.25f), zeros(64, 0.0f);
  MemoryWeightSource a("a"), b("b");
  const Index flat[] = {64}, matrix[] = {2, 32}, turned[] = {32, 2};
  a.add("same", flat, ones);
  b.add("same", flat, ones);
  a.add("close", matrix, ones);
  b.add("close", matrix, close);
  a.add("turned", matrix, ones);
  b.add("turned", turned, ones);
  a.add("zero", matrix, zeros);
  b.add("zero", matrix, ones);
  b.add("only in b", flat, ones);
  const std::vector<TensorError> errors = weight_errors(a, b);
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].relative_rms == 0);
  CHECK(errors[1].name == "close");
  CHECK(errors[1].relative_rms == 0.25);
  CHECK(errors[1].type == "F32");
  CHECK(errors[2].relative_rms == 1);
}
