// SPDX-License-Identifier: MIT
// What a PackedMatrix of the CPU holds: one buffer of panels and the layout that explains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/packed_layout.hpp"
#include "cpu/sparse_layout.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/memory.hpp"

namespace nibble {

struct PackedMatrix<cpu::Backend>::Impl {
  cpu::PackedLayout layout;  ///< of dense panels, or of what sparse ones expand to
  MemoryResource* memory;
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0, alignment = memory_alignment;
  std::size_t used = 0;  ///< of `bytes`

  PackedSparsity sparsity{};
  cpu::PackedLayout block_layout{};   ///< of the chunks of panels in blocks
  std::vector<std::uint64_t> starts;  ///< of sparse panels, and their end

  Impl(const cpu::PackedLayout& l, const ExecutionContext<cpu::Backend>& context, const PackOptions& options);
  Impl(const cpu::PackedLayout& l, const ExecutionContext<cpu::Backend>& context, const PackOptions& options,
       std::size_t panel_bytes);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::uint8_t* panel(Index i) const noexcept {
    return data + (dense() ? i * layout.panel_bytes : static_cast<Index>(starts[static_cast<std::size_t>(i)]));
  }
  bool dense() const noexcept { return sparsity.packing == SparsePacking::dense; }
  bool bitmap() const noexcept { return sparsity.packing == SparsePacking::bitmap; }
  bool blocks() const noexcept { return sparsity.packing == SparsePacking::blocks; }
  bool has_codes() const noexcept { return layout.kind == cpu::PanelKind::codes; }
};

}  // namespace nibble
