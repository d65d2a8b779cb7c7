// SPDX-License-Identifier: MIT
// Reads "<architecture>.<key>" numbers with their bounds, so that an impossible size is an error naming
// its key before anything is computed from it; and the parts of a spec that most architectures share.
#pragma once

#include <cmath>
#include <string>

#include "nibble/core/error.hpp"
#include "nibble/model/arch.hpp"

namespace nibble::arch {

class MetadataReader {
 public:
  explicit MetadataReader(const Metadata& metadata)
      : metadata_(metadata), prefix_(metadata.get<std::string>("general.architecture") + ".") {}

  std::string key(const char* name) const { return prefix_ + name; }
  bool has(const char* name) const { return metadata_.find(key(name)) != nullptr; }

  /// A size in [1, max].
  Index size(const char* name, Index max) const { return bounded(name, metadata_.get<Index>(key(name)), 1, max); }
  Index size_or(const char* name, Index fallback, Index max) const {
    return has(name) ? size(name, max) : fallback;
  }
  /// A finite number > 0.
  double positive(const char* name) const { return check_positive(name, metadata_.get<double>(key(name))); }
  double positive_or(const char* name, double fallback) const { return has(name) ? positive(name) : fallback; }
  /// A finite number >= 0.
  double not_negative_or(const char* name, double fallback) const {
    if (!has(name)) return fallback;
    const double v = metadata_.get<double>(key(name));
    if (!std::isfinite(v) || v < 0) fail(name, std::to_string(v) + " is not a number >= 0");
    return v;
  }
  std::string text_or(const char* name, const char* fallback) const {
    return metadata_.get_or<std::string>(key(name), fallback);
  }
  const Metadata& metadata() const noexcept { return metadata_; }

  [[noreturn]] void fail(const char* name, const std::string& what) const {
    throw Error(Errc::malformed, metadata_.source() + ": " + key(name) + ": " + what);
  }

 private:
  Index bounded(const char* name, Index v, Index min, Index max) const {
    if (v < min || v > max)
      fail(name, std::to_string(v) + " is outside [" + std::to_string(min) + ", " + std::to_string(max) + "]");
    return v;
  }
  double check_positive(const char* name, double v) const {
    if (!std::isfinite(v) || v <= 0) fail(name, std::to_string(v) + " is not a positive number");
    return v;
  }

  const Metadata& metadata_;
  std::string prefix_;
};

/// "<arch>.rope.scaling.*" (and the older scale_linear). An unknown kind is an error, never a default.
RopeScaling read_rope_scaling(const MetadataReader& r);

/// Everything that llama-like decoders state alike: sizes, heads, rotary base, norm epsilon; all blocks equal,
/// queries scaled by attention.scale or else 1/sqrt(head_dim), SiLU.
ModelSpec read_common_spec(const MetadataReader& r, Rope::Pairs pairs);

}  // namespace nibble::arch
