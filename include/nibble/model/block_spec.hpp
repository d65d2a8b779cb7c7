// SPDX-License-Identifier: MIT
// What distinguishes one decoder from another, as plain data. One generic block runs every dense
// architecture that these fields describe; an architecture that needs more builds its own block from
// the layers.
#pragma once

#include <string>
#include <vector>

#include "nibble/layers/attention.hpp"
#include "nibble/layers/feed_forward.hpp"

namespace nibble {

struct BlockSpec {
  AttentionSpec attention{};
  Index ffn_hidden = 0;
  Activation activation = Activation::silu;
  float norm_eps = 1e-5f;
};

/// A whole decoder.
struct ModelSpec {
  std::string architecture;  ///< "llama"
  std::string name;          ///< what the file calls itself
  Index hidden = 0, vocabulary = 0;
  Index context = 0;         ///< positions seen in training
  float norm_eps = 1e-5f;
  double embedding_scale = 1.0;
  double logit_soft_cap = 0;  ///< 0 = none
  std::vector<BlockSpec> blocks;
};

}  // namespace nibble
