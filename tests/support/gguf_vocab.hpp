// SPDX-License-Identifier: MIT
// Reads the tokenizer of a GGUF file for the tests of the text module, which must not depend on io.
// Just enough of the format for well-formed files; every step is still checked against the file's end.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "nibble/text/tokenizer.hpp"

namespace nibble::test {

class GgufVocab {
 public:
  /// Throws std::runtime_error when the file is not there or not GGUF.
  explicit GgufVocab(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path);
    // The metadata comes first; 32 MB hold it for every vocabulary there is.
    bytes_.resize(std::size_t{32} << 20);
    file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    bytes_.resize(static_cast<std::size_t>(file.gcount()));
    if (take(4) != "GGUF" || read<std::uint32_t>() != 3)
      throw std::runtime_error("not GGUF version 3: " + path);
    read<std::uint64_t>();
    for (auto n = read<std::uint64_t>(); n > 0; --n) entry();
  }

  const TokenizerData& data() const { return data_; }

 private:
  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - pos_) throw std::runtime_error("GGUF metadata longer than 32 MB or cut short");
    pos_ += n;
    return std::string_view(bytes_).substr(pos_ - n, n);
  }
  template <class T>
  T read() {
    T v;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  std::string_view string() { return take(read<std::uint64_t>()); }

  static std::uint64_t scalar_size(std::uint32_t type) {
    constexpr std::uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < 13 ? sizes[type] : throw std::runtime_error("unknown GGUF value type");
  }
  template <class T, class Read>
  void array(std::vector<T>& out, std::uint64_t n, Read one) {
    for (; n > 0; --n) out.push_back(one());
  }

  void entry() {
    const std::string_view key = string();
    const auto type = read<std::uint32_t>();
    const std::string_view prefix = "tokenizer.ggml.";
    const std::string name(key.substr(0, prefix.size()) == prefix ? key.substr(prefix.size()) : "");
    if (type == 9) {
      const auto item = read<std::uint32_t>();
      const auto n = read<std::uint64_t>();
      if (name == "tokens") return array(data_.tokens, n, [&] { return string(); });
      if (name == "merges") return array(data_.merges, n, [&] { return string(); });
      if (name == "scores") return array(data_.scores, n, [&] { return read<float>(); });
      if (name == "token_type") return array(data_.types, n, [&] { return read<std::int32_t>(); });
      for (std::uint64_t i = 0; i < n; ++i) item == 8 ? string() : take(scalar_size(item));
      return;
    }
    if (type == 8) {
      const std::string_view value = string();
      if (name == "model") data_.model = value;
      if (name == "pre") data_.pre = value;
      return;
    }
    std::uint64_t value = 0;
    const std::string_view raw = take(scalar_size(type));
    std::memcpy(&value, raw.data(), raw.size());
    const auto id = static_cast<Token>(value);
    if (name == "bos_token_id") data_.bos = id;
    if (name == "eos_token_id") data_.eos = id;
    if (name == "eot_token_id") data_.eot = id;
    if (name == "unknown_token_id") data_.unk = id;
    if (name == "padding_token_id") data_.pad = id;
    if (name == "add_bos_token") data_.add_bos = value != 0;
    if (name == "add_eos_token") data_.add_eos = value != 0;
    if (name == "add_space_prefix") data_.add_space_prefix = value != 0;
  }

  std::string bytes_;
  std::size_t pos_ = 0;
  TokenizerData data_;
};

}  // namespace nibble::test
