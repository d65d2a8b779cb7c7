// SPDX-License-Identifier: MIT
// The program's side of the process: output, progress, interruption.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace nibble::cli {

/// Standard output was closed by its reader (a pager, head): no error, and nobody to tell.
struct OutputClosed {};

/// Writes to stdout and flushes; throws OutputClosed or Error{io}.
void write_out(std::string_view text);
/// One line to stderr: "nibble: note: ...".
void note(std::string_view text);
/// The whole of a file, or of stdin for "-". Throws Error{io}.
std::string read_text(const std::string& path);
/// 98362432 -> "93.8 MiB"
std::string readable_bytes(double bytes);

/// On a terminal a bar that redraws itself, else one line per ten per cent, on stderr.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void update(long long done, long long total, std::string_view what = {});

 private:
  std::string title_;
  bool terminal_, open_ = false;
  int shown_ = -1;
};

/// While it lives, SIGINT and SIGTERM request a stop. The handler only sets a flag, which a thread looks at:
/// requesting a stop runs callbacks, and that is nothing for a signal handler. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  std::stop_token token() const { return source_.get_token(); }
  /// At once, before the thread has looked.
  bool requested() const;

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace nibble::cli
