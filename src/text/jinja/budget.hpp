// SPDX-License-Identifier: MIT
// Budget: what a template may still spend. Time and memory draw on one account: every node evaluated,
// every list item made and every 32 bytes of text copied cost a step, so bounding steps bounds both.
#pragma once

#include <string>
#include <string_view>

#include "nibble/core/error.hpp"
#include "nibble/text/chat_template.hpp"

namespace nibble::jinja {

/// An operation that fails on its data, as a Python exception would.
[[noreturn]] inline void fail(const std::string& message) { throw Error(Errc::malformed, message); }
[[noreturn]] inline void fail_unsupported(const std::string& what) {
  throw Error(Errc::unsupported, what + " is not supported");
}
[[noreturn]] inline void fail_limit(const std::string& message) { throw Error(Errc::out_of_memory, message); }

class Budget {
 public:
  explicit Budget(const ChatTemplateLimits& limits) : limits_(limits), steps_left_(limits.max_steps) {}

  void charge(std::size_t steps) {
    if (steps > steps_left_) fail_limit("more than " + std::to_string(limits_.max_steps) + " steps");
    steps_left_ -= steps;
  }
  /// Pays for `bytes` of text about to be copied into one string that will then hold `total` bytes.
  void charge_text(std::size_t bytes, std::size_t total) {
    if (total > limits_.max_output_bytes || bytes > limits_.max_output_bytes) {
      fail_limit("text longer than " + std::to_string(limits_.max_output_bytes) + " bytes");
    }
    charge(1 + bytes / 32);
  }
  void charge_text(std::size_t bytes) { charge_text(bytes, bytes); }

  void enter() {
    if (++depth_ > limits_.max_depth) {
      --depth_;
      fail_limit("evaluation nested deeper than " + std::to_string(limits_.max_depth));
    }
  }
  void leave() noexcept { --depth_; }

 private:
  ChatTemplateLimits limits_;
  std::size_t steps_left_;
  std::size_t depth_ = 0;
};

/// Counts one level of recursion for its lifetime.
class DepthGuard {
 public:
  explicit DepthGuard(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~DepthGuard() { budget_.leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Budget& budget_;
};

/// A string under construction that pays for what is added.
class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}
  Budget& budget() noexcept { return budget_; }
  void add(std::string_view text) {
    budget_.charge_text(text.size(), text_.size() + text.size());
    text_.append(text);
  }
  void add(std::size_t count, char c) {
    budget_.charge_text(count, count > npos - text_.size() ? npos : text_.size() + count);
    text_.append(count, c);
  }
  const std::string& text() const noexcept { return text_; }
  std::string take() noexcept { return std::move(text_); }

 private:
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  Budget& budget_;
  std::string text_;
};

}  // namespace nibble::jinja
