// SPDX-License-Identifier: MIT
#include "nibble/cache/sequence_state.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "nibble/cache/kv_codec.hpp"

namespace nibble {

SequenceState::SequenceState(std::span<const LayerState> layers, Index max_tokens, MemoryResource* memory)
    : max_tokens_(max_tokens), memory_(memory) {
  NIBBLE_EXPECTS(max_tokens > 0, "a sequence state needs room for at least one token");
  layers_.reserve(layers.size());
  for (const LayerState& l : layers) {
    NIBBLE_EXPECTS(l.kv.kv_heads > 0 && l.kv.head_dim > 0 && l.kv.value_dim > 0 && l.window >= 0,
                   "a layer state needs positive heads and dimensions");
    NIBBLE_EXPECTS(is_kv_dtype(l.kv.dtype), "keys and values are f32, f16 or i8, not " +
                                                std::string(to_string(l.kv.dtype)));
    layers_.push_back({l, {}, {}});
  }
}

SequenceState::SequenceState(SequenceState&& o) noexcept
    : layers_(std::exchange(o.layers_, {})), tokens_(std::exchange(o.tokens_, 0)), max_tokens_(o.max_tokens_),
      memory_(o.memory_) {}

SequenceState& SequenceState::operator=(SequenceState&& o) noexcept {
  if (this == &o) return *this;
  free_pages();
  layers_ = std::exchange(o.layers_, {});
  tokens_ = std::exchange(o.tokens_, 0);
  max_tokens_ = o.max_tokens_;
  memory_ = o.memory_;
  return *this;
}

SequenceState::~SequenceState() { free_pages(); }

std::size_t SequenceState::page_bytes(const Pages& p, bool value) const {
  const KvShape& kv = p.shape.kv;
  Index n = checked::mul(kv.kv_heads, kv_page_tokens, "page size");
  const Index dim = value ? kv.value_dim : kv.head_dim;
  checked::mul(n, checked::add(checked::mul(dim, Index{4}, "page size"), Index{4}, "page size"), "page size");
  return static_cast<std::size_t>(kv_page_bytes(kv, dim));
}

void SequenceState::free_pages() noexcept {
  for (Pages& p : layers_) {
    for (std::byte* b : p.keys) memory_->deallocate(b, page_bytes(p, false), memory_alignment);
    for (std::byte* b : p.values) memory_->deallocate(b, page_bytes(p, true), memory_alignment);
    p.keys.clear();
    p.values.clear();
  }
}

std::size_t SequenceState::bytes() const noexcept {
  std::size_t n = 0;
  for (const Pages& p : layers_) n += p.keys.size() * page_bytes(p, false) + p.values.size() * page_bytes(p, true);
  return n;
}

void SequenceState::reserve(Index count) {
  NIBBLE_EXPECTS(count >= 0, "negative token count");
  NIBBLE_EXPECTS(count <= max_tokens_ - tokens_,
                 "the sequence holds " + std::to_string(tokens_) + " of at most " + std::to_string(max_tokens_) +
                     " tokens: no room for " + std::to_string(count) + " more");
  const auto pages = static_cast<std::size_t>(checked::ceil_div(tokens_ + count, kv_page_tokens));
  for (Pages& p : layers_) {
    p.keys.reserve(pages);
    p.values.reserve(pages);
    const auto add = [&](std::vector<std::byte*>& list, bool value) {
      const std::size_t bytes = page_bytes(p, value);
      // What a page holds where nothing was written, attention reads into results that nobody looks at (tests fill
      // pages with NaN). So pages are first touched by the workers that append to them.
      while (list.size() < pages) list.push_back(static_cast<std::byte*>(memory_->allocate(bytes, memory_alignment)));
    };
    add(p.keys, false);
    add(p.values, true);
  }
}

KvView SequenceState::view(Index layer, Index count) const {
  NIBBLE_EXPECTS(layer >= 0 && layer < layers(), "no layer " + std::to_string(layer) + " in this state");
  const Pages& p = layers_[static_cast<std::size_t>(layer)];
  NIBBLE_EXPECTS(static_cast<Index>(p.keys.size()) * kv_page_tokens >= tokens_ + count,
                 "reserve() room before viewing it");
  return {p.shape.kv, tokens_ + count, p.keys, p.values};
}

void SequenceState::advance(Index count) {
  NIBBLE_EXPECTS(count >= 0 && count <= max_tokens_ - tokens_, "advance beyond the sequence's capacity");
  tokens_ += count;
}

void SequenceState::truncate(Index tokens) {
  NIBBLE_EXPECTS(tokens >= 0 && tokens <= tokens_, "truncate(" + std::to_string(tokens) + ") of a sequence of " +
                                                       std::to_string(tokens_) + " tokens");
  tokens_ = tokens;
}

namespace {

/// Moves the keys, or the values, of positions [from, from + count) to [to, ...), to < from, across pages.
void move_tokens(std::span<std::byte* const> pages, const KvShape& s, bool value, Index to, Index from, Index count) {
  const std::size_t element = size_of(s.dtype);
  const Index dim = value ? s.value_dim : s.head_dim;
  const auto page = [&](Index token) { return pages[static_cast<std::size_t>(token / kv_page_tokens)]; };
  const auto at = [&](Index head, Index token, Index d) {
    const Index index = value ? value_index(s, head, token, d) : key_index(s, head, token, d);
    return page(token) + static_cast<std::size_t>(index) * element;
  };
  for (Index head = 0; head < s.kv_heads; ++head)
    for (Index i = 0; i < count; ++i) {
      if (value) std::memcpy(at(head, to + i, 0), at(head, from + i, 0), element * static_cast<std::size_t>(dim));
      else
        for (Index d = 0; d < dim; ++d) std::memcpy(at(head, to + i, d), at(head, from + i, d), element);
      if (s.dtype == DType::i8)
        std::memcpy(page(to + i) + kv_scale_offset(s, dim, head, to + i),
                    page(from + i) + kv_scale_offset(s, dim, head, from + i), sizeof(float));
    }
}

}  // namespace

void SequenceState::erase(Index begin, Index count) {
  NIBBLE_EXPECTS(begin >= 0 && count >= 0 && begin <= tokens_ - count,
                 "erase(" + std::to_string(begin) + ", " + std::to_string(count) + ") of a sequence of " +
                     std::to_string(tokens_) + " tokens");
  if (count == 0) return;
  const Index behind = tokens_ - begin - count;
  for (Pages& p : layers_) {
    move_tokens(p.keys, p.shape.kv, false, begin, begin + count, behind);
    move_tokens(p.values, p.shape.kv, true, begin, begin + count, behind);
  }
  tokens_ -= count;
}

SequenceState SequenceState::fork() const {
  std::vector<LayerState> shapes;
  for (const Pages& p : layers_) shapes.push_back(p.shape);
  SequenceState copy(shapes, max_tokens_, memory_);
  copy.reserve(tokens_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (std::size_t j = 0; j < copy.layers_[i].keys.size(); ++j) {
      std::memcpy(copy.layers_[i].keys[j], layers_[i].keys[j], page_bytes(layers_[i], false));
      std::memcpy(copy.layers_[i].values[j], layers_[i].values[j], page_bytes(layers_[i], true));
    }
  }
  copy.tokens_ = tokens_;
  return copy;
}

}  // namespace nibble
