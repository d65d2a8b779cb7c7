// SPDX-License-Identifier: MIT
// Metadata is outside data: impossible values are errors that name their key, and nothing is guessed.
#include "nibble/model/arch.hpp"

#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/tiny_source.hpp"

using namespace nibble;
using nibble::test::tiny_llama;

namespace {

ModelSpec spec_of(const MetadataBuilder& metadata) {
  const Metadata m = metadata.build("tiny");
  return find_architecture(m.get<std::string_view>("general.architecture")).spec(m);
}

/// The error of a spec whose `key` was set to `value`; empty when there was none.
template <class T>
std::string error_with(const char* key, T value) {
  auto m = tiny_llama();
  m.metadata.set(std::string("llama.") + key, value);
  try {
    spec_of(m.metadata);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a spec is read from metadata") {
  const ModelSpec s = spec_of(tiny_llama().metadata);
  CHECK(s.hidden == 64);
  CHECK(s.blocks.size() == 2);
  CHECK(s.blocks[0].attention.head_dim == 16);
  CHECK(s.blocks[0].attention.scale == Approx(0.25));
  CHECK(s.blocks[0].attention.rope.dimensions == 16);
  CHECK(s.blocks[0].attention.window == 0);
}

TEST_CASE("an impossible number is an error naming its key") {
  const auto names = [](const std::string& error, const char* key) {
    INFO(key << " -> " << error);
    CHECK(error.find(key) != std::string::npos);
  };
  for (const char* key : {"embedding_length", "block_count", "context_length", "feed_forward_length",
                          "attention.head_count", "attention.head_count_kv", "attention.key_length",
                          "attention.value_length", "rope.dimension_count", "vocab_size"}) {
    names(error_with(key, std::uint32_t{0}), key);
    names(error_with(key, std::int32_t{-1}), key);
    names(error_with(key, std::uint64_t{1} << 62), key);
    names(error_with(key, 1.5f), key);
    names(error_with(key, std::string_view("64")), key);
  }
  for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    names(error_with(key, 0.0f), key);
    names(error_with(key, -1.0f), key);
    names(error_with(key, std::numeric_limits<float>::quiet_NaN()), key);
    names(error_with(key, std::numeric_limits<float>::infinity()), key);
    names(error_with(key, true), key);
  }
  names(error_with("attention.head_count", std::uint32_t{3}), "attention.head_count");     // 64 % 3, 3 % 2
  names(error_with("attention.head_count_kv", std::uint32_t{3}), "attention.head_count_kv");
  names(error_with("rope.dimension_count", std::uint32_t{15}), "rope.dimension_count");
  names(error_with("rope.dimension_count", std::uint32_t{18}), "rope.dimension_count");
}

TEST_CASE("a missing required key is an error naming it") {
  for (const char* key : {"embedding_length", "block_count", "context_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    auto m = tiny_llama();
    REQUIRE(m.metadata.erase(std::string("llama.") + key));
    CHECK_THROWS_WITH(spec_of(m.metadata), Catch::Contains(key));
  }
}

TEST_CASE("heads need not divide the hidden size when the head size is given") {
  auto m = tiny_llama();
  m.metadata.set("llama.attention.head_count", std::uint32_t{6});
  m.metadata.set("llama.attention.key_length", std::uint32_t{20});
  m.metadata.set("llama.attention.value_length", std::uint32_t{24});
  const ModelSpec s = spec_of(m.metadata);
  CHECK(s.blocks[0].attention.head_dim == 20);
  CHECK(s.blocks[0].attention.value_dim == 24);
}

TEST_CASE("rotary scaling is read, and an unknown kind is refused") {
  auto m = tiny_llama();
  m.metadata.set("llama.rope.scaling.type", std::string_view("linear"));
  CHECK_THROWS_WITH(spec_of(m.metadata), Catch::Contains("rope.scal"));
  m.metadata.set("llama.rope.scaling.factor", 4.0f);
  CHECK(spec_of(m.metadata).blocks[0].attention.rope.scaling.kind == RopeScaling::Kind::linear);
  CHECK(spec_of(m.metadata).blocks[0].attention.rope.scaling.factor == 4.0);
  m.metadata.set("llama.rope.scaling.type", std::string_view("spiral"));
  CHECK_THROWS_WITH(spec_of(m.metadata), Catch::Contains("spiral"));
}

TEST_CASE("gemma3 says which layers are local by a distance or by flags") {
  const auto gemma = [] {
    auto m = tiny_llama();
    MetadataBuilder b;
    for (const MetadataEntry& e : m.metadata.build()) {
      std::string key(e.key);
      if (key.starts_with("llama.")) key.replace(0, 5, "gemma3");
      b.set(key, e.value);
    }
    b.set("general.architecture", std::string_view("gemma3"));
    b.set("gemma3.attention.sliding_window", std::uint32_t{8});
    b.set("gemma3.block_count", std::uint32_t{4});
    return b;
  };
  const auto windows = [](const MetadataBuilder& b) {
    std::vector<Index> w;
    for (const BlockSpec& block : spec_of(b).blocks) w.push_back(block.attention.window);
    return w;
  };
  auto b = gemma();
  CHECK(windows(b) == std::vector<Index>{8, 8, 8, 8});  // the sixth would be global
  b.set("gemma3.attention.sliding_window_pattern", std::uint32_t{2});
  CHECK(windows(b) == std::vector<Index>{8, 0, 8, 0});
  const bool flags[] = {false, true, true, false};
  b.set_array("gemma3.attention.sliding_window_pattern", std::span<const bool>(flags));
  CHECK(windows(b) == std::vector<Index>{0, 8, 8, 0});
  b.set_array("gemma3.attention.sliding_window_pattern", std::span<const bool>(flags, 3));
  CHECK_THROWS_WITH(spec_of(b), Catch::Contains("sliding_window_pattern") && Catch::Contains("3"));
  b.erase("gemma3.attention.sliding_window");
  CHECK_THROWS_WITH(spec_of(b), Catch::Contains("sliding_window"));
}

TEST_CASE("an unknown architecture is refused by name") {
  CHECK_THROWS_WITH(find_architecture("mamba9"), Catch::Contains("mamba9") && Catch::Contains("qwen2"));
  for (const char* known : {"llama", "qwen2", "gemma3"}) CHECK(find_architecture(known).name == known);
}
