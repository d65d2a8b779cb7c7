#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/tiny_<name>.gguf (a small random decoder) and tiny_<name>.golden.gguf (what the
`transformers` package computes with it), the independent oracle of tests/parity/tiny_model_test.cpp.

Every model has random norm gains and biases, more query heads than key heads, an epsilon large enough to be seen,
and a sequence longer than its window, its original RoPE length or a page of the key/value cache. Weights are
written as converters write them: llama's queries and keys permuted so that rotary pairs are neighbours, Gemma's
norm gains as 1 + w, the llama3 RoPE rule as a tensor of divisors.

The golden values come from the package's own modelling code run in double precision: every mention of FP32 in
it is redirected to FP64 (`double_precision` below). It is run a second time as it is, in FP32; the distance
between the two, stored per layer as `golden.float32_error`, is the measure from which tolerances are derived.

Golden file: tensors `tokens` and `positions` (I32), `hidden.-1` (after the embedding) to `hidden.<layers - 1>`
[positions, hidden] and `logits` [positions, vocabulary], at the chosen positions only.

Made with torch 2.15.0, transformers 5.24.0, numpy 2.x, gguf 0.17 or later:
    python3 tests/golden/make_tiny_models.py [name ...]
"""
import contextlib
import functools
import os
import sys

import gguf
import numpy as np
import torch
import transformers
from transformers.models.gemma3 import modeling_gemma3

HERE = os.path.dirname(os.path.abspath(__file__))
GAIN_STEP = 1024.0  # gains are multiples of 1/1024, so that 1 + w is exact in FP32


@contextlib.contextmanager
def double_precision():
    """Redirects FP32 to FP64 for code that names it: `x.float()`, `dtype=torch.float32`, `torch.float`."""
    saved = (torch.float32, torch.float, torch.Tensor.float)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(torch.float32)


def llama(**kw):
    return transformers.LlamaConfig(hidden_act="silu", rms_norm_eps=0.02, **kw)


def qwen2(**kw):
    return transformers.Qwen2Config(hidden_act="silu", rms_norm_eps=0.02, use_sliding_window=False, **kw)


def gemma3(**kw):
    return transformers.Gemma3TextConfig(rms_norm_eps=0.02, tie_word_embeddings=True, **kw)


def rope(theta, kind="default", **kw):
    return {"rope_type": kind, "rope_theta": theta, **kw}


SHAPE = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2)
EVERY = list(range(0, 300, 12)) + [254, 255, 256, 257, 271, 272, 298, 299]

# name: seed, weights' type, tokens, positions compared, config
MODELS = {
    # untied head; more tokens than a cache page holds
    "llama": (11, "F32", 300, EVERY, lambda: llama(
        **SHAPE, max_position_embeddings=512, rope_parameters=rope(10000.0))),
    # positions interpolated 4x beyond 16, biases everywhere in attention, tied head, heads wider than hidden
    "llama_linear": (12, "F16", 60, range(60), lambda: llama(
        **SHAPE, head_dim=16, max_position_embeddings=64, attention_bias=True, tie_word_embeddings=True,
        rope_parameters=rope(500.0, "linear", factor=4.0))),
    # llama3 rule: head_dim 16 has pairs in all three of its regimes
    "llama3": (13, "BF16", 80, range(0, 80, 2), lambda: llama(
        **SHAPE, head_dim=16, max_position_embeddings=256,
        rope_parameters=rope(10000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=32))),
    # one key head for four query heads; biases on q, k, v; untied head
    "qwen2": (14, "F16", 60, range(60), lambda: qwen2(
        **{**SHAPE, "num_key_value_heads": 1}, max_position_embeddings=128, tie_word_embeddings=False,
        rope_parameters=rope(1000000.0))),
    # the default pattern (layer 5 is global), linear scaling of the global layers only
    "gemma3": (15, "F16", 48, range(48), lambda: gemma3(
        **{**SHAPE, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 7}, head_dim=24,
        sliding_window=8, max_position_embeddings=128, query_pre_attn_scalar=24,
        rope_parameters={"full_attention": rope(5000.0, "linear", factor=8.0),
                         "sliding_attention": rope(10000.0)})),
    # every second layer global, both soft caps, a query scale of its own, pages wholly behind the window
    "gemma3_caps": (16, "F32", 300, EVERY, lambda: gemma3(
        **{**SHAPE, "num_hidden_layers": 4, "intermediate_size": 32}, head_dim=16, sliding_window=16,
        max_position_embeddings=512, query_pre_attn_scalar=40, attn_logit_softcapping=3.0,
        final_logit_softcapping=5.0,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={"full_attention": rope(200000.0), "sliding_attention": rope(1000.0)})),
}


def round_to(values, kind):
    values = np.float32(values)
    if kind == "F16":
        return np.float32(np.float16(values))
    if kind == "BF16":
        return gguf.dequantize(gguf.quantize(values, gguf.GGMLQuantizationType.BF16),
                               gguf.GGMLQuantizationType.BF16).reshape(values.shape)
    return values


def fill(model, config, seed, kind):
    """Random parameters, so scaled that attention is far from uniform and logits spread over a few units."""
    rng = np.random.default_rng(seed)
    gemma = config.model_type.startswith("gemma")
    state = {}
    for name, p in sorted(model.named_parameters()):
        shape = tuple(p.shape)
        if len(shape) == 2:
            sharpen = 1.8 if "q_proj" in name or "k_proj" in name else 1.0
            if "q_norm" in "".join(n for n, _ in model.named_parameters()):
                sharpen = 1.0  # norms undo it
            spread = 0.5 if "embed_tokens" in name or "lm_head" in name else sharpen / np.sqrt(shape[1])
            state[name] = round_to(rng.normal(0.0, spread, shape), kind)
        elif name.endswith("bias"):
            state[name] = np.float32(rng.normal(0.0, 0.5, shape))
        else:
            gains = np.round(rng.uniform(0.5, 1.6, shape) * GAIN_STEP) / GAIN_STEP
            state[name] = np.float32(gains - 1.0 if gemma else gains)
    model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    return state


def forward(config, state, tokens, dtype):
    """Hidden states after the embedding and after each layer, and logits; float64 arrays [tokens, ...]."""
    cls = {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM,
           "gemma3_text": transformers.Gemma3ForCausalLM}[config.model_type]
    config._attn_implementation = "eager"
    model = cls(config).to(dtype).eval()
    model.load_state_dict({k: torch.from_numpy(v).to(dtype) for k, v in state.items()}, strict=False)
    kept = []
    keep = lambda _module, _inputs, out: kept.append((out[0] if isinstance(out, tuple) else out)[0].detach())
    model.model.embed_tokens.register_forward_hook(keep)
    for layer in model.model.layers:
        layer.register_forward_hook(keep)
    with torch.no_grad():
        logits = model(torch.from_numpy(np.int64(tokens))[None], use_cache=False).logits[0]
    return [h.double().numpy() for h in kept], logits.double().numpy()


@contextlib.contextmanager
def attention_cap(config):
    """Gemma 3's modelling code knows the cap on attention scores but does not pass it on: do that for it."""
    original = modeling_gemma3.eager_attention_forward
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap is not None:
        modeling_gemma3.eager_attention_forward = functools.partial(original, softcap=cap)
    try:
        yield
    finally:
        modeling_gemma3.eager_attention_forward = original


