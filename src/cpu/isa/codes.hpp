// SPDX-License-Identifier: MIT
// A quad of codes from a panel's lines, for each width: planes of 4, 2 and 1 bits put together in bytes.
// Included inside an instruction set's namespace, after its vector vocabulary.
#pragma once

static inline I every_byte(int value) { return set1_i(value * 0x01010101); }

/// One plane of `Plane` bits that belong at bit `At` of the codes, joined to the lower bits `low`.
template <int Plane, int At, int Quad>
static inline I join_plane(I low, const std::uint8_t* lines) {
  constexpr int quads = 8 / Plane, mask = (1 << Plane) - 1;
  const I line = load_i(lines + Quad / quads * 64);
  const I placed = shift_bytes<Quad % quads * Plane - At>(line);
  return At == 0 ? and_i(placed, every_byte(mask)) : or_masked(low, placed, every_byte(mask << At));
}

/// Quad `Quad` (0 to 7) of W rows; `lines` is the first row's place in the first line of its half chunk.
template <int Bits, int Quad>
static inline I load_quad(const std::uint8_t* lines) {
  static_assert(Bits >= 1 && Bits <= 8);
  if constexpr (Bits == 8) {
    return load_i(lines + Quad * 64);
  } else {
    I v = set1_i(0);
    if constexpr ((Bits & 4) != 0) v = join_plane<4, 0, Quad>(v, lines);
    if constexpr ((Bits & 2) != 0) v = join_plane<2, Bits & 4, Quad>(v, lines + (Bits & 4) * 64);
    if constexpr ((Bits & 1) != 0) v = join_plane<1, Bits & 6, Quad>(v, lines + (Bits & 6) * 64);
    return v;
  }
}

/// Calls f(Const<N>{}) for N = 0 .. Count - 1: constant indices without std headers.
template <int N> struct Const { static constexpr int value = N; };
template <int Count, int At = 0, class Function>
static inline __attribute__((always_inline)) void unrolled(Function&& f) {
  if constexpr (At < Count) {
    f(Const<At>{});
    unrolled<Count, At + 1>(f);
  }
}
