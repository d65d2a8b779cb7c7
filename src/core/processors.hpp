// SPDX-License-Identifier: MIT
// How many processors this process may really use: the affinity mask, and the CPU quota of its control
// groups (containers are usually limited by the quota, not by the mask). The parsers are separate
// functions, so that tests can feed them file contents.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nibble/core/export.hpp"

namespace nibble::detail {

/// Processors granted by a cgroup v2 `cpu.max` ("200000 100000" -> 2.0); nothing for "max" or nonsense.
NIBBLE_API std::optional<double> parse_cpu_max(std::string_view text) noexcept;
/// The same of cgroup v1's cpu.cfs_quota_us and cpu.cfs_period_us; nothing when the quota is -1.
NIBBLE_API std::optional<double> parse_cpu_quota(std::string_view quota, std::string_view period) noexcept;
/// The path of this process in /proc/self/cgroup: of the unified hierarchy ("0::/path") when `controller` is
/// empty, else of the v1 hierarchy that has this controller.
NIBBLE_API std::optional<std::string> find_cgroup(std::string_view proc_self_cgroup,
                                                  std::string_view controller);

}  // namespace nibble::detail
