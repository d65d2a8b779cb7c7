#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prefill and decode rates of llama.cpp and of nibble on one model file, taken in turns on one machine.

llama.cpp runs through llama-cpp-python's C interface after llama-bench's protocol: pp = one batch of -p random tokens
into an empty cache (logits of the last), tg = -n single tokens after one; FP16 cache, flash attention left to its
default, one warm-up, -r repetitions. nibble runs `nibble bench` with the same numbers. Rounds alternate between the
two, so that a machine that slows down slows both; best and mean of all repetitions are printed, and their ratio.

    python3 benchmarks/peers/run_llama_cpp.py MODEL... [-p 512] [-n 64] [-t 2] [-r 3] [--rounds 3] [--nibble PATH]

Needs llama-cpp-python (0.3.36 was used), built for the machine: CMAKE_ARGS=-DGGML_NATIVE=ON pip install llama-cpp-python.
"""
import argparse
import ctypes
import json
import os
import random
import subprocess
import time

import llama_cpp
from llama_cpp import llama_cpp as c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


class Peer:
    def __init__(self, path, options):
        p = c.llama_model_default_params()
        p.n_gpu_layers = 0
        p.use_extra_bufts = not options.plain
        self.model = c.llama_model_load_from_file(path.encode(), p)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        p = c.llama_context_default_params()
        p.n_ctx = options.p + options.n + 8
        p.n_batch, p.n_ubatch = 2048, 512
        p.n_threads = p.n_threads_batch = options.t
        self.context = c.llama_init_from_model(self.model, p)
        self.vocabulary = c.llama_vocab_n_tokens(c.llama_model_get_vocab(self.model))
        self.batch = c.llama_batch_init(max(options.p, 1), 0, 1)

    def step(self, count, first):
        b = self.batch
        b.n_tokens = count
        for i in range(count):
            b.token[i], b.pos[i], b.n_seq_id[i] = random.randrange(self.vocabulary), first + i, 1
            b.seq_id[i][0] = 0
            b.logits[i] = int(i + 1 == count)
        if c.llama_decode(self.context, b) != 0:
            raise SystemExit("llama_decode failed")
        c.llama_synchronize(self.context)

    def clear(self):
        c.llama_memory_clear(c.llama_get_memory(self.context), True)

    def prefill(self, count):
        self.clear()
        start = time.perf_counter()
        self.step(count, 0)
        return count / (time.perf_counter() - start)

    def decode(self, count):
        self.clear()
        self.step(1, 0)
        start = time.perf_counter()
        for i in range(count):
            self.step(1, 1 + i)
        return count / (time.perf_counter() - start)

    def close(self):
        c.llama_batch_free(self.batch)
        c.llama_free(self.context)
        c.llama_model_free(self.model)


def peer_round(path, o):
    peer = Peer(path, o)
    peer.prefill(min(o.p, 32))
    rates = [(peer.prefill(o.p), peer.decode(o.n)) for _ in range(o.r)]
    peer.close()
    return rates


def own_round(path, o):
    command = [o.nibble, "bench", path, "-p", str(o.p), "-n", str(o.n), "-t", str(o.t), "-r", str(o.r), "--format", "json"]
    r = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return [(r["prefill_tokens_per_s"], r["decode_tokens_per_s"]),
            (r["prefill_tokens_per_s_mean"], r["decode_tokens_per_s_mean"])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", type=int, default=512, help="tokens of prefill")
    parser.add_argument("-n", type=int, default=64, help="tokens of decode")
    parser.add_argument("-t", type=int, default=2, help="threads")
    parser.add_argument("-r", type=int, default=3, help="repetitions a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nibble", default=os.path.join(ROOT, "build/release/nibble"))
    parser.add_argument("--plain", action="store_true", help="llama.cpp without repacked weights and AMX")
    o = parser.parse_args()
    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    c.llama_log_set(silent, None)
    c.llama_backend_init()
    print(f"llama-cpp-python {llama_cpp.__version__}: {c.llama_print_system_info().decode().strip()}")
    print(f"| model | | pp{o.p} best / mean t/s | tg{o.n} best / mean t/s |\n|---|---|---|---|")
    for path in o.models:
        peer, best, mean = [], [], []
        for _ in range(o.rounds):
            peer += peer_round(path, o)
            if os.path.exists(o.nibble):
                b, m = own_round(path, o)
                best.append(b)
                mean.append(m)
        name = os.path.basename(path)
        top = [max(x) for x in zip(*peer)]
        average = [sum(x) / len(x) for x in zip(*peer)]
        print(f"| {name} | llama.cpp | {top[0]:.0f} / {average[0]:.0f} | {top[1]:.1f} / {average[1]:.1f} |")
        if best:
            own, own_mean = [max(x) for x in zip(*best)], [sum(x) / len(x) for x in zip(*mean)]
            print(f"| | nibble | {own[0]:.0f} / {own_mean[0]:.0f} | {own[1]:.1f} / {own_mean[1]:.1f} |")
            print(f"| | ratio | {own[0] / top[0]:.2f} / {own_mean[0] / average[0]:.2f} "
                  f"| {own[1] / top[1]:.2f} / {own_mean[1] / average[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
