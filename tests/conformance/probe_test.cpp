// SPDX-License-Identifier: MIT
// The probes of every instruction set do the work they count: multiply-adds of ones add up to their number,
// and every word that is read reaches the sum.
#include <cmath>
#include <random>

#include "cpu/dispatch.hpp"
#include "nibble/backend/machine_rates.hpp"
#include "nibble/core/error.hpp"
#include "support/catch.hpp"

using namespace nibble;

TEST_CASE("Probes count their multiply-adds") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO(cpu::to_string(isa));
    const cpu::KernelTable& k = cpu::kernels_of(isa);
    for (const Index rounds : {0, 1, 3, 50}) {
      double sum = -1;
      const Index integer = k.probe_dot(rounds, &sum);
      CHECK(sum == double(integer / 2 % 65536));
      const Index floats = k.probe_fma(rounds, &sum);
      CHECK(sum == double(floats / 2));
      CHECK((rounds == 0) == (integer == 0 && floats == 0));
      if (k.probe_tile == nullptr) continue;
      const Index tiles = k.probe_tile(rounds, &sum);
      CHECK(tiles == rounds * 4 * 16 * 16 * 32 * 2);
      CHECK(sum == double(rounds * 4 * 32));
    }
  }
}

TEST_CASE("The read probe reads every word") {
  std::mt19937 random(5);
  std::vector<std::uint32_t> words(3 * 128 + 17);
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO(cpu::to_string(isa));
    const cpu::KernelTable& k = cpu::kernels_of(isa);
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{128}, words.size()}) {
      std::uint32_t expected = 0;
      for (std::size_t i = 0; i < n; ++i) expected += words[i] = static_cast<std::uint32_t>(random());
      CHECK(k.probe_read(words.data(), static_cast<Index>(n)) == expected);
    }
  }
}

TEST_CASE("Rates are positive, and a buffer too small is refused") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO(cpu::to_string(isa));
    ExecutionContext<cpu::Backend> context({.threads = 2, .isa = isa});
    // A processor of the last decades does at least one operation, and reads at least a byte, in 100 ns.
    CHECK(measure_integer_ops(context) > 1e7);
    CHECK(measure_float_ops(context) > 1e7);
    CHECK((measure_bfloat_ops(context) > 1e7) == (context.kernels().probe_tile != nullptr));
    CHECK(measure_read(context, 1 << 16) > 1e7);
    CHECK(std::isfinite(measure_read(context, 128)));
    CHECK_THROWS_AS(measure_read(context, 127), Error);
  }
}
