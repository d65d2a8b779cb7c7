// SPDX-License-Identifier: MIT
// Large pages for scratch and weights. All weights of a model lie one after another in slabs of them: alone, a matrix
// of less than a few large pages gets none, and small pages cost a third of the read rate. The prefetcher stops at the
// end of each, and so does the reach of the address cache.
#pragma once

#include <vector>

#include "nibble/core/memory.hpp"

namespace nibble::cpu {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
/// Asks for large pages; refusal changes nothing.
void wish_huge_pages(void* data, std::size_t bytes) noexcept;

/// Hands requests on; those of a large page or more become whole large pages. As many threads as upstream allows.
class LargePages final : public MemoryResource {
 public:
  explicit LargePages(MemoryResource* upstream) noexcept : upstream_(upstream) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const MemoryResource& other) const noexcept override { return this == &other; }

  MemoryResource* upstream_;
};

/// For one thread at a time. Freed memory goes back with the arena, except the last allocation's.
class PageArena final : public MemoryResource {
 public:
  explicit PageArena(MemoryResource* upstream) noexcept : upstream_(upstream) {}
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;
  ~PageArena() override;

 private:
  struct Slab {
    std::byte* data;
    std::size_t bytes, used;
  };
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const MemoryResource& other) const noexcept override { return this == &other; }

  MemoryResource* upstream_;
  std::vector<Slab> slabs_;
  std::size_t current_ = 0;  ///< the slab with most room
};

}  // namespace nibble::cpu
