// SPDX-License-Identifier: MIT
// available_processors: affinity mask and control-group quota, the smaller one, rounded up.
#include "core/processors.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "nibble/core/thread_pool.hpp"

namespace nibble {
namespace detail {
namespace {

std::optional<long long> parse_number(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  for (const char* p = end; p != text.data() + text.size(); ++p)
    if (*p != ' ' && *p != '\n') return std::nullopt;
  return value;
}

std::optional<double> ratio(std::optional<long long> quota, std::optional<long long> period) noexcept {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<std::string> read_small_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::string text(4096, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// The tightest quota from the process's own group up to the root: every ancestor limits it too.
template <class QuotaOf>
std::optional<double> tightest(const std::string& mount, std::string path, QuotaOf&& quota_of) {
  std::optional<double> best;
  for (int depth = 0; depth < 64; ++depth) {
    if (const auto q = quota_of(mount + path)) best = best ? std::min(*best, *q) : *q;
    if (path.empty() || path == "/") break;
    path.erase(path.find_last_of('/'));
  }
  return best;
}

std::optional<double> cgroup_processors() {
  const auto groups = read_small_file("/proc/self/cgroup");
  if (!groups) return std::nullopt;
  if (const auto path = find_cgroup(*groups, "")) {
    const auto q = tightest("/sys/fs/cgroup", *path, [](const std::string& dir) -> std::optional<double> {
      const auto text = read_small_file(dir + "/cpu.max");
      return text ? parse_cpu_max(*text) : std::nullopt;
    });
    if (q) return q;
  }
  if (const auto path = find_cgroup(*groups, "cpu")) {
    return tightest("/sys/fs/cgroup/cpu", *path, [](const std::string& dir) -> std::optional<double> {
      const auto quota = read_small_file(dir + "/cpu.cfs_quota_us"),
                 period = read_small_file(dir + "/cpu.cfs_period_us");
      return quota && period ? parse_cpu_quota(*quota, *period) : std::nullopt;
    });
  }
  return std::nullopt;
}

Index processors_in_mask() noexcept {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  return std::max<Index>(1, std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) noexcept {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return ratio(parse_number(text), 100000);  // the default period
  return ratio(parse_number(text.substr(0, space)), parse_number(text.substr(space + 1)));
}

std::optional<double> parse_cpu_quota(std::string_view quota, std::string_view period) noexcept {
  return ratio(parse_number(quota), parse_number(period));
}

std::optional<std::string> find_cgroup(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view path = line.substr(second + 1);
    if (path.empty() || path.front() != '/' || path.find("..") != std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() && controllers.empty()) return std::string(path);
    while (!controller.empty() && !controllers.empty()) {
      const std::size_t comma = controllers.find(',');
      if (controllers.substr(0, comma) == controller) return std::string(path);
      controllers = comma == std::string_view::npos ? std::string_view{} : controllers.substr(comma + 1);
    }
  }
  return std::nullopt;
}

}  // namespace detail

Index available_processors() noexcept {
  const Index mask = detail::processors_in_mask();
  try {
    if (const auto quota = detail::cgroup_processors())
      return std::clamp<Index>(static_cast<Index>(std::ceil(std::min(*quota, 1e6))), 1, mask);
  } catch (...) {  // an unreadable control group limits nothing
  }
  return mask;
}

}  // namespace nibble
