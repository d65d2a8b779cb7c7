// SPDX-License-Identifier: MIT
// Constants of the vector headers; included inside an instruction set's namespace, before them.
#pragma once

constexpr double two_over_pi = 0.63661977236758134308;
/// pi/2 = high + low; high has 33 bits, so that multiples up to 2^20 are exact.
constexpr double pi_half_high = 0x1.921fb544p+0, pi_half_low = 0x1.0b4611a626331p-34;
constexpr float minus_infinity = -__builtin_inff();
