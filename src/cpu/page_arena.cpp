// SPDX-License-Identifier: MIT
#include "cpu/page_arena.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "nibble/core/checked.hpp"
#include "nibble/core/contract.hpp"

namespace nibble::cpu {

namespace {
/// Slabs double up to here, so that a small model takes little. What of a slab is never used is never made resident.
constexpr std::size_t largest_slab = std::size_t{64} << 20;
}  // namespace

void wish_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  madvise(data, bytes, MADV_HUGEPAGE);
#endif
}

void* LargePages::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < huge_page) return upstream_->allocate(bytes, alignment);
  NIBBLE_EXPECTS(alignment <= huge_page, "large pages align to themselves");
  const std::size_t size = checked::round_up(bytes, huge_page, "scratch bytes");
  void* data = upstream_->allocate(size, huge_page);
  wish_huge_pages(data, size);
  return data;
}

void LargePages::do_deallocate(void* data, std::size_t bytes, std::size_t alignment) {
  if (bytes < huge_page) return upstream_->deallocate(data, bytes, alignment);
  upstream_->deallocate(data, checked::round_up(bytes, huge_page, "scratch bytes"), huge_page);
}

PageArena::~PageArena() {
  for (const Slab& s : slabs_) upstream_->deallocate(s.data, s.bytes, huge_page);
}

void* PageArena::do_allocate(std::size_t bytes, std::size_t alignment) {
  NIBBLE_EXPECTS(alignment <= memory_alignment, "an arena of pages aligns to cache lines");
  bytes = checked::round_up(bytes, memory_alignment, "arena bytes");
  if (slabs_.empty() || slabs_[current_].bytes - slabs_[current_].used < bytes) {
    const std::size_t size = std::max(checked::round_up(bytes, huge_page, "arena bytes"),
                                      std::min(largest_slab, huge_page << std::min<std::size_t>(slabs_.size(), 5)));
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back({static_cast<std::byte*>(upstream_->allocate(size, huge_page)), size, 0});
    if (size > huge_page) wish_huge_pages(slabs_.back().data, size);
    const std::size_t left = size - bytes;
    if (slabs_.size() > 1 && slabs_[current_].bytes - slabs_[current_].used > left) {
      slabs_.back().used = bytes;
      return slabs_.back().data;
    }
    current_ = slabs_.size() - 1;
  }
  Slab& s = slabs_[current_];
  s.used += bytes;
  return s.data + (s.used - bytes);
}

void PageArena::do_deallocate(void* data, std::size_t bytes, std::size_t) {
  bytes = checked::round_up(bytes, memory_alignment, "arena bytes");
  for (Slab& s : slabs_)
    if (bytes <= s.used && s.data + (s.used - bytes) == data) s.used -= bytes;
}

}  // namespace nibble::cpu
