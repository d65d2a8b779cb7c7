// SPDX-License-Identifier: MIT
// Communicator: the collectives that parallel layers need, as a concept. With one rank every collective
// is the identity, so single-process code is the same code.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>

#include "nibble/core/contract.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

template <class C>
concept Communicator = requires(C& c, std::span<float> data, std::span<const float> part, Index root) {
  { c.rank() } noexcept -> std::convertible_to<Index>;
  { c.size() } noexcept -> std::convertible_to<Index>;
  { c.all_reduce_sum(data) } -> std::same_as<void>;        ///< in place, the same bits on every rank
  { c.all_gather(part, data) } -> std::same_as<void>;      ///< data = parts of ranks 0, 1, ... in order
  { c.reduce_scatter_sum(data, data) } -> std::same_as<void>;
  { c.broadcast(data, root) } -> std::same_as<void>;
  { c.barrier() } -> std::same_as<void>;
};

/// One process, one rank.
struct SingleRank {
  Index rank() const noexcept { return 0; }
  Index size() const noexcept { return 1; }
  void all_reduce_sum(std::span<float>) const noexcept {}
  void all_gather(std::span<const float> part, std::span<float> all) const {
    NIBBLE_EXPECTS(part.size() == all.size(), "all_gather: the result holds size() parts");
    if (part.data() != all.data()) std::copy(part.begin(), part.end(), all.begin());
  }
  void reduce_scatter_sum(std::span<const float> all, std::span<float> part) const { all_gather(all, part); }
  void broadcast(std::span<float>, Index root) const {
    NIBBLE_EXPECTS(root == 0, "broadcast: root is not a rank");
  }
  void barrier() const noexcept {}
};
static_assert(Communicator<SingleRank>);

}  // namespace nibble
