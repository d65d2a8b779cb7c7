// SPDX-License-Identifier: MIT
// Trace: named spans of time, for profiles and for tests that count parallel regions. A context without
// a sink pays one branch per span; the sink belongs to the host.
#pragma once

#include <chrono>
#include <cstdint>

namespace nibble {

struct TraceEvent {
  const char* name;           ///< a string literal ("linear", "attention")
  std::int64_t start_ns;      ///< steady clock
  std::int64_t duration_ns;
  std::int64_t bytes;         ///< bytes of weights or cache the span must read, 0 where not stated
};

/// Called on the thread that ended the span. Implementations must not throw.
class TraceSink {
 public:
  virtual void record(const TraceEvent& event) noexcept = 0;

 protected:
  ~TraceSink() = default;
};

/// RAII: reports the time between construction and destruction to `sink`, if there is one.
class TraceSpan {
 public:
  TraceSpan(TraceSink* sink, const char* name, std::int64_t bytes = 0) noexcept
      : sink_(sink), name_(name), bytes_(bytes), start_(sink != nullptr ? now() : 0) {}
  ~TraceSpan() { if (sink_ != nullptr) sink_->record({name_, start_, now() - start_, bytes_}); }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  TraceSink* sink_;
  const char* name_;
  std::int64_t bytes_, start_;
};

}  // namespace nibble
