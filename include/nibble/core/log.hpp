// SPDX-License-Identifier: MIT
// Progress and log sinks: the library says nothing unless the host gives it somewhere to say it.
#pragma once

#include <functional>
#include <stop_token>
#include <string_view>

#include "nibble/core/error.hpp"

namespace nibble {

enum class LogLevel { info, warning };

/// Receives one message without a trailing newline. Empty = silent, the default.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Long work calls progress(done, total, what) now and then; units are the caller's (tensors, tokens).
using Progress = std::function<void(long long done, long long total, std::string_view what)>;

/// Throws Error{cancelled} when `stop` was requested: the one way long work ends early.
inline void throw_if_stopped(const std::stop_token& stop, const char* what) {
  if (stop.stop_requested()) throw Error(Errc::cancelled, std::string(what) + " was cancelled");
}

}  // namespace nibble
