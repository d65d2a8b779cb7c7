# SPDX-License-Identifier: MIT
"""Makes tests/golden/gguf/* and the seeds in tests/fuzz/corpus/gguf with the public `gguf` package.

Made with gguf 0.19.0, numpy 2.x, Python 3.11. No randomness: tensor values are a formula, see values().
Usage: python make_gguf.py            writes the files
       python make_gguf.py --check F  lists a GGUF file as the package reads it (to compare with types.txt)
"""
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "gguf"
CORPUS = HERE.parent / "fuzz" / "corpus" / "gguf"

SCALARS = [("u8", V.UINT8, 255), ("i8", V.INT8, -128), ("u16", V.UINT16, 65535), ("i16", V.INT16, -32768),
           ("u32", V.UINT32, 4294967295), ("i32", V.INT32, -2147483648), ("f32", V.FLOAT32, 0.15625),
           ("bool", V.BOOL, True), ("string", V.STRING, "naïve 🦙"), ("u64", V.UINT64, 2**64 - 1),
           ("i64", V.INT64, -2**63), ("f64", V.FLOAT64, 1e300)]
ARRAYS = [("u8", V.UINT8, [0, 1, 255]), ("i8", V.INT8, [-128, 0, 127]), ("u16", V.UINT16, [0, 65535]),
          ("i16", V.INT16, [-32768, 32767]), ("u32", V.UINT32, [0, 4294967295]),
          ("i32", V.INT32, [-2147483648, 2147483647, 7]), ("f32", V.FLOAT32, [0.5, -1.25, 3.0]),
          ("bool", V.BOOL, [True, False, True]), ("string", V.STRING, ["", "a", "▁token", "\n"]),
          ("u64", V.UINT64, [0, 2**64 - 1]), ("i64", V.INT64, [-2**63, 2**63 - 1]), ("f64", V.FLOAT64, [1e-300, 2.5])]


def values(rows, cols):
    """x[r][c] = ((37 r + 11 c) mod 101 - 50) / 16: exact in float32."""
    r, c = np.arange(rows)[:, None], np.arange(cols)[None, :]
    return (((37 * r + 11 * c) % 101 - 50) / 16).astype(np.float32)


def writer(path, endian=gguf.GGUFEndian.LITTLE):
    return gguf.GGUFWriter(path, "test", endianess=endian)


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add_metadata(w):
    for name, kind, value in SCALARS:
        w.add_key_value(f"test.scalar.{name}", value, kind)
    for name, kind, value in ARRAYS:
        w.add_key_value(f"test.array.{name}", value, V.ARRAY, sub_type=kind)
    w.add_key_value("test.empty_string", "", V.STRING)


def add_tensors(w):
    w.add_tensor("f32.matrix", values(3, 5))
    w.add_tensor("f32.vector", values(1, 7)[0])
    w.add_tensor("f32.rank4", values(6, 20).reshape(2, 3, 4, 5))
    w.add_tensor("f16.matrix", values(2, 9).astype(np.float16))
    w.add_tensor("i32.vector", np.arange(-3, 4, dtype=np.int32))
    w.add_tensor("i8.vector", np.arange(-5, 6, dtype=np.int8))
    for kind in (T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.TQ2_0, T.MXFP4):
        cols = gguf.GGML_QUANT_SIZES[kind][0] * 2
        w.add_tensor(f"{kind.name.lower()}.matrix", gguf.quants.quantize(values(3, cols), kind), raw_dtype=kind)
    for kind in (T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_XS, T.IQ2_XXS):
        size = gguf.GGML_QUANT_SIZES[kind][1]
        raw = (np.arange(2 * size).reshape(2, size) * 7 % 61).astype(np.uint8)
        w.add_tensor(f"{kind.name.lower()}.matrix", raw, raw_dtype=kind)


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def listing(path):
    """Keys with their types, tensors with ne order dims, absolute offset and FNV-1a of their bytes."""
    reader = gguf.GGUFReader(path)
    lines = []
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        kinds = " ".join(t.name.lower() for t in field.types)
        lines.append(f"key {field.name} {kinds} {len(field.data)}")
    for t in reader.tensors:
        dims = " ".join(str(int(n)) for n in t.shape)
        raw = reader.data[t.data_offset:t.data_offset + t.n_bytes]
        lines.append(f"tensor {t.name} {t.tensor_type.name} {t.data_offset} {t.n_bytes} "
                     f"{fnv1a(raw.tobytes()):016x} {dims}")
    return "\n".join(lines) + "\n"


