// SPDX-License-Identifier: MIT
// Small random decoders of the llama, qwen2 and gemma3 families against transformers, layer by layer, and the
// promises of Model::forward: results do not depend on how tokens are fed, on the batch or on threads.
#include <cstring>

#include "support/catch.hpp"
#include "support/tiny_model.hpp"

using namespace nibble;

namespace {

Model::Context exact_context(Index threads = 2) {
  return Model::Context({.threads = threads, .numerics = Numerics::exact});
}

Model load(Model::Context& ctx, const WeightSource& source) {
  return Model::from_source(ctx, source, {.tokenizer = false});
}

Model load(Model::Context& ctx, std::string_view name) {
  return load(ctx, GgufWeightSource::open(tiny::path(name, ".gguf")));
}

/// Whether loading fails, or the result is visibly (twice the tolerance) wrong.
bool detected(Model::Context& ctx, const WeightSource& source, const tiny::Golden& golden, std::string& how) {
  try {
    const Model model = load(ctx, source);
    const double m = tiny::mismatch(golden, tiny::run(ctx, model, golden.tokens));
    how = "mismatch " + std::to_string(m);
    return m > 2.0;
  } catch (const Error& e) {
    how = e.what();
    return true;
  }
}

}  // namespace

TEST_CASE("hidden states of every layer and logits equal transformers'", "[parity]") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const std::string_view name : tiny::names) {
      Model::Context ctx({.threads = 2, .isa = isa, .numerics = Numerics::exact});
      const tiny::Golden golden = tiny::Golden::load(name);
      const Model model = load(ctx, name);
      const tiny::Run got = tiny::run(ctx, model, golden.tokens);
      REQUIRE(got.stages.size() == golden.stages.size());
      for (std::size_t s = 0; s < golden.stages.size(); ++s) {
        INFO(name << " on " << cpu::to_string(isa) << ", after layer " << int(s) - 1 << " of "
                  << model.layers() << (s + 1 == golden.stages.size() ? " (logits)" : ""));
        CHECK(tiny::distance(golden, got, s) <= golden.tolerance[s]);
      }
    }
  }
}

TEST_CASE("feeding tokens at once, one by one or in chunks gives the same bits", "[parity]") {
  for (const std::string_view name : tiny::names) {
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const Model model = load(ctx, name);
    const tiny::Run whole = tiny::run(ctx, model, golden.tokens);
    CHECK(tiny::logits_of(ctx, model, golden.tokens) == whole.stages.back());
    for (const Index chunk : {Index{1}, Index{7}, Index{33}}) {
      INFO(name << ", " << chunk << " tokens at a time");
      CHECK(tiny::run(ctx, model, golden.tokens, chunk).stages == whole.stages);
    }
  }
}

TEST_CASE("any number of threads gives the same bits", "[parity]") {
  for (const std::string_view name : tiny::names) {
    const tiny::Golden golden = tiny::Golden::load(name);
    std::vector<std::vector<float>> first;
    for (const Index threads : {1, 2, 3, 8}) {
      INFO(name << " with " << threads << " threads");
      Model::Context ctx = exact_context(threads);
      auto stages = tiny::run(ctx, load(ctx, name), golden.tokens).stages;
      if (first.empty()) first = std::move(stages);
      else CHECK(stages == first);
    }
  }
}

TEST_CASE("a sequence's logits do not depend on what else is in the batch", "[parity]") {
  for (const std::string_view name : tiny::names) {
    INFO(name);
    Model::Context ctx = exact_context();
    const std::vector<Token> tokens = tiny::Golden::load(name).tokens;
    const Model model = load(ctx, name);
    // Suffixes of the same tokens as sequences of different lengths; fed in two parts, so that the second
    // step mixes sequences with different pasts.
    const std::size_t n = tokens.size();
    const std::span<const Token> all(tokens);
    const std::span<const Token> sequences[] = {all, all.subspan(n / 3), all.subspan(n - 1),
                                                all.subspan(n / 2)};
    std::vector<SequenceState> states;
    std::vector<std::vector<float>> got(std::size(sequences));
    for (std::size_t i = 0; i < std::size(sequences); ++i) states.push_back(tiny::new_state(model));
    for (const bool second : {false, true}) {
      std::vector<BatchItem> batch;
      std::vector<std::size_t> owner;
      for (std::size_t i = 0; i < std::size(sequences); ++i) {
        const std::size_t cut = sequences[i].size() / (i + 2);
        const auto part = second ? sequences[i].subspan(cut) : sequences[i].subspan(0, cut);
        if (part.empty()) continue;
        batch.push_back({.sequence = &states[i], .tokens = part, .logits = LogitsOf::all});
        owner.push_back(i);
      }
      const Logits logits = model.forward(ctx, batch);
      Index row = 0;
      for (std::size_t b = 0; b < batch.size(); ++b)
        for (std::size_t t = 0; t < batch[b].tokens.size(); ++t, ++row)
          got[owner[b]].insert(got[owner[b]].end(), logits.row(row).begin(), logits.row(row).end());
      REQUIRE(row == logits.rows());
    }
    for (std::size_t i = 0; i < std::size(sequences); ++i) {
      INFO("sequence " << i);
      CHECK(got[i] == tiny::logits_of(ctx, model, sequences[i]));
    }
  }
}

