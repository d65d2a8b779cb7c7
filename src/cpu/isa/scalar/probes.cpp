// SPDX-License-Identifier: MIT
// What portable C++ reaches: the compiler may vectorize these loops for its default processor.
#include "cpu/kernel_table.hpp"

namespace nibble::cpu::scalar {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_scalar.hpp"
constexpr int probe_chains = 32;
#include "cpu/isa/probes.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  constexpr int n = 32;
  const volatile std::int32_t one_in_memory = 1;
  std::int32_t code[n], acc[n];
  for (int i = 0; i < n; ++i) {
    code[i] = one_in_memory;
    acc[i] = 0;
  }
  for (i64 r = 0; r < rounds; ++r) {
    const std::int32_t q = one_in_memory;  // read anew each round: the products cannot leave the loop
    NIBBLE_UNROLL
    for (int i = 0; i < n; ++i) acc[i] += code[i] * q;
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < n; ++i) all += static_cast<std::uint32_t>(acc[i]);
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * n * 2;
}

}  // namespace nibble::cpu::scalar
