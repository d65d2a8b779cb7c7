// SPDX-License-Identifier: MIT
// The one exception type of the library. Everything that can go wrong with outside data or the
// environment arrives at the caller as an `Error`: a code to branch on and a sentence that names the
// file, the tensor and the numbers involved. The library itself never prints, aborts or exits.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "nibble/core/export.hpp"

namespace nibble {

/// What kind of thing went wrong; stable across versions, so that a host can branch on it.
enum class Errc {
  invalid_argument,  ///< a caller's mistake: shape, range, null, unknown option
  io,                ///< the operating system refused: missing file, full disk, short read
  malformed,         ///< outside bytes break their own format
  unsupported,       ///< well formed, but not something this build can do; names what it was
  out_of_memory,     ///< an allocation or a stated limit was exceeded
  not_finite,        ///< NaN or infinity where a number is needed; names the coordinates
  cancelled,         ///< the caller's stop token was set
  internal           ///< a bug in nibble
};

/// Short stable name of a code ("malformed"), for logs and JSON.
constexpr const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::io: return "io";
    case Errc::malformed: return "malformed";
    case Errc::unsupported: return "unsupported";
    case Errc::out_of_memory: return "out_of_memory";
    case Errc::not_finite: return "not_finite";
    case Errc::cancelled: return "cancelled";
    case Errc::internal: return "internal";
  }
  return "unknown";
}

class NIBBLE_API Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const noexcept { return code_; }

  /// The same error with `where` ("model.gguf") put in front, for layers that know more.
  Error in(const std::string& where) const { return Error(code_, where + ": " + what()); }

 private:
  Errc code_;
};

}  // namespace nibble