TEST_CASE("logits of the last row and of none", "[parity]") {
  Model::Context ctx = exact_context();
  const tiny::Golden golden = tiny::Golden::load("gemma3");
  const Model model = load(ctx, "gemma3");
  const auto all = tiny::logits_of(ctx, model, golden.tokens);
  SequenceState a = tiny::new_state(model), b = tiny::new_state(model);
  const BatchItem batch[] = {{.sequence = &a, .tokens = golden.tokens, .logits = LogitsOf::none},
                             {.sequence = &b, .tokens = golden.tokens, .logits = LogitsOf::last}};
  const Logits logits = model.forward(ctx, batch);
  REQUIRE(logits.rows() == 1);
  CHECK(std::equal(logits.row(0).begin(), logits.row(0).end(), all.end() - logits.vocabulary()));
  CHECK(a.tokens() == Index(golden.tokens.size()));
}

TEST_CASE("embed, run_layers and head together are forward", "[parity]") {
  for (const std::string_view name : tiny::names) {
    INFO(name);
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const Model model = load(ctx, name);
    const auto n = Index(golden.tokens.size());
    Matrix<float> hidden({n, model.hidden()}), logits({n, model.vocabulary()});
    SequenceState state = tiny::new_state(model);
    model.embed(ctx, golden.tokens, hidden);
    model.run_layers(ctx, hidden, state, 0, 1);
    model.run_layers(ctx, hidden, state, 1, model.layers());
    state.advance(n);
    model.head(ctx, hidden.view(), logits);
    const auto want = tiny::logits_of(ctx, model, golden.tokens);
    CHECK(std::equal(want.begin(), want.end(), logits.data(), logits.data() + logits.size()));
  }
}

TEST_CASE("an FP16 cache costs FP16 rounding and no more", "[parity]") {
  for (const std::string_view name : tiny::names) {
    INFO(name);
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const tiny::Run got = tiny::run(ctx, load(ctx, name), golden.tokens, 0, DType::f16);
    const double d = tiny::distance(golden, got, golden.stages.size() - 1);
    CHECK(d > golden.tolerance.back());  // it is used at all
    CHECK(d <
          64 * std::ldexp(1.0, -11));  // keys and values carry 11 bits; a few layers amplify their rounding
  }
}

TEST_CASE("a model without any one of its tensors fails to load or is visibly wrong", "[parity]") {
  for (const std::string_view name : tiny::names) {
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const auto file = GgufWeightSource::open(tiny::path(name, ".gguf"));
    for (const std::string_view tensor : file.names()) {
      tiny::TamperedSource source(file);
      source.hide(tensor);
      std::string how;
      const bool seen = detected(ctx, source, golden, how);
      INFO(name << " without " << tensor << ": " << how);
      CHECK(seen);
    }
  }
}

TEST_CASE("a changed element of any tensor is visible in the result", "[parity]") {
  for (const std::string_view name : tiny::names) {
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const auto file = GgufWeightSource::open(tiny::path(name, ".gguf"));
    for (const std::string_view tensor : file.names()) {
      const StoredTensor stored = *file.find(tensor);
      if (stored.gguf_type() != 0) continue;  // F32: vectors everywhere, matrices in half of the models
      std::vector<float> values(static_cast<std::size_t>(stored.elements()));
      std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
      values[values.size() / 2] += 0.25f;
      if (tensor == "token_embd.weight")  // the middle token may not occur
        for (float& v : values) v += 0.01f;
      tiny::TamperedSource source(file);
      source.replace(tensor, stored.shape(), std::move(values));
      std::string how;
      const bool seen = detected(ctx, source, golden, how);
      INFO(name << " with another " << tensor << ": " << how);
      CHECK(seen);
    }
  }
}

