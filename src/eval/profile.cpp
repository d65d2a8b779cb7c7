// SPDX-License-Identifier: MIT
#include "nibble/eval/profile.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace nibble {

namespace {

constexpr std::array class_of_span{
    std::pair{std::string_view("rms_norm"), std::string_view("norm")},
    std::pair{std::string_view("layer_norm"), std::string_view("norm")},
    std::pair{std::string_view("swiglu"), std::string_view("activation")},
    std::pair{std::string_view("geglu"), std::string_view("activation")},
    std::pair{std::string_view("gelu"), std::string_view("activation")},
};

std::string_view class_name(std::string_view span) noexcept {
  for (const auto& [name, op] : class_of_span)
    if (name == span) return op;
  return span;
}

bool reads_memory(std::string_view op) noexcept {
  return op == "linear" || op == "head" || op == "attention" || op == "embedding";
}

double rate_time(double amount, double rate) noexcept { return amount > 0 && rate > 0 ? amount / rate : 0; }

double& ops_of(OpClassProfile& c, Arithmetic arithmetic) noexcept {
  switch (arithmetic) {
    case Arithmetic::int8: return c.integer_ops;
    case Arithmetic::bfloat16: return c.bfloat_ops;
    case Arithmetic::float32: break;
  }
  return c.float_ops;
}

bool inside(const TraceEvent& inner, const TraceEvent& outer) noexcept {
  return inner.start_ns >= outer.start_ns &&
         inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns;
}

}  // namespace

std::string_view to_string(Bound bound) noexcept {
  constexpr std::array<std::string_view, 6> names{"-", "integer", "bfloat", "float", "memory", "cache"};
  return names[static_cast<std::size_t>(bound)];
}

BoundTime bound_of(const OpClassProfile& p, const RooflineRates& rates) noexcept {
  const bool memory = reads_memory(p.op);
  const double integer = rate_time(p.integer_ops, rates.integer_ops);
  const double bfloats = rate_time(p.bfloat_ops, rates.bfloat_ops);
  const double floats = rate_time(p.float_ops, rates.float_ops);
  const double ops = integer + bfloats + floats;
  const double bytes = rate_time(p.bytes, memory ? rates.memory_bytes : rates.cache_bytes);
  if (ops + bytes == 0) return {};
  if (bytes >= ops) return {memory ? Bound::memory : Bound::cache, bytes};
  if (integer >= bfloats && integer >= floats) return {Bound::integer_ops, ops};
  return {bfloats >= floats ? Bound::bfloat_ops : Bound::float_ops, ops};
}

void Profile::record(const TraceEvent& event) noexcept {
  try {
    events_.push_back(event);
  } catch (const std::bad_alloc&) {  // a sink must not throw: the profile then lacks this span
  }
}

std::vector<OpClassProfile> Profile::classes() const {
  // Spans end after those inside them: an outer span finds its inner ones just before itself.
  std::vector<double> own(events_.size());
  std::vector<std::string_view> op(events_.size());
  std::vector<std::size_t> open;  // spans that no later one has claimed yet
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const TraceEvent& event = events_[i];
    own[i] = static_cast<double>(event.duration_ns);
    op[i] = class_name(event.name);
    while (!open.empty() && inside(events_[open.back()], event)) {
      own[i] -= static_cast<double>(events_[open.back()].duration_ns);
      if (op[i] == "head" && op[open.back()] == "linear") op[open.back()] = "head";
      open.pop_back();
    }
    open.push_back(i);
  }
  std::vector<OpClassProfile> result;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    auto found = std::find_if(result.begin(), result.end(), [&](const auto& c) { return c.op == op[i]; });
    if (found == result.end()) found = result.insert(result.end(), OpClassProfile{.op = op[i]});
    const TraceWork& work = events_[i].work;
    ++found->calls;
    found->seconds += own[i] * 1e-9;
    found->bytes += static_cast<double>(work.bytes);
    ops_of(*found, work.arithmetic) += static_cast<double>(work.ops);
  }
  return result;
}

}  // namespace nibble
