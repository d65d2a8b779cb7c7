// SPDX-License-Identifier: MIT
#include "cli/terminal.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>

#include "nibble/core/error.hpp"
#include "nibble/io/mmap.hpp"

namespace nibble::cli {

namespace {

std::atomic<bool> interrupted = false;  // any thread may be the one that is interrupted
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int) { interrupted = true; }

// No SA_RESTART: a read of the keyboard ends, too.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void write_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw OutputClosed{};
  throw Error(Errc::io, std::string("cannot write to standard output: ") + std::strerror(errno));
}

void note(std::string_view text) { std::cerr << "nibble: note: " + std::string(text) + "\n"; }

std::string read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  const MappedFile file = MappedFile::open(path, FileMode::read);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

ProgressBar::ProgressBar(std::string title) : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (open_) std::cerr << std::endl;  // an unfinished bar stays readable
}

void ProgressBar::update(long long done, long long total, std::string_view what) {
  const int percent = total > 0 ? static_cast<int>(done * 100 / total) : 100;
  const int step = terminal_ ? percent : percent / 10 * 10;
  if (step == shown_) return;
  if (!terminal_ && step == 0) return;
  shown_ = step;
  if (!terminal_) {
    std::cerr << title_ + " " + std::to_string(step) + " %\n";
    return;
  }
  constexpr int width = 32;
  const auto filled = static_cast<std::size_t>(percent * width / 100);
  std::string line = "\r" + title_ + " [" + std::string(filled, '#') + std::string(width - filled, '.') + "] " +
                     std::to_string(percent) + " % " + std::string(what.substr(0, 30));
  std::cerr << line << "\033[K" << std::flush;
  open_ = percent < 100;
  if (!open_) std::cerr << std::endl;
}

Interrupt::Interrupt() {
  interrupted = false;
  handle(SIGINT, on_signal);
  handle(SIGTERM, on_signal);
  watcher_ = std::jthread([source = source_](const std::stop_token& done) mutable {
    while (!done.stop_requested()) {
      if (interrupted) source.request_stop();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

bool Interrupt::requested() const { return interrupted; }

Interrupt::~Interrupt() {
  watcher_.request_stop();
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

std::string readable_bytes(double bytes) {
  static constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text.data();
}

}  // namespace nibble::cli
