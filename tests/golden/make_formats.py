#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Golden bytes for the block formats, from the reference implementation of the file format.
# Made with gguf 0.19.0, numpy 2.4.6, seed 20250101. Run: make_formats.py OUT_DIR
#
# One file per format, formats_<name>.bin, little endian:
#   u32 magic "NGF1", u32 block_size, u32 block_bytes, u32 n_decode, u32 n_encode,
#   then n_decode x (block bytes, f32 values), then n_encode x (f32 values, block bytes).
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

SEED = 20250101
NAMES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
ENCODES = {"F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}


def decode_inputs(rng, n, block_bytes, block_size):
    """Random bytes reach every code and every scale, infinite and NaN ones too; edge patterns first."""
    b = rng.integers(0, 256, (n, block_bytes), dtype=np.uint8)
    b[0], b[1] = 0, 255
    b[2], b[3] = 0x80, 0x7F
    b[4] = np.arange(block_bytes, dtype=np.uint8)
    return b


def encode_inputs(rng, n, size):
    """Gaussian, heavy-tailed, offset, tiny, large, constant, sparse, one-outlier, and exact-tie blocks."""
    rows = []
    for i in range(n):
        kind = i % 12
        x = rng.standard_normal(size)
        if kind == 1: x = rng.standard_t(3, size)
        if kind == 2: x = x + 5
        if kind == 3: x = x * 1e-6
        if kind == 4: x = x * 1e3
        if kind == 5: x = np.full(size, float(rng.standard_normal()))
        if kind == 6: x = np.where(rng.random(size) < 0.8, 0.0, x)
        if kind == 7: x[rng.integers(size)] = 100.0 * (1 if rng.random() < 0.5 else -1)
        if kind == 8: x = np.abs(x) + 0.1
        if kind == 9: x = -np.abs(x) - 0.1
        if kind == 10: x = rng.integers(-16, 17, size) / 2.0   # halves: ties once the scale is a power of two
        if kind == 11: x = rng.integers(-254, 255, size) / 2.0
        rows.append(x.astype(np.float32) + np.float32(0))      # + 0: no negative zeros, whose order is unspecified
    return np.stack(rows)


def main(out):
    for name in NAMES:
        t = T[name]
        size, nbytes = GGML_QUANT_SIZES[t]
        rng = np.random.default_rng(SEED + int(t))
        n = 32 if size == 256 else 64
        if size == 1:
            blocks = np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(-1, 2)[::7]
        else:
            blocks = decode_inputs(rng, n, nbytes, size)
        with np.errstate(all="ignore"):
            values = quants.dequantize(blocks, t).astype(np.float32).reshape(len(blocks), size)
        xs = np.zeros((0, size), np.float32)
        enc = np.zeros((0, nbytes), np.uint8)
        if name in ENCODES:
            xs = encode_inputs(rng, 96, size if size > 1 else 32).reshape(-1, size)
            if size == 1: xs = xs[np.abs(xs[:, 0]) <= 65504]
            enc = np.asarray(quants.quantize(xs, t)).view(np.uint8).reshape(len(xs), nbytes)
        with open(out / f"formats_{name.lower()}.bin", "wb") as f:
            f.write(struct.pack("<5I", 0x3146474E, size, nbytes, len(blocks), len(xs)))
            for b, v in zip(blocks, values): f.write(b.tobytes() + v.tobytes())
            for x, b in zip(xs, enc): f.write(x.tobytes() + b.tobytes())


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    out.mkdir(parents=True, exist_ok=True)
    main(out)
