// SPDX-License-Identifier: MIT
// Where the time of a forward pass goes: spans of a trace summed per class of op, and each class's lower
// bound on a machine of measured rates (backend/machine_rates.hpp).
#pragma once

#include <string_view>
#include <vector>

#include "nibble/core/export.hpp"
#include "nibble/core/trace.hpp"
#include "nibble/core/view.hpp"

namespace nibble {

/// Sums over the spans of one class. Times of spans inside other spans are counted once, in the inner one.
struct OpClassProfile {
  std::string_view op;
  Index calls = 0;
  double seconds = 0;
  double bytes = 0;        ///< TraceWork::bytes
  double integer_ops = 0;  ///< TraceWork::ops
  double bfloat_ops = 0;
  double float_ops = 0;

  double ops() const noexcept { return integer_ops + bfloat_ops + float_ops; }
  /// Operations per byte; 0 where no bytes are stated.
  double intensity() const noexcept { return bytes > 0 ? ops() / bytes : 0; }
};

/// Rates per second that bound a class.
struct RooflineRates {
  double integer_ops = 0, bfloat_ops = 0, float_ops = 0;
  double memory_bytes = 0;  ///< reads of weights and caches of keys and values
  double cache_bytes = 0;   ///< activations, which element-wise ops find in a cache
};

enum class Bound { none, integer_ops, bfloat_ops, float_ops, memory, cache };
/// "integer", "bfloat", "float", "memory", "cache" or "-".
NIBBLE_API std::string_view to_string(Bound bound) noexcept;

struct BoundTime {
  Bound bound = Bound::none;
  double seconds = 0;
};

/// The least time for a class's work and what sets it: operations (of each kind one after the other) or
/// bytes, whichever takes longer. Linear layers, attention, embedding and head read memory, all else a cache.
NIBBLE_API BoundTime bound_of(const OpClassProfile& profile, const RooflineRates& rates) noexcept;

/// A trace sink for one context. Not thread-safe: one context records its spans one after the other.
class NIBBLE_API Profile final : public TraceSink {
 public:
  void record(const TraceEvent& event) noexcept override;

  /// Classes in the order of their first span. Norms of all kinds are "norm", activations "activation"; the
  /// linear layer inside a span "head" and what that span does besides belong to "head".
  std::vector<OpClassProfile> classes() const;
  void clear() noexcept { events_.clear(); }

 private:
  std::vector<TraceEvent> events_;
};

}  // namespace nibble