def permute(w, heads):
    """Rows of each head from halves (i, i + d/2) to neighbours (2i, 2i + 1)."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_divisors(config):
    """One divisor per rotary pair: 1, `factor`, or what the ramp between gives (Llama 3.1's rule)."""
    p = config.rope_parameters
    dim = config.head_dim
    freqs = p["rope_theta"] ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    wavelengths = 2 * np.pi / freqs
    context, low, high = p["original_max_position_embeddings"], p["low_freq_factor"], p["high_freq_factor"]
    smooth = (context / wavelengths - low) / (high - low)
    ramp = 1.0 / ((1 - smooth) / p["factor"] + smooth)
    return np.float32(np.where(wavelengths < context / high, 1.0,
                               np.where(wavelengths > context / low, p["factor"], ramp)))


TENSORS = {
    "embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def file_name(name, gemma):
    if not name.startswith("model.layers."):
        return TENSORS[name.removeprefix("model.")]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    norms = {"post_attention_layernorm.weight": "post_attention_norm.weight" if gemma else "ffn_norm.weight",
             "pre_feedforward_layernorm.weight": "ffn_norm.weight",
             "post_feedforward_layernorm.weight": "post_ffw_norm.weight"}
    if rest in norms:
        rest = norms[rest]
    elif rest in TENSORS:
        rest = TENSORS[rest]
    else:
        part, suffix = rest.rsplit(".", 1)
        rest = TENSORS[part] + "." + suffix
    return f"blk.{layer}.{rest}"


def write_model(path, name, config, state, kind):
    gemma = config.model_type.startswith("gemma")
    arch = {"llama": "llama", "qwen2": "qwen2", "gemma3_text": "gemma3"}[config.model_type]
    w = gguf.GGUFWriter(path, arch)
    w.add_name("tiny " + name)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_vocab_size(config.vocab_size)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if head_dim != config.hidden_size // config.num_attention_heads:
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
        if not gemma:
            w.add_rope_dimension_count(head_dim)
    main = config.rope_parameters["full_attention"] if gemma else config.rope_parameters
    w.add_rope_freq_base(main["rope_theta"])
    if main["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(main["factor"])
    if gemma:
        w.add_sliding_window(config.sliding_window)
        if config.query_pre_attn_scalar != head_dim:
            w.add_attention_scale(config.query_pre_attn_scalar ** -0.5)
        local = config.rope_parameters["sliding_attention"]["rope_theta"]
        if local != 10000.0:
            w.add_rope_freq_base_swa(local)
        period = config.layer_types.index("full_attention") + 1
        if period != 6:
            w.add_sliding_window_pattern(period)
        if config.attn_logit_softcapping:
            w.add_attn_logit_softcapping(config.attn_logit_softcapping)
        if config.final_logit_softcapping:
            w.add_final_logit_softcapping(config.final_logit_softcapping)
    if main["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_divisors(config))
    types = {"F32": np.float32, "F16": np.float16}
    for source, values in state.items():
        if config.model_type == "llama" and (".q_proj." in source or ".k_proj." in source):
            values = permute(values, config.num_attention_heads if ".q_proj." in source
                             else config.num_key_value_heads)
        if gemma and values.ndim == 1:
            values = values + np.float32(1.0)
        target = file_name(source, gemma)
        if values.ndim == 1 or kind == "F32":
            w.add_tensor(target, np.ascontiguousarray(values))
        elif kind == "F16":
            w.add_tensor(target, values.astype(np.float16))
        else:
            bf16 = gguf.GGMLQuantizationType.BF16
            w.add_tensor(target, gguf.quantize(np.ascontiguousarray(values), bf16), raw_dtype=bf16)
    finish(w)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_golden(path, tokens, positions, hidden, logits, errors):
    w = gguf.GGUFWriter(path, "golden")
    w.add_string("golden.torch", torch.__version__.split("+")[0])
    w.add_string("golden.transformers", transformers.__version__)
    w.add_array("golden.float32_error", [float(e) for e in errors])
    w.add_tensor("tokens", np.int32(tokens))
    w.add_tensor("positions", np.int32(positions))
    for i, h in enumerate(hidden):
        w.add_tensor(f"hidden.{i - 1}", np.float32(h[positions]))
    w.add_tensor("logits", np.float32(logits[positions]))
    finish(w)


def make(name):
    seed, kind, length, positions, config_of = MODELS[name]
    positions = sorted(positions)
    config = config_of()
    tokens = np.random.default_rng(seed + 1000).integers(0, config.vocab_size, length)
    with attention_cap(config):
        cls = {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM,
               "gemma3_text": transformers.Gemma3ForCausalLM}[config.model_type]
        state = fill(cls(config), config, seed, kind)
        hidden32, logits32 = forward(config, state, tokens, torch.float32)
        with double_precision():
            hidden, logits = forward(config_of(), state, tokens, torch.float64)
    # largest difference anywhere, in units of the values' root mean square
    distance = lambda a, b: np.abs(a - b).max() / np.sqrt(np.square(b).mean())
    errors = [distance(a, b) for a, b in zip(hidden32 + [logits32], hidden + [logits])]
    write_model(os.path.join(HERE, f"tiny_{name}.gguf"), name, config, state, kind)
    write_golden(os.path.join(HERE, f"tiny_{name}.golden.gguf"), tokens, positions, hidden, logits, errors)
    rms = [float(np.sqrt(np.square(h).mean())) for h in hidden + [logits]]
    print(name, "rms", np.round(rms, 3), "float32 error", np.array(errors))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or MODELS:
        make(chosen)