TEST_CASE("a changed hyper-parameter is an error or visibly wrong", "[parity]") {
  for (const std::string_view name : tiny::names) {
    Model::Context ctx = exact_context();
    const tiny::Golden golden = tiny::Golden::load(name);
    const std::vector<std::byte> original = golden::read_bytes(tiny::path(name, ".gguf"));
    const auto clean = GgufFile::from_memory(original);
    const std::string prefix = clean.get<std::string>("general.architecture") + ".";
    std::size_t changed = 0;
    for (const MetadataEntry& entry : clean.metadata()) {
      // The trained context limits nothing and changes no number.
      if (!entry.key.starts_with(prefix) || entry.key.ends_with("context_length")) continue;
      std::vector<std::byte> bytes = original;
      const std::size_t at = std::size_t(entry.value.raw().data() - original.data());
      if (entry.value.type() == MetadataType::f32) {
        const float v = *entry.value.as<float>() * 1.05f;
        std::memcpy(bytes.data() + at, &v, sizeof v);
      } else if (entry.value.type() == MetadataType::u32) {
        const std::uint32_t v = *entry.value.as<std::uint32_t>() + 1;
        std::memcpy(bytes.data() + at, &v, sizeof v);
      } else if (entry.value.type() == MetadataType::string) {
        bytes[at + 8] = std::byte{'x'};
      } else {
        FAIL(name << ": " << entry.key << " has a type this test does not change");
      }
      ++changed;
      std::string how;
      bool seen = false;
      try {
        seen = detected(ctx, GgufWeightSource(GgufFile::from_memory(bytes)), golden, how);
      } catch (const Error& e) {
        seen = true;
        how = e.what();
      }
      INFO(name << " with another " << entry.key << ": " << how);
      CHECK(seen);
    }
    CHECK(changed >= 8);
  }
}

TEST_CASE("a tied head is the embedding, an own head is used", "[parity]") {
  Model::Context ctx = exact_context();
  const tiny::Golden golden = tiny::Golden::load("llama");
  const auto file = GgufWeightSource::open(tiny::path("llama", ".gguf"));
  const StoredTensor embedding = file.require("token_embd.weight");
  std::vector<float> e(static_cast<std::size_t>(embedding.elements()));
  std::memcpy(e.data(), embedding.bytes.data(), embedding.bytes.size());

  tiny::TamperedSource tied(file), copied(file);
  tied.hide("output.weight");
  copied.replace("output.weight", embedding.shape(), e);
  const auto own = tiny::logits_of(ctx, load(ctx, file), golden.tokens);
  const Model tied_model = load(ctx, tied);
  const tiny::Run tied_run = tiny::run(ctx, tied_model, golden.tokens);
  CHECK(tied_run.stages.back() == tiny::logits_of(ctx, load(ctx, copied), golden.tokens));
  CHECK(tied_run.stages.back() != own);

  // logits = E (h / rms(h) * gain), by definition
  std::vector<float> gain(static_cast<std::size_t>(tied_model.hidden()));
  std::memcpy(gain.data(), file.require("output_norm.weight").bytes.data(), gain.size() * sizeof(float));
  const std::vector<float>& hidden = tied_run.stages[tied_run.stages.size() - 2];
  const std::size_t width = gain.size(), vocabulary = std::size_t(tied_model.vocabulary());
  double worst = 0;
  for (std::size_t t = 0; t < golden.tokens.size(); ++t) {
    double square = 0;
    for (std::size_t c = 0; c < width; ++c)
      square += double(hidden[t * width + c]) * double(hidden[t * width + c]);
    const double scale = 1.0 / std::sqrt(square / double(width) + double(tied_model.spec().norm_eps));
    for (std::size_t v = 0; v < vocabulary; ++v) {
      double dot = 0;
      for (std::size_t c = 0; c < width; ++c)
        dot += double(e[v * width + c]) * double(hidden[t * width + c]) * scale * double(gain[c]);
      worst = std::max(worst, std::abs(dot - double(tied_run.stages.back()[t * vocabulary + v])));
    }
  }
  // 32 products of magnitude about 1 summed in FP32
  CHECK(worst < 64 * std::ldexp(1.0, -24) * 4);
}