def make_golden():
    GOLDEN.mkdir(exist_ok=True)
    w = writer(GOLDEN / "types.gguf")
    add_metadata(w)
    add_tensors(w)
    finish(w)
    (GOLDEN / "types.txt").write_text(listing(GOLDEN / "types.gguf"), encoding="utf-8")

    w = writer(GOLDEN / "aligned.gguf")  # another alignment than the default
    w.add_custom_alignment(256)
    w.add_tensor("a", values(1, 3)[0])
    w.add_tensor("b", values(2, 2))
    finish(w)
    (GOLDEN / "aligned.txt").write_text(listing(GOLDEN / "aligned.gguf"), encoding="utf-8")

    w = writer(GOLDEN / "no_tensors.gguf")  # what vocabulary-only files look like
    w.add_key_value("test.text", "x", V.STRING)
    finish(w)

    w = gguf.GGUFWriter(GOLDEN / "written.gguf", "llama")  # what gguf_writer_test.cpp makes by its own calls
    w.add_custom_alignment(128)
    w.add_uint8("u8", 255)
    w.add_int64("i64", -5)
    w.add_float64("f64", 2.5)
    w.add_bool("bool", False)
    w.add_key_value("floats", [1.5, -2.0], V.ARRAY, sub_type=V.FLOAT32)
    w.add_key_value("tokens", ["", "a", "long token", "🦙"], V.ARRAY, sub_type=V.STRING)
    w.add_tensor("weight", np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32))
    w.add_tensor("blocks", np.arange(72, dtype=np.uint8).reshape(2, 36), raw_dtype=T.Q4_0)
    finish(w)
    (GOLDEN / "written.txt").write_text(listing(GOLDEN / "written.gguf"), encoding="utf-8")

    w = writer(GOLDEN / "big_endian.gguf", gguf.GGUFEndian.BIG)
    w.add_tensor("a", values(1, 3)[0])
    finish(w)

    v2 = bytearray((GOLDEN / "aligned.gguf").read_bytes())  # little-endian version 2 differs in the number only
    v2[4] = 2
    (GOLDEN / "version2.gguf").write_bytes(v2)


def make_corpus():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, kind, value in SCALARS:
        w = writer(CORPUS / f"scalar_{name}")
        w.add_key_value("k", value, kind)
        finish(w)
    for name, kind, value in ARRAYS:
        w = writer(CORPUS / f"array_{name}")
        w.add_key_value("k", value, V.ARRAY, sub_type=kind)
        finish(w)
    for kind in (T.F32, T.F16, T.Q4_0, T.Q8_0):
        w = writer(CORPUS / f"tensor_{kind.name.lower()}")
        w.add_tensor("t", gguf.quants.quantize(values(2, 32), kind), raw_dtype=kind)
        w.add_tensor("u", values(1, 1))
        finish(w)
    w = writer(CORPUS / "aligned")
    w.add_custom_alignment(64)
    w.add_tensor("t", values(1, 2))
    finish(w)
    for name in ("no_tensors", "big_endian", "version2"):
        (CORPUS / name).write_bytes((GOLDEN / f"{name}.gguf").read_bytes())


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.stdout.write(listing(sys.argv[2]))
    else:
        make_golden()
        make_corpus()
