// SPDX-License-Identifier: MIT
// Reads formats_<name>.bin (tests/golden/make_formats.py): blocks with the values they decode to, and
// values with the blocks they encode to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace nibble::test {

struct FormatGolden {
  struct Pair { std::vector<std::byte> block; std::vector<float> values; };
  bool found = false;
  std::uint32_t block_size = 0, block_bytes = 0;
  std::vector<Pair> decode, encode;

  static FormatGolden load(const std::string& format) {
    FormatGolden g;
    std::ifstream in(std::string(NIBBLE_GOLDEN_DIR) + "/formats_" + format + ".bin", std::ios::binary);
    if (!in) return g;
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    std::size_t at = 0;
    const auto take = [&](void* to, std::size_t n) {
      if (at + n > bytes.size()) return;
      std::memcpy(to, bytes.data() + at, n);
      at += n;
    };
    std::uint32_t magic = 0, decodes = 0, encodes = 0;
    for (std::uint32_t* word : {&magic, &g.block_size, &g.block_bytes, &decodes, &encodes}) take(word, 4);
    if (magic != 0x3146474E) return g;
    const Pair empty{std::vector<std::byte>(g.block_bytes), std::vector<float>(g.block_size)};
    g.decode.assign(decodes, empty);
    g.encode.assign(encodes, empty);
    for (Pair& p : g.decode) {
      take(p.block.data(), g.block_bytes);
      take(p.values.data(), 4 * p.values.size());
    }
    for (Pair& p : g.encode) {
      take(p.values.data(), 4 * p.values.size());
      take(p.block.data(), g.block_bytes);
    }
    g.found = at == bytes.size();
    return g;
  }
};

}  // namespace nibble::test
