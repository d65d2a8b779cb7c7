// SPDX-License-Identifier: MIT
// Host memory comes from a std::pmr::memory_resource, so an application's own allocator is a parameter
// and never a patch. Everything is aligned to one cache line, which every kernel may rely on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

namespace nibble {

using MemoryResource = std::pmr::memory_resource;

/// Alignment of every tensor and arena block: a cache line, and the width of an AVX-512 register.
inline constexpr std::size_t memory_alignment = 64;

/// The default resource of the process, or whatever the host set with std::pmr::set_default_resource.
inline MemoryResource* default_memory() noexcept { return std::pmr::get_default_resource(); }

}  // namespace nibble
