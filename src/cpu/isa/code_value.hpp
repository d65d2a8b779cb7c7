// SPDX-License-Identifier: MIT
// C[code] of a packed layout as floats. Included inside an instruction set's namespace, after its vector vocabulary.
#pragma once

static inline F code_value(const PackedLayout& l, I code) {
  return l.has_codebook ? lookup16(l.code_values, code) : to_float(sub_i(code, set1_i(l.zero)));
}
