// SPDX-License-Identifier: MIT
// Golden values that come as GGUF files: whole files as bytes, tensors as vectors.
#pragma once

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/io/gguf.hpp"

namespace golden {

inline std::vector<std::byte> read_bytes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw nibble::Error(nibble::Errc::io, file + " cannot be read");
  const std::vector<char> raw{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

/// The elements of a tensor as T, which must be its stored type.
template <class T>
std::vector<T> values(const nibble::GgufFile& file, const std::string& name) {
  const nibble::GgufTensor& tensor = file.tensor(name);
  std::vector<T> v(tensor.bytes.size() / sizeof(T));
  std::memcpy(v.data(), tensor.bytes.data(), v.size() * sizeof(T));
  return v;
}

}  // namespace golden
