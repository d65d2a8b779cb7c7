// SPDX-License-Identifier: MIT
// Trace: named spans of time, for profiles and for tests that count parallel regions. A context without
// a sink pays one branch per span; the sink belongs to the host.
#pragma once

#include <chrono>
#include <cstdint>

namespace nibble {

/// Whose peak rate bounds a span's operations.
enum class Arithmetic : std::uint8_t {
  float32,   ///< FP32 multiply-adds
  int8,      ///< integer dot products
  bfloat16,  ///< BF16 tile products
};

/// What a span had to do, for comparison with what the machine can; zeros where not stated.
struct TraceWork {
  std::int64_t bytes = 0;  ///< of weights or cache to read; of element-wise ops, rows read and written
  std::int64_t ops = 0;    ///< multiplications and additions; an exponential or a root counts as one
  Arithmetic arithmetic = Arithmetic::float32;
};

struct TraceEvent {
  const char* name;       ///< a string literal ("linear", "attention")
  std::int64_t start_ns;  ///< steady clock
  std::int64_t duration_ns;
  TraceWork work;
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
  TraceSpan(TraceSink* sink, const char* name, const TraceWork& work = {}) noexcept
      : sink_(sink), name_(name), work_(work), start_(sink != nullptr ? now() : 0) {}
  ~TraceSpan() { if (sink_ != nullptr) sink_->record({name_, start_, now() - start_, work_}); }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  TraceSink* sink_;
  const char* name_;
  TraceWork work_;
  std::int64_t start_;
};

}  // namespace nibble
