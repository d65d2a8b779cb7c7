// SPDX-License-Identifier: MIT
// A small random decoder in memory, for tests of everything around the mathematics: loading, shapes,
// errors, loops. What its numbers should be is tests/parity's business.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/core/random.hpp"
#include "nibble/format/formats.hpp"
#include "nibble/io/metadata_builder.hpp"
#include "nibble/io/weight_source.hpp"

namespace nibble::test {

struct TinyTensor {
  std::string name;
  std::vector<Index> dims;
  std::vector<float> values;
};

/// Metadata and tensors that a test may change before making a source of them.
struct TinyModel {
  MetadataBuilder metadata;
  std::vector<TinyTensor> tensors;

  void add(std::string name, std::vector<Index> dims, double center = 0.0, double spread = 0.1) {
    Index n = 1;
    for (Index d : dims) n *= d;
    TinyTensor t{std::move(name), std::move(dims), std::vector<float>(static_cast<std::size_t>(n))};
    for (float& v : t.values) v = float(center + spread * random_.normal());
    tensors.push_back(std::move(t));
  }
  TinyTensor& tensor(std::string_view name) {
    for (TinyTensor& t : tensors)
      if (t.name == name) return t;
    throw Error(Errc::internal, "no tensor " + std::string(name));
  }
  void drop(std::string_view name) {
    std::erase_if(tensors, [&](const TinyTensor& t) { return t.name == name; });
  }
  /// The source borrows this model's values.
  MemoryWeightSource source() const {
    MemoryWeightSource s("tiny", metadata.build("tiny"));
    for (const TinyTensor& t : tensors) s.add(t.name, t.dims, t.values);
    return s;
  }

 private:
  Random random_{1};
};

/// Llama-shaped: hidden 64, 2 layers, 4 heads on 2, head 16, feed-forward 96, vocabulary 50, tied.
inline TinyModel tiny_llama() {
  TinyModel m;
  m.metadata.set("general.architecture", std::string_view("llama"));
  const auto size = [&](const char* key, std::uint32_t v) { m.metadata.set(std::string("llama.") + key, v); };
  size("embedding_length", 64);
  size("block_count", 2);
  size("context_length", 2048);
  size("feed_forward_length", 96);
  size("attention.head_count", 4);
  size("attention.head_count_kv", 2);
  m.metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m.metadata.set("llama.rope.freq_base", 10000.0f);
  m.add("token_embd.weight", {50, 64}, 0, 1.0);
  m.add("output_norm.weight", {64}, 1.0);
  for (int l = 0; l < 2; ++l) {
    const std::string p = "blk." + std::to_string(l) + ".";
    m.add(p + "attn_norm.weight", {64}, 1.0);
    m.add(p + "attn_q.weight", {64, 64});
    m.add(p + "attn_k.weight", {32, 64});
    m.add(p + "attn_v.weight", {32, 64});
    m.add(p + "attn_output.weight", {64, 64});
    m.add(p + "ffn_norm.weight", {64}, 1.0);
    m.add(p + "ffn_gate.weight", {96, 64});
    m.add(p + "ffn_up.weight", {96, 64});
    m.add(p + "ffn_down.weight", {64, 96});
  }
  return m;
}

}  // namespace nibble::test
