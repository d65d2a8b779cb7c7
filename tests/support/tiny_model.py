# SPDX-License-Identifier: MIT
"""Writes a small random llama model as a GGUF file, with nothing but the standard library: a byte-level
vocabulary with a few merges, two layers, a chat template. Tests of the program and the examples run on it
where no real model is at hand. Usage: tiny_model.py OUT.gguf [--no-template] [--f16]
"""
import random
import struct
import sys

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPE_F32, TYPE_F16 = 0, 1
HIDDEN, HEADS, KV_HEADS, FFN, LAYERS, CONTEXT = 64, 4, 2, 128, 2, 128
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-in for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols, extra = [], 0
    for byte in range(256):
        symbols.append(chr(byte) if byte in plain else chr(256 + extra))
        extra += byte not in plain
    return symbols


def text(value: str) -> bytes:
    raw = value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str, kind: int, value) -> bytes:
    head = text(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + text(value)
    return head + struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)


def array(key: str, kind: int, values) -> bytes:
    body = b"".join(text(v) for v in values) if kind == STRING else struct.pack(f"<{len(values)}i", *values)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + body


def make(path: str, template: bool = True, f16: bool = False) -> None:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merges = ["h e", "l l", "he ll", "hell o", "\u0120 t", "t h"]
    tokens = special + byte_symbols() + [m.replace(" ", "") for m in merges]
    metadata = [
        entry("general.architecture", STRING, "llama"), entry("general.name", STRING, "tiny random llama"),
        entry("llama.block_count", U32, LAYERS), entry("llama.context_length", U32, CONTEXT),
        entry("llama.embedding_length", U32, HIDDEN), entry("llama.feed_forward_length", U32, FFN),
        entry("llama.attention.head_count", U32, HEADS), entry("llama.attention.head_count_kv", U32, KV_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), entry("llama.rope.freq_base", F32, 10000.0),
        entry("llama.rope.dimension_count", U32, HIDDEN // HEADS), entry("llama.vocab_size", U32, len(tokens)),
        entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "smollm"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.token_type", I32, [3] * len(special) + [1] * (len(tokens) - len(special))),
        array("tokenizer.ggml.merges", STRING, merges),
        entry("tokenizer.ggml.bos_token_id", U32, 1), entry("tokenizer.ggml.eos_token_id", U32, 2),
        entry("tokenizer.ggml.add_bos_token", BOOL, False),
    ]
    if template:
        metadata.append(entry("tokenizer.chat_template", STRING, TEMPLATE))

    rng = random.Random(5)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {"token_embd.weight": (len(tokens), HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        for name, shape in {
                "attn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (kv, HIDDEN), "attn_v": (kv, HIDDEN),
                "attn_output": (HIDDEN, HIDDEN), "ffn_norm": (HIDDEN,), "ffn_gate": (FFN, HIDDEN),
                "ffn_up": (FFN, HIDDEN), "ffn_down": (HIDDEN, FFN)}.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape

    infos, data, offset = b"", b"", 0
    for name, shape in shapes.items():
        count = 1
        for extent in shape:
            count *= extent
        half = f16 and len(shape) == 2
        if len(shape) == 1:
            values = [1.0 + 0.1 * rng.gauss(0, 1) for _ in range(count)]
        else:
            values = [rng.gauss(0, 1) / shape[-1] ** 0.5 for _ in range(count)]
        raw = struct.pack(f"<{count}{'e' if half else 'f'}", *values)
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        infos += struct.pack("<IQ", TYPE_F16 if half else TYPE_F32, offset)
        data += raw + bytes(-len(raw) % 32)
        offset = len(data)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata)) + b"".join(metadata) + infos
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % 32) + data)


if __name__ == "__main__":
    make(sys.argv[1], "--no-template" not in sys.argv, "--f16" in sys.argv)
