// SPDX-License-Identifier: MIT
// A look into, and a hand on, the residual stream between layers.
#pragma once

#include "nibble/core/function_ref.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

enum class LayerAction { proceed, stop };

/// Called with hidden[tokens, hidden] after each layer (layer = -1: after the embedding). It may read and
/// change the rows; `stop` ends the forward pass there: no logits are made and no sequence advances.
using LayerObserver = FunctionRef<LayerAction(Index layer, MatrixView<float> hidden)>;

}  // namespace nibble
