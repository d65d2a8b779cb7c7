// SPDX-License-Identifier: MIT
// Keys and values of one sequence for attention tests: owns pages and shows them as a KvView. Pages start
// as NaN, so that reading beyond the valid tokens shows.
#pragma once

#include <cstring>
#include <vector>

#include "nibble/cache/kv_codec.hpp"
#include "nibble/core/tensor.hpp"

namespace nibble::test {

class KvPages {
 public:
  KvPages(const KvShape& shape, Index capacity) : shape_(shape) {
    const Index pages = (capacity + kv_page_tokens - 1) / kv_page_tokens;
    for (Index p = 0; p < pages; ++p) {
      add(keys_, key_pointers_, shape.head_dim);
      add(values_, value_pointers_, shape.value_dim);
    }
  }
  KvView view(Index tokens) { return {shape_, tokens, key_pointers_, value_pointers_}; }
  void drop_page(Index p) {
    key_pointers_[static_cast<std::size_t>(p)] = nullptr;
    value_pointers_[static_cast<std::size_t>(p)] = nullptr;
  }

 private:
  void add(std::vector<std::vector<std::byte>>& pages, std::vector<std::byte*>& pointers, Index dim) {
    const auto bytes = static_cast<std::size_t>(kv_page_bytes(shape_, dim));
    pages.emplace_back(bytes, std::byte{0xFF});  // all ones is a NaN, also as the scale of integers
    pointers.push_back(pages.back().data());
  }

  KvShape shape_;
  std::vector<std::vector<std::byte>> keys_, values_;
  std::vector<std::byte*> key_pointers_, value_pointers_;
};

}  // namespace nibble::test
