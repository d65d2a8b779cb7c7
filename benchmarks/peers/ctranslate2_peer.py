# SPDX-License-Identifier: MIT
"""One run of CTranslate2 (8-bit weights per channel) on a GGUF file of Llama or Qwen2, which `--convert FOLDER` has put into its
own format; see worker.py. Files of other architectures are refused. A prompt goes through without logits but those
of its last token (generate_batch of one token); decoding is the time of -n further tokens."""
import json
import os
import random
import sys
import time

import worker


def convert(path, folder):
    """Writes CTranslate2's model.bin of a GGUF file into `folder`."""
    import numpy as np
    from ctranslate2.specs import attention_spec, common_spec, transformer_spec
    import gguf

    reader = gguf.GGUFReader(path)
    field = lambda key: reader.fields[key].contents() if key in reader.fields else None
    architecture = field("general.architecture")
    if architecture not in ("llama", "qwen2"):
        raise worker.CannotLoad(f"no converter for architecture {architecture}")
    number = lambda key: field(f"{architecture}.{key}")
    tensors = {t.name: t for t in reader.tensors}

    def weights(name):
        t = tensors[name]
        return gguf.quants.dequantize(t.data, t.tensor_type).reshape([int(n) for n in reversed(t.shape)]).astype(np.float32)

    layers = number("block_count")
    # GGUF keeps Llama's queries and keys in the order of interleaved rotary pairs, Qwen2's as they were.
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        layers, number("attention.head_count"), activation=common_spec.Activation.SWISH, pre_norm=True, ffn_glu=True,
        rms_norm=True, rotary_dim=0, rotary_interleave=architecture == "llama", rotary_base=number("rope.freq_base") or 10000.0,
        num_heads_kv=number("attention.head_count_kv"))
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = weights("token_embd.weight")
    decoder.layer_norm.gamma = weights("output_norm.weight")
    decoder.projection.weight = weights("output.weight" if "output.weight" in tensors else "token_embd.weight")
    for i, layer in enumerate(decoder.layer):
        w = lambda name, i=i: weights(f"blk.{i}.{name}.weight")
        layer.self_attention.layer_norm.gamma = w("attn_norm")
        layer.self_attention.linear[0].weight = np.concatenate([w("attn_q"), w("attn_k"), w("attn_v")])
        if f"blk.{i}.attn_q.bias" in tensors:
            layer.self_attention.linear[0].bias = np.concatenate([weights(f"blk.{i}.attn_{x}.bias") for x in "qkv"])
        layer.self_attention.linear[1].weight = w("attn_output")
        layer.ffn.layer_norm.gamma = w("ffn_norm")
        layer.ffn.linear_0.weight = w("ffn_gate")
        layer.ffn.linear_0_noact.weight = w("ffn_up")
        layer.ffn.linear_1.weight = w("ffn_down")
    words = [f"<{i}>" for i in range(decoder.embeddings.weight.shape[0])]  # tokens are named by their ids
    spec.register_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = words[1], words[2], words[0]
    spec.config.layer_norm_epsilon = number("attention.layer_norm_rms_epsilon")
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(folder)


class CTranslate2:
    def __init__(self, options):
        import ctranslate2
        self.info = f"ctranslate2 {ctranslate2.__version__}, int8"
        folder = options.variant
        with open(os.path.join(folder, "vocabulary.json"), encoding="utf-8") as file:
            self.vocabulary = len(json.load(file))
        self.generator = ctranslate2.Generator(folder, device="cpu", compute_type="int8", inter_threads=1,
                                               intra_threads=options.t)

    def generate(self, prompt, new):
        tokens = [f"<{random.randrange(100, self.vocabulary)}>" for _ in range(prompt)]
        start = time.perf_counter()
        self.generator.generate_batch([tokens], max_length=new, min_length=new, sampling_topk=1,
                                      include_prompt_in_result=False)
        return time.perf_counter() - start

    def prefill(self, count):
        return self.generate(count, 1)

    def decode(self, count):
        return max(self.generate(1, count + 1) - self.generate(1, 1), 1e-9)


if __name__ == "__main__":
    if "--convert" in sys.argv:
        try:
            convert(sys.argv[1], sys.argv[3])
        except worker.CannotLoad as error:
            print(error, file=sys.stderr)
            sys.exit(3)
    else:
        worker.main(CTranslate2)
