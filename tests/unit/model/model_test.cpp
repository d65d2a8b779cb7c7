// SPDX-License-Identifier: MIT
#include "nibble/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "nibble/eval/layer_error.hpp"
#include "nibble/quant/rtn.hpp"
#include "support/catch.hpp"
#include "support/counting_executor.hpp"
#include "support/tiny_source.hpp"

using namespace nibble;
using nibble::test::TinyModel;
using nibble::test::tiny_llama;

namespace {

using Context = Model::Context;

std::vector<Token> some_tokens(std::size_t n) {
  std::vector<Token> t(n);
  for (std::size_t i = 0; i < n; ++i) t[i] = Token(Random::at(3, i) % 50);
  return t;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

Logits all_logits(Context& ctx, const Model& model, SequenceState& state, std::span<const Token> tokens) {
  const BatchItem item{.sequence = &state, .tokens = tokens, .logits = LogitsOf::all};
  return model.forward(ctx, {&item, 1});
}

std::string load_error(const TinyModel& m) {
  Context ctx({.threads = 1});
  const auto source = m.source();
  try {
    Model::from_source(ctx, source);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("loading checks every tensor: presence, shape, values, and that none is left over") {
  REQUIRE(load_error(tiny_llama()).empty());
  for (const auto& t : tiny_llama().tensors) {
    auto m = tiny_llama();
    m.drop(t.name);
    CHECK_THAT(load_error(m), Catch::Contains(t.name));

    auto wide = tiny_llama();
    auto& changed = wide.tensor(t.name);
    changed.dims.back() += 32;
    changed.values.resize(std::size_t(std::accumulate(changed.dims.begin(), changed.dims.end(), Index{1}, std::multiplies<>())));
    CHECK_FALSE(load_error(wide).empty());
  }
  auto extra = tiny_llama();
  extra.add("blk.0.attn_q_norm.weight", {16});
  CHECK_THAT(load_error(extra), Catch::Contains("blk.0.attn_q_norm.weight"));

  auto nan = tiny_llama();
  nan.tensor("blk.1.ffn_norm.weight").values[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(load_error(nan), Catch::Contains("blk.1.ffn_norm.weight") && Catch::Contains("5"));

  auto vocabulary = tiny_llama();
  vocabulary.metadata.set("llama.vocab_size", std::uint32_t{51});
  CHECK_THAT(load_error(vocabulary), Catch::Contains("token_embd.weight"));
}

namespace {

/// The tiny model's matrices in integer groups of 32, and the floats that these stand for.
class Groups final : public WeightSource {
 public:
  Groups(const WeightSource& source, int bits) : source_(source) {
    for (const std::string_view name : source.names()) {
      const StoredTensor t = source.require(name);
      if (t.rank != 2) continue;
      Matrix<float> values({t.rows(), t.cols()});
      std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
      groups_.emplace(name, quant::RtnInteger(integer::affine_min(bits, 32)).quantize(values.view(), {}));
    }
  }
  std::optional<StoredTensor> find(std::string_view name) const override { return source_.find(name); }
  std::optional<QuantizedView> quantized(std::string_view name) const override {
    const auto found = groups_.find(name);
    return found == groups_.end() ? std::nullopt : std::optional<QuantizedView>(found->second.view());
  }
  std::vector<std::string_view> names() const override { return source_.names(); }
  const Metadata& metadata() const override { return source_.metadata(); }
  const std::string& name() const override { return source_.name(); }
  /// Hands out one tensor's groups under another's name.
  void confuse(const std::string& name, std::string_view with) {
    groups_.insert_or_assign(name, groups_.find(with)->second.clone());
  }

 private:
  const WeightSource& source_;
  std::map<std::string, QuantizedTensor, std::less<>> groups_;
};

}  // namespace

TEST_CASE("matrices in integer groups of any width compute as the floats they stand for") {
  Context ctx({.threads = 2, .numerics = Numerics::exact});
  const TinyModel original = tiny_llama();
  const auto source = original.source();
  const auto tokens = some_tokens(20);
  for (const int bits : {1, 2, 3, 5, 6, 8}) {
    INFO(bits << " bits");
    Groups groups(source, bits);
    TinyModel floats = tiny_llama();
    for (auto& t : floats.tensors)
      if (const auto view = groups.quantized(t.name))
        view->decode(MatrixView<float>(t.values.data(), {view->rows(), view->cols()}));
    const auto dense = floats.source();
    const Model a = Model::from_source(ctx, groups), b = Model::from_source(ctx, dense);
    CHECK(a.weight_bytes() < b.weight_bytes());
    SequenceState sa = a.new_sequence({.max_tokens = 64}), sb = b.new_sequence({.max_tokens = 64});
    const Logits la = all_logits(ctx, a, sa, tokens), lb = all_logits(ctx, b, sb, tokens);
    for (Index r = 0; r < la.rows(); ++r) CHECK(same_bits(la.row(r), lb.row(r)));
    for (const TensorError& e : weight_errors(source, groups)) {
      INFO(e.name);
      CHECK((e.relative_rms > 0) == groups.quantized(e.name).has_value());
      CHECK((e.type == "F32") != groups.quantized(e.name).has_value());
    }
    groups.confuse("blk.0.attn_k.weight", "blk.0.attn_q.weight");
    CHECK_THROWS_WITH(Model::from_source(ctx, groups), Catch::Contains("given as [64, 64] groups, expected [32, 64]"));
  }
}

TEST_CASE("forward checks its batch and leaves states alone on an error") {
  Context ctx({.threads = 1});
  const auto tiny = tiny_llama();
  const auto source = tiny.source();
  const Model model = Model::from_source(ctx, source);
  CHECK_THROWS_AS(model.tokenizer(), Error);
  CHECK(model.chat_template() == nullptr);
  SequenceState a = model.new_sequence({.max_tokens = 8}), b = model.new_sequence({.max_tokens = 8});
  const auto tokens = some_tokens(4);
  const auto fails = [&](std::vector<BatchItem> batch) { CHECK_THROWS_AS(model.forward(ctx, batch), Error); };
  fails({{.sequence = nullptr, .tokens = tokens}});
  fails({{.sequence = &a}});
  fails({{.sequence = &a, .tokens = tokens}, {.sequence = &a, .tokens = tokens}});
  const std::vector<Token> low{-1}, high{50}, nine = some_tokens(9);
  fails({{.sequence = &a, .tokens = low}});
  fails({{.sequence = &a, .tokens = high}});
  fails({{.sequence = &b, .tokens = tokens}, {.sequence = &a, .tokens = nine}});
  const std::vector<LayerState> one_layer{{{DType::f32, 2, 16, 16}, 0}};
  SequenceState other(one_layer, 8);
  fails({{.sequence = &other, .tokens = tokens}});
  std::stop_source stop;
  stop.request_stop();
  ctx.set_stop(stop.get_token());
  try {
    const BatchItem item{.sequence = &a, .tokens = tokens};
    model.forward(ctx, {&item, 1});
    FAIL("not cancelled");
  } catch (const Error& e) {
    CHECK(e.code() == Errc::cancelled);
  }
  CHECK(a.tokens() == 0);
  CHECK(b.tokens() == 0);
  CHECK(model.forward(ctx, {}).rows() == 0);
}

TEST_CASE("prefill, decode, chunks, batches and threads give the same bits") {
  const auto tiny = tiny_llama();
  const auto source = tiny.source();
  const auto tokens = some_tokens(700);  // beyond two pages and one step
  for (Numerics numerics : {Numerics::exact, Numerics::fast}) {
    Context ctx({.threads = 2, .numerics = numerics});
    const Model model = Model::from_source(ctx, source);
    SequenceState whole = model.new_sequence();
    const Logits expected = all_logits(ctx, model, whole, tokens);
    REQUIRE(expected.rows() == 700);
    REQUIRE(std::ranges::all_of(expected.view().span(), [](float v) { return std::isfinite(v); }));

    for (Index threads : {1, 3}) {
      Context other({.threads = threads, .numerics = numerics});
      SequenceState state = model.new_sequence();
      CHECK(same_bits(all_logits(other, model, state, tokens).view().span(), expected.view().span()));
    }
    SequenceState chunked = model.new_sequence();
    std::size_t at = 0;
    for (std::size_t n : {1u, 1u, 5u, 250u, 7u, 300u, 136u}) {
      const Logits part = all_logits(ctx, model, chunked, std::span(tokens).subspan(at, n));
      for (std::size_t i = 0; i < n; ++i)
        REQUIRE(same_bits(part.row(Index(i)), expected.row(Index(at + i))));
      at += n;
    }
    // In a batch with two others of different lengths, the row of interest in the middle.
    SequenceState x = model.new_sequence(), y = model.new_sequence(), z = model.new_sequence();
    const auto noise = some_tokens(33);
    const BatchItem batch[] = {{.sequence = &x, .tokens = noise, .logits = LogitsOf::none},
                               {.sequence = &y, .tokens = std::span(tokens).first(600)},
                               {.sequence = &z, .tokens = std::span(noise).first(3)}};
    const Logits both = model.forward(ctx, batch);
    REQUIRE(both.rows() == 2);
    CHECK(same_bits(both.row(0), expected.row(599)));
    CHECK(x.tokens() == 33);
  }
}

TEST_CASE("a layer is five parallel regions, in decode and in prefill, for one sequence and many") {
  const auto tiny = tiny_llama();
  const auto source = tiny.source();
  for (Numerics numerics : {Numerics::exact, Numerics::fast}) {
    nibble::test::CountingExecutor threads(2);
    Context ctx(ExecutorRef(threads), {.numerics = numerics});
    const Model model = Model::from_source(ctx, source);
    const auto regions = [&](std::vector<BatchItem> batch) {
      threads.regions = 0;
      model.forward(ctx, batch);
      return threads.regions;
    };
    const auto tokens = some_tokens(300);
    const std::span<const Token> all(tokens);
    SequenceState a = model.new_sequence(), b = model.new_sequence(), c = model.new_sequence();
    const Index layers = 5 * model.layers(), head = 1;
    // Without logits the prompt's embeddings are the only other region, where they are more than one task.
    CHECK(regions({{.sequence = &a, .tokens = all, .logits = LogitsOf::none}}) <= layers + 1);
    CHECK(regions({{.sequence = &b, .tokens = all.first(30)}}) <= layers + 1 + head);
    CHECK(regions({{.sequence = &b, .tokens = all.first(1)}}) == layers + head);
    CHECK(regions({{.sequence = &a, .tokens = all.first(1)},
                   {.sequence = &b, .tokens = all.first(1)},
                   {.sequence = &c, .tokens = all.first(1)}}) <= layers + 1 + head);
  }
}

TEST_CASE("no result depends on the order in which a host's executor runs tasks") {
  const auto tiny = tiny_llama();
  const auto source = tiny.source();
  const auto tokens = some_tokens(300);
  for (Numerics numerics : {Numerics::exact, Numerics::fast}) {
    Context ctx({.threads = 1, .numerics = numerics});
    const Model model = Model::from_source(ctx, source);
    SequenceState whole = model.new_sequence();
    const Logits expected = all_logits(ctx, model, whole, tokens);
    for (const bool shuffled : {false, true}) {
      nibble::test::OddExecutor odd{.shuffled = shuffled};
      Context other(ExecutorRef(odd), {.numerics = numerics});
      SequenceState state = model.new_sequence();
      CHECK(same_bits(all_logits(other, model, state, tokens).view().span(), expected.view().span()));
    }
  }
}

TEST_CASE("layers can be watched, steered, stopped and run by hand") {
  Context ctx({.threads = 2, .numerics = Numerics::exact});
  const auto tiny = tiny_llama();
  const auto source = tiny.source();
  const Model model = Model::from_source(ctx, source);
  const auto tokens = some_tokens(600);
  SequenceState a = model.new_sequence();
  const BatchItem item{.sequence = &a, .tokens = tokens};
  std::vector<Index> seen;
  const auto watch = [&](Index layer, MatrixView<float> hidden) {
    CHECK(hidden.rows() == 600);
    seen.push_back(layer);
    return LayerAction::proceed;
  };
  const Logits plain = model.forward(ctx, {&item, 1}, LayerObserver(watch));
  CHECK(seen == std::vector<Index>{-1, 0, 1});

  // By hand: the same bits.
  SequenceState b = model.new_sequence();
  Matrix<float> hidden({600, model.hidden()});
  model.embed(ctx, tokens, hidden);
  model.run_layers(ctx, hidden, b, 0, 1);
  model.run_layers(ctx, hidden, b, 1, 2);
  b.advance(600);
  Matrix<float> logits({1, model.vocabulary()});
  model.head(ctx, hidden.view().slice(0, 599, 1), logits);
  CHECK(same_bits(logits.span(), plain.row(0)));
  CHECK_THROWS_AS(model.run_layers(ctx, hidden, b, 1, 3), Error);

  // From embeddings: the same bits again.
  SequenceState c = model.new_sequence();
  model.embed(ctx, tokens, hidden);
  const BatchItem embedded{.sequence = &c, .embeddings = hidden.view()};
  CHECK(same_bits(model.forward(ctx, {&embedded, 1}).row(0), plain.row(0)));

  SequenceState d = model.new_sequence();
  const BatchItem steered_item{.sequence = &d, .tokens = tokens};
  const auto steer = [](Index layer, MatrixView<float> h) {
    if (layer == 0) for (Index r = 0; r < h.rows(); ++r) h(r, 0) += 1.0f;
    return LayerAction::proceed;
  };
  CHECK_FALSE(same_bits(model.forward(ctx, {&steered_item, 1}, LayerObserver(steer)).row(0), plain.row(0)));

  SequenceState e = model.new_sequence();
  const BatchItem stopped_item{.sequence = &e, .tokens = tokens};
  const auto stop = [](Index layer, MatrixView<float>) { return layer == 0 ? LayerAction::stop : LayerAction::proceed; };
  CHECK(model.forward(ctx, {&stopped_item, 1}, LayerObserver(stop)).rows() == 0);
  CHECK(e.tokens() == 0);
}

TEST_CASE("a tied head is the embedding, an own head is used") {
  Context ctx({.threads = 1, .numerics = Numerics::exact});
  auto tiny = tiny_llama();
  const auto tokens = some_tokens(5);
  const auto logits_of = [&](const TinyModel& m) {
    const auto source = m.source();
    const Model model = Model::from_source(ctx, source);
    SequenceState s = model.new_sequence();
    const Logits l = all_logits(ctx, model, s, tokens);
    return std::vector<float>(l.view().span().begin(), l.view().span().end());
  };
  const auto tied = logits_of(tiny);
  tiny.tensors.push_back(tiny.tensor("token_embd.weight"));
  tiny.tensors.back().name = "output.weight";
  CHECK(same_bits(logits_of(tiny), tied));
  for (float& v : tiny.tensor("output.weight").values) v *= 2;  // exact in binary
  auto doubled = tied;
  for (float& v : doubled) v *= 2;
  CHECK(same_bits(logits_of(tiny), doubled));
}

TEST_CASE("discarding the start of a one-layer sequence equals a prefill at the new positions") {
  // With one layer no later token's keys depend on what was discarded.
  auto tiny = tiny_llama();
  std::erase_if(tiny.tensors, [](const auto& t) { return t.name.starts_with("blk.1."); });
  tiny.metadata.set("llama.block_count", std::uint32_t{1});
  const auto source = tiny.source();
  Context ctx({.threads = 2, .numerics = Numerics::exact});
  const Model model = Model::from_source(ctx, source);
  const auto tokens = some_tokens(400);
  const std::span<const Token> all(tokens);
  SequenceState a = model.new_sequence({.dtype = DType::f32});
  all_logits(ctx, model, a, all.first(390));
  model.discard(ctx, a, 0, 300);
  model.discard(ctx, a, 0, 0);
  REQUIRE(a.tokens() == 90);
  SequenceState b = model.new_sequence({.dtype = DType::f32});
  all_logits(ctx, model, b, all.subspan(300, 90));
  const Logits x = all_logits(ctx, model, a, all.subspan(390, 10)), y = all_logits(ctx, model, b, all.subspan(390, 10));
  double error = 0, norm = 0;
  for (Index i = 0; i < x.view().size(); ++i) {
    const double u = x.view().span()[std::size_t(i)], v = y.view().span()[std::size_t(i)];
    error += (u - v) * (u - v);
    norm += v * v;
  }
  CHECK(std::sqrt(error / norm) < 1e-5);  // turning keys by 300 positions rounds each once in FP32
  CHECK_THROWS_AS(model.discard(ctx, a, 99, 2), Error);
}
