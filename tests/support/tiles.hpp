// SPDX-License-Identifier: MIT
// Contexts that multiply BF16 tiles, where the machine or the build's emulation has them.
#pragma once

#include "cpu/dispatch.hpp"
#include "cpu/kernel_table.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"

namespace nibble::test {

/// False, and said so, where there are no tiles.
inline bool has_tiles() {
  if (cpu::kernels_of(cpu::available_isas().back()).dot_rounded != nullptr) return true;
  WARN("skipped: this processor has no AMX, and the build does not emulate it");
  return false;
}

/// The default of a user: batches may change bits.
inline ContextOptions with_tiles(Index threads) {
  ContextOptions o = on(cpu::available_isas().back(), threads);
  o.batch_invariant = false;
  return o;
}

}  // namespace nibble::test
