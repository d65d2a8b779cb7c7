// SPDX-License-Identifier: MIT
// Turns the key section of a GGUF file into Metadata: one pass, no copy, each string array indexed once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/byte_cursor.hpp"
#include "nibble/io/gguf.hpp"
#include "nibble/io/metadata.hpp"

namespace nibble {

class MetadataParser {
 public:
  MetadataParser(ByteCursor& cursor, const GgufLimits& limits) : cursor_(cursor), limits_(limits) {}

  /// Reads `count` entries at the cursor. The result views the cursor's bytes; `owned`, when given, is what
  /// keeps them alive.
  Metadata parse(std::uint64_t count, std::string source,
                 std::shared_ptr<const std::vector<std::byte>> owned = nullptr);

 private:
  MetadataEntry entry(Metadata& to);
  MetadataValue value(MetadataType type, Metadata& to, const std::string& what);
  MetadataValue array(Metadata& to, const std::string& what);
  MetadataType value_type(const std::string& what);

  ByteCursor& cursor_;
  const GgufLimits& limits_;
};

}  // namespace nibble
