// SPDX-License-Identifier: MIT
// What a PackedMatrix of the CPU holds: one buffer of panels and the layout that explains it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/packed_layout.hpp"
#include "nibble/backend/packed_matrix.hpp"
#include "nibble/core/memory.hpp"

namespace nibble {

struct PackedMatrix<cpu::Backend>::Impl {
  cpu::PackedLayout layout;
  MemoryResource* memory;
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0, alignment = memory_alignment;

  Impl(const cpu::PackedLayout& l, MemoryResource* m);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::uint8_t* panel(Index i) const noexcept { return data + i * layout.panel_bytes; }
  bool has_codes() const noexcept { return layout.kind == cpu::PanelKind::codes; }
};

}  // namespace nibble
