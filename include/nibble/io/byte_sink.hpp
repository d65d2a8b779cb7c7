// SPDX-License-Identifier: MIT
// ByteSink: where bytes go, one piece after another: a file, memory, a hash, a socket of the host's.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "nibble/core/export.hpp"

namespace nibble {

class NIBBLE_API ByteSink {
 public:
  virtual ~ByteSink();
  /// Takes all of `bytes` or throws.
  virtual void write(std::span<const std::byte> bytes) = 0;
};

/// Collects everything in memory.
class NIBBLE_API MemorySink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() noexcept { return std::exchange(bytes_, {}); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace nibble
