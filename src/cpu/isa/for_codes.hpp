// SPDX-License-Identifier: MIT
// From a matrix's bits and codebook to template arguments. Included inside an instruction set's namespace.
#pragma once

/// Calls F<Bits, Codebook>::call(l, args...) for the matrix's codes.
template <template <int, bool> class F, class... Args>
static inline void for_codes(const PackedLayout& l, Args... args) {
  switch (l.has_codebook ? 0 : l.bits) {
    case 0: return F<4, true>::call(l, args...);
    case 1: return F<1, false>::call(l, args...);
    case 2: return F<2, false>::call(l, args...);
    case 3: return F<3, false>::call(l, args...);
    case 4: return F<4, false>::call(l, args...);
    case 5: return F<5, false>::call(l, args...);
    case 6: return F<6, false>::call(l, args...);
    default: return F<8, false>::call(l, args...);
  }
}
