// SPDX-License-Identifier: MIT
// nibble: the library's public API from the command line. An error is one line `nibble: error: ...` on
// stderr and exit code 1; a wrong command line 2; an interrupt 130.
#include <csignal>
#include <cstdio>
#include <new>
#include <string>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "nibble/core/error.hpp"

namespace {

int fail(std::string message, int code) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (char& c : message)
    if (c == '\n' || c == '\r') c = ' ';
  std::fputs(("nibble: error: " + message + "\n").c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace nibble;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, so that temporary files are removed
  try {
    return cli::parse_arguments(argc, argv)();
  } catch (const cli::OutputClosed&) {
    return cli::exit_error;
  } catch (const cli::UsageError& e) {
    return fail(e.what(), cli::exit_usage);
  } catch (const Error& e) {
    return fail(e.what(), e.code() == Errc::cancelled ? cli::exit_interrupted : cli::exit_error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", cli::exit_error);
  } catch (const std::exception& e) {
    return fail(e.what(), cli::exit_error);
  }
}
