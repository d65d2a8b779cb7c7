# SPDX-License-Identifier: MIT
"""One run of llama.cpp through llama-cpp-python's C interface, by llama-bench's protocol; see worker.py."""
import ctypes
import random
import time

import worker


class LlamaCpp:
    def __init__(self, options):
        import llama_cpp
        self.c = c = llama_cpp.llama_cpp
        self.silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        c.llama_log_set(self.silent, None)
        c.llama_backend_init()
        self.info = f"llama-cpp-python {llama_cpp.__version__}: {c.llama_print_system_info().decode().strip()}"
        p = c.llama_model_default_params()
        p.n_gpu_layers = 0
        p.use_extra_bufts = options.variant != "plain"  # repacked weights and AMX
        self.model = c.llama_model_load_from_file(options.model.encode(), p)
        if not self.model:
            raise worker.CannotLoad("llama_model_load_from_file failed")
        p = c.llama_context_default_params()
        p.n_ctx = max(options.p, options.n) + 8
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
        if self.c.llama_decode(self.context, b) != 0:
            raise RuntimeError("llama_decode failed")
        self.c.llama_synchronize(self.context)

    def prefill(self, count):
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        start = time.perf_counter()
        self.step(count, 0)
        return time.perf_counter() - start

    def decode(self, count):
        self.prefill(1)
        start = time.perf_counter()
        for i in range(count):
            self.step(1, 1 + i)
        return time.perf_counter() - start


if __name__ == "__main__":
    worker.main(LlamaCpp)
