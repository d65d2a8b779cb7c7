// SPDX-License-Identifier: MIT
// Probes of a unit's FP32 rate and of its loads, over the vector vocabulary. Included inside an instruction
// set's namespace; `probe_chains` independent chains hide the latency of the multiply-add.
#pragma once

i64 probe_fma(i64 rounds, double* sum) {
  // Unknown to the compiler, and each time anew, so that it can neither fold the chains nor make one of several.
  const volatile float one_in_memory = 1.0f, zero_in_memory = 0.0f;
  const F one = set1(one_in_memory);
  F acc[probe_chains];
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) acc[i] = set1(zero_in_memory);
  for (i64 r = 0; r < rounds; ++r) {
    NIBBLE_UNROLL
    for (int i = 0; i < probe_chains; ++i) acc[i] = fma(one, one, acc[i]);
  }
  *sum = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < probe_chains; ++i) *sum += static_cast<double>(reduce_add(acc[i]));
  return rounds * probe_chains * W * 2;
}

std::uint32_t probe_read(const std::uint32_t* p, i64 words) {
  constexpr i64 lines = 8, step = lines * 16;  // eight cache lines a round
  constexpr int vectors = static_cast<int>(step / W);
  constexpr int chains = vectors < 8 ? vectors : W == 1 ? 16 : 8;
  I acc[chains];
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) acc[i] = set1_i(0);
  i64 at = 0;
  for (; at + step <= words; at += step) {
    NIBBLE_UNROLL
    for (int i = 0; i < lines; ++i) __builtin_prefetch(p + at + 1024 + i * 16);
    for (int v = 0; v < vectors; v += chains) {
      NIBBLE_UNROLL
      for (int i = 0; i < chains; ++i) acc[i] = add_i(acc[i], load_i(p + at + (v + i) * W));
    }
  }
  std::uint32_t sum = 0;
  NIBBLE_UNROLL
  for (int i = 0; i < chains; ++i) sum += static_cast<std::uint32_t>(reduce_add_i(acc[i]));
  for (; at < words; ++at) sum += p[at];
  return sum;
}
