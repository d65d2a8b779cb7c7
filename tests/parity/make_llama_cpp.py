#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/llama_cpp_<name>.gguf: what llama.cpp computes with real models, the oracle of
tests/parity/llama_cpp_test.cpp; and, too large to commit, all logits as build/parity/llama_cpp_<name>.gguf.

The yardstick is an FP32 forward pass of the dequantized weights: each file is rewritten with every tensor
dequantized to F32 (exact), which makes llama.cpp multiply FP32 activations with FP32 weights; keys and values are
cached as F32 and flash attention is off. The quantized file itself, run the same way, gives llama.cpp's own
divergence from that yardstick: the bound for a fast mode that quantizes activations.

Golden file: `tokens` (I32), `positions` (I32), `top_ids` (I32) and `top_logits` (F32) [positions, 64],
`log_sum_exp` (F64) [positions]; `greedy_ids` (I32) [64] that follow the first `golden.prompt_tokens` tokens, and
`greedy_top_ids`, `greedy_top_logits` [64, 8] at each of these steps. Metadata: `golden.own_kl` with its standard
error and `golden.own_top1`, means over `own_positions` (I32); the versions and the model file's size. The large file has `logits` (F32)
[positions, vocabulary] at all positions listed in its own `positions`.

Made with llama-cpp-python 0.3.36, gguf 0.19.0, numpy 2.4.6:
    python3 tests/parity/make_llama_cpp.py --models models [name ...]
"""
import argparse
import ctypes
import hashlib
import os
import sys

import gguf
import llama_cpp
import numpy as np
from llama_cpp import llama_cpp as c

HERE = os.path.dirname(os.path.abspath(__file__))
TOP, GREEDY, GREEDY_TOP, PROMPT = 64, 64, 8, 48
START = "What makes Debian so popular"

# name: file, tokens, positions of the large file, of them those committed
MODELS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", 512, range(512), range(3, 512, 8)),
    "qwen2": ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 256, range(256), range(3, 256, 4)),
    # its window is 512 tokens: most positions lie beyond
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", 768, [*range(0, 500, 8), *range(500, 768, 2)],
               [*range(8, 500, 32), *range(504, 768, 6)]),
}


def dequantize_file(source, target):
    """Rewrites a GGUF file with all tensors as F32, one tensor in memory at a time."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for t in reader.tensors:
        shape = [int(n) for n in reversed(t.shape)]
        writer.add_tensor_info(t.name, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for t in reader.tensors:
        values = gguf.dequantize(t.data, t.tensor_type).astype(np.float32, copy=False)
        writer.write_tensor_data(np.ascontiguousarray(values.reshape([int(n) for n in reversed(t.shape)])))
    writer.close()


class Llama:
    """llama.cpp through its C interface, FP32 cache, no flash attention."""

    def __init__(self, path, context, threads):
        p = c.llama_model_default_params()
        p.n_gpu_layers = 0
        p.use_extra_bufts = False  # one path on every machine: no AMX, no repacked weights
        self.model = c.llama_model_load_from_file(path.encode(), p)
        if not self.model:
            sys.exit(f"{path}: llama.cpp cannot load it")
        self.vocab = c.llama_model_get_vocab(self.model)
        self.size = c.llama_vocab_n_tokens(self.vocab)
        p = c.llama_context_default_params()
        p.n_ctx = p.n_batch = context
        p.n_ubatch = 512
        p.n_threads = p.n_threads_batch = threads
        p.type_k = p.type_v = 0  # GGML_TYPE_F32
        p.flash_attn_type = c.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = c.llama_init_from_model(self.model, p)
        self.batch = c.llama_batch_init(context, 0, 1)

    def tokenize(self, text):
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 8))()
        n = c.llama_tokenize(self.vocab, raw, len(raw), out, len(out), True, False)
        return list(out[:n])

    def decode(self, tokens, first, wanted):
        """Appends tokens at positions first.. and yields (position, logits) of the wanted positions."""
        b = self.batch
        b.n_tokens = len(tokens)
        for i, t in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i] = t, first + i, 1
            b.seq_id[i][0] = 0
            b.logits[i] = int(first + i in wanted)
        if c.llama_decode(self.context, b) != 0:
            sys.exit("llama_decode failed")
        for i in range(len(tokens)):
            if b.logits[i]:
                row = np.ctypeslib.as_array(c.llama_get_logits_ith(self.context, i), (self.size,))
                yield first + i, row

    def clear(self):
        c.llama_memory_clear(c.llama_get_memory(self.context), True)

    def close(self):
        c.llama_batch_free(self.batch)
        c.llama_free(self.context)
        c.llama_model_free(self.model)


def log_softmax(row):
    row = row.astype(np.float64)
    top = row.max()
    return row - (top + np.log(np.exp(row - top).sum()))


