// SPDX-License-Identifier: MIT
// The command line: parsed by CLI11, which only the .cpp file sees.
#pragma once

#include <functional>
#include <stdexcept>

namespace nibble::cli {

/// A wrong command line: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the command line asks for, ready to run; printing help or the version counts. Throws UsageError.
std::function<int()> parse_arguments(int argc, char** argv);

}  // namespace nibble::cli
