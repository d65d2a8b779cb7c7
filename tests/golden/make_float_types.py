#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Golden values for the narrow floating-point types, from ml_dtypes 0.6.0 and numpy 2.4.6.
# Run: make_float_types.py OUT_DIR. Writes float_types.txt: one line per check,
#   decode TYPE HASH            FNV-1a over the f32 bits of every code in order
#   encode16 TYPE HASH          over the codes of every f16, then every bf16 pattern, widened to f32
#   tie TYPE F32HEX CODEHEX     midpoints, their neighbours, and the overflow edge
# A NaN is hashed as 0x7FC00000 (decode) or 0xFFFF (encode): which NaN it is, no specification fixes.
# Two inputs are not taken from ml_dtypes: NaN to FP4, which has none and where ml_dtypes flips the sign of
# the zero it gives (here always -0), and subnormal floats to E8M0, where ml_dtypes rounds everything above
# 2^-127 up to 2^-126 (here to the nearest, ties up, as everywhere else in its range).
import sys
from pathlib import Path

import ml_dtypes as m
import numpy as np

TYPES = {"f16": np.float16, "bf16": m.bfloat16, "f8_e4m3": m.float8_e4m3fn, "f8_e5m2": m.float8_e5m2,
         "f4_e2m1": m.float4_e2m1fn, "e8m0": m.float8_e8m0fnu}


def fnv(words):
    h = 0xCBF29CE484222325
    for b in words.astype("<u4").tobytes():
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def codes_of(name, x):
    t = TYPES[name]
    with np.errstate(all="ignore"):
        y = x.astype(t)
    raw = y.view(np.uint16 if y.dtype.itemsize == 2 else np.uint8).astype(np.uint32)
    if name == "f4_e2m1": return np.where(np.isnan(x), 8, raw)
    if name == "e8m0":
        u = x.view(np.uint32)
        raw = np.where((u > 0) & (u < 0x00800000), np.where(u >= 0x00600000, 1, 0), raw)
    return np.where(np.isnan(y.astype(np.float32)), 0xFFFF, raw)


def main(out):
    lines = []
    n16 = np.arange(65536, dtype=np.uint16)
    with np.errstate(all="ignore"):
        every = np.concatenate([n16.view(np.float16).astype(np.float32), n16.view(m.bfloat16).astype(np.float32)])
    for name, t in TYPES.items():
        wide = name in ("f16", "bf16")
        bits = n16 if wide else np.arange(16 if name == "f4_e2m1" else 256, dtype=np.uint8)
        with np.errstate(all="ignore"):
            values = bits.view(t).astype(np.float32)
        lines.append(f"decode {name} {fnv(np.where(np.isnan(values), 0x7FC00000, values.view(np.uint32))):016x}")
        lines.append(f"encode16 {name} {fnv(codes_of(name, every)):016x}")
        finite = np.unique(np.abs(values[np.isfinite(values)]))
        pick = finite if len(finite) < 300 else np.concatenate([finite[:40], finite[1000:1040], finite[-40:]])
        mids = []
        for a in pick:
            higher = finite[finite > a]
            step = higher[0] - a if len(higher) else a - finite[-2]
            mids.append(np.float32(a + np.float64(step) / 2) if name != "bf16" or len(higher) else np.float32(a))
        mids = np.array([x for x in mids if np.isfinite(x)], np.float32)
        x = np.concatenate([mids, np.nextafter(mids, np.float32(np.inf)), np.nextafter(mids, np.float32(0)),
                            np.array([np.finfo(np.float32).max, np.inf, np.nan, 1e-45, 0], np.float32)])
        x = np.concatenate([x, -x])
        for f, c in zip(x.view(np.uint32), codes_of(name, x)): lines.append(f"tie {name} {f:08x} {c:04x}")
    (out / "float_types.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    out.mkdir(parents=True, exist_ok=True)
    main(out)
