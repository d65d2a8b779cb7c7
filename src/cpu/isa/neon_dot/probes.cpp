// SPDX-License-Identifier: MIT
// Probes of NEON: 16 multiply-adds of bytes an sdot.
#include <arm_neon.h>

#include "cpu/kernel_table.hpp"

namespace nibble::cpu::neon_dot {
#include "cpu/isa/constants.hpp"
#include "cpu/isa/vec_neon.hpp"
constexpr int probe_chains = 16;
#include "cpu/isa/probes.hpp"

i64 probe_dot(i64 rounds, double* sum) {
  // Unknown to the compiler, so that it can neither fold the chains nor make one of several.
  const volatile std::int8_t one_in_memory = 1;
  const volatile std::int32_t zero_in_memory = 0;
  const int8x16_t one = vdupq_n_s8(one_in_memory);
  I acc[probe_chains];
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) acc[i] = set1_i(zero_in_memory);
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < probe_chains; ++i) acc[i] = vdotq_s32(acc[i], one, one);
  }
  std::uint32_t all = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) all += static_cast<std::uint32_t>(reduce_add_i(acc[i]));
  *sum = static_cast<double>(all & 0xFFFF);
  return rounds * probe_chains * 16 * 2;
}

}  // namespace nibble::cpu::neon_dot