def top(row, n):
    """Ids and logits of the n largest, ties to the lower id."""
    ids = np.lexsort((np.arange(row.size), -row))[:n] if row.size < 4096 else None
    if ids is None:
        part = np.argpartition(-row, n)[: n + 1]
        ids = part[np.lexsort((part, -row[part]))][:n]
    return ids.astype(np.int32), row[ids].astype(np.float32)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def make(name, arguments):
    file, count, positions, committed = MODELS[name]
    path = os.path.join(arguments.models, file)
    if not os.path.exists(path):
        print(f"{name}: skipped, {path} is absent", flush=True)
        return
    dense = os.path.join(arguments.out, name + ".f32.gguf")
    if not os.path.exists(dense):
        dequantize_file(path, dense + ".part")
        os.replace(dense + ".part", dense)
    with open(os.path.join(arguments.models, "evaluation.txt"), encoding="utf-8") as f:
        text = f.read()
    positions, committed = sorted(positions), sorted(committed)

    exact = Llama(dense, 1024, arguments.threads)
    tokens = exact.tokenize(text[text.index(START):][: 8 * count])[:count]
    logits = np.empty((len(positions), exact.size), np.float32)
    row_of = {p: i for i, p in enumerate(positions)}
    for p, row in exact.decode(tokens, 0, set(positions)):
        logits[row_of[p]] = row
    exact.clear()
    prompt, greedy, greedy_rows = tokens[:PROMPT], [], []
    step, at = prompt, 0
    for _ in range(GREEDY):
        last = at + len(step) - 1
        (_, row), = exact.decode(step, at, {last})
        ids, values = top(row, GREEDY_TOP)
        greedy.append(int(ids[0]))
        greedy_rows.append((ids, values))
        at, step = last + 1, [greedy[-1]]
    exact.close()

    own = Llama(path, 1024, arguments.threads)
    divergence, same = [], []
    for p, row in own.decode(tokens, 0, set(positions)):
        want = log_softmax(logits[row_of[p]])
        divergence.append(float((np.exp(want) * (want - log_softmax(row))).sum()))
        same.append(int(want.argmax() == row.argmax()))
    own.close()

    def describe(w):
        w.add_string("golden.llama_cpp_python", llama_cpp.__version__)
        w.add_string("golden.system_info", c.llama_print_system_info().decode())
        w.add_string("golden.model_file", file)
        w.add_uint64("golden.model_bytes", os.path.getsize(path))
        w.add_string("golden.model_sha256", sha256(path))
        w.add_float64("golden.own_kl", float(np.mean(divergence)))
        w.add_float64("golden.own_kl_stderr", float(np.std(divergence, ddof=1) / np.sqrt(len(divergence))))
        w.add_float64("golden.own_top1", float(np.mean(same)))
        w.add_uint32("golden.prompt_tokens", PROMPT)
        w.add_tensor("tokens", np.int32(tokens))

    w = gguf.GGUFWriter(os.path.join(arguments.out, f"llama_cpp_{name}.gguf"), "golden")
    describe(w)
    w.add_tensor("positions", np.int32(positions))
    w.add_tensor("logits", logits)
    finish(w)

    tops = [top(logits[row_of[p]], TOP) for p in committed]
    w = gguf.GGUFWriter(os.path.join(arguments.golden, f"llama_cpp_{name}.gguf"), "golden")
    describe(w)
    w.add_tensor("own_positions", np.int32(positions))
    w.add_tensor("positions", np.int32(committed))
    w.add_tensor("top_ids", np.stack([t[0] for t in tops]))
    w.add_tensor("top_logits", np.stack([t[1] for t in tops]))
    lse = [float(-log_softmax(logits[row_of[p]])[0] + np.float64(logits[row_of[p]][0])) for p in committed]
    w.add_tensor("log_sum_exp", np.float64(lse))
    w.add_tensor("greedy_ids", np.int32(greedy))
    w.add_tensor("greedy_top_ids", np.stack([t[0] for t in greedy_rows]))
    w.add_tensor("greedy_top_logits", np.stack([t[1] for t in greedy_rows]))
    finish(w)
    print(f"{name}: own KL {np.mean(divergence):.6f}, top-1 {np.mean(same):.4f}, greedy {greedy[:12]} ...", flush=True)
    if not arguments.keep:
        os.remove(dense)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--models", default=os.path.join(HERE, "../../models"))
    parser.add_argument("--out", default=os.path.join(HERE, "../../build/parity"))
    parser.add_argument("--golden", default=os.path.join(HERE, "../golden"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the dequantized files")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    os.makedirs(given.golden, exist_ok=True)
    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    c.llama_log_set(silent, None)
    c.llama_backend_init()
    for chosen in given.names or MODELS:
        make(chosen, given)
