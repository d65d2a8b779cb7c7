// SPDX-License-Identifier: MIT
// Sleeping on a 32-bit atomic until another thread changes it: one system call to wake any number of
// sleepers. std::atomic's own wait is the same idea, but spins and yields first, which the pool does itself.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace nibble::detail {

/// Returns at once when `word` is not `expected`, else when woken; sometimes for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
#if defined(__linux__)
  static_assert(sizeof(word) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
#else
  word.wait(expected);
#endif
}

/// Wakes up to `count` threads that wait on `word`.
inline void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
#if defined(__linux__)
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
#else
  if (count == 1) word.notify_one();
  else word.notify_all();
#endif
}

}  // namespace nibble::detail
