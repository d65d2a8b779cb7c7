#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden token ids. Vocabularies of our own (always tested) and those of real models (tested where the files are).

    pip install gguf==0.19.0 tokenizers==0.23.3 sentencepiece==0.2.3 numpy    (llama-cpp-python==0.3.36: optional)
    python3 make_tokenizers.py [MODELS_DIR [MODEL...]]

writes, beside itself,
    tokenizer_{bpe,spm}.gguf                vocabularies trained here, on the sentences below
    tokenizer_{bpe_<pre>,spm,spm_first,spm_gemma,...}.txt   their goldens
    tokenizer_model_{smollm2,qwen2,gemma3}.txt              goldens of the files in MODELS_DIR
A golden line:  s|-  x:HEX | f:FILE:OFFSET:SIZE  ids...     (s: special tokens in the text are parsed)
Judges: Hugging Face `tokenizers` for byte-level BPE and for special tokens, `sentencepiece` for plain text of
SentencePiece vocabularies. Where llama-cpp-python is installed, each of its disagreements is printed.
"""
import json, os, random, struct, sys, tempfile
from gguf import GGUFReader, GGUFWriter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
META = "\u2581"
MODELS = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "qwen2": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
          "gemma3": "gemma-3-270m-q4_k_m.gguf"}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")

TRAINING = """The kernel reads one row of weights and multiplies it with the hidden state of every token in the batch.
A tokenizer splits text into words, and words into the pieces that it has seen most often while it was trained.
It's said that they'll be here soon, but we've seen that I'd rather wait; you're right, and that's all there is to it.
def encode(text):\n    tokens = []\n    for word in text.split():\n        tokens += merge(word)\n    return tokens
for (int i = 0; i < size; ++i) {\n\tsum += weights[i] * inputs[i];\n}\n\nreturn sum;\n\n\n
Der schnelle braune Fuchs springt über den faulen Hund, während die Straße größer wird und schöne Mädchen grüßen.
Быстрая коричневая лиса прыгает через ленивую собаку, и все слова русского языка разбиваются на части слов.
中文文本没有空格，所以分词器把整个句子当作一个词。中文的词和句子都很短，文本很长。日本語のテキストも空白がありません。日本語の文は長い。
النص العربي يكتب من اليمين إلى اليسار، والنص العربي طويل. हिन्दी में लिखा हुआ पाठ और हिन्दी के शब्द। tiếng Việt có dấu, tiếng Việt.
Numbers: 1 12 123 1234 12345 2024 2025 3.14159 1,000,000 and 50 % of 100.   Three   spaces    and  two  spaces."""

EDGES = ["", "\n", " ", "  ", "   ", "\t", "\n\n", "\r\n", "  hello", "hello  ", "a\n\n\nb", "x=1;\n\n  y", "3333", "33333333",
         "I'VE", "I've we'll 'S '\u017f 'Tis it's", "Hello   world", "Hello\u00a0world\u3000x\u2028y\u180ez\u200bq\u0085w\ufeffe",
         "\U0001F999.cpp \U0001F468\u200d\U0001F469\u200d\U0001F467 \U0001F1E9\U0001F1EA", "This is \U0001F999.cpp",
         "<|im_start|>user\nhi<|im_end|><|endoftext|>", "<s></s><bos><eos><unk>", "<end_of_turn>\n<start_of_turn>user\nhi<unused7>",
         "<s>G", "G<s> G", "<0x0A><0xFF>", "a\u0301 e\u0301\u0323 \u1100\u1161\u11a8 \u0344 \u212b \u0958 \u1e9b\u0323",
         "\ufffd\x00\x01\x7f\x1f\x0b\x0c", "\u0661\u0662\u0663 \uff14\uff15 \u2167 \u00bd \u00b2", "x" * 300, " " * 100, "\n" * 70, "\t" * 50,
         "a b  c   d    e", "<tool_call>{}</tool_call>", "def f(x):\n    return x  # ok\n\n\n\nclass A:\n\tpass", "'s's's''ss 're're",
         "a'sb 'LLx'", " \n \n x \r\n\r\n  y", "1 2  3   4\t5 \n6", "\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8\u3001\u6f22\u5b57\u3002", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
         "\u0e44\u0e17\u0e22", "The tokens of <b>words</b>, tokens, tokens and tokens."]
PARTS = [" ", "  ", "\n", "\r", "\t", "a", "b", "the", "ing", "'s", "'", '"', "1", "23", ".", "!", "-", "\u00e9", "e\u0301", "\u4e2d", "\u3042",
         "\u00a0", "\u3000", "\U0001F999", "\u200d", "\x00", "<", ">", "|", "_", "  \n", "\u017f", "\u0130", "\u00df", "\u2167", "\u0967", "{", "=",
         "S", "LL", " word", "tokens"]


def texts():
    r = random.Random(7)
    out = EDGES + ["".join(r.choice(PARTS) for _ in range(r.randrange(1, 40))) for _ in range(150)]
    for _ in range(100):
        points = [r.choice((r.randrange(0x250), r.randrange(0x3000), r.randrange(0x110000))) for _ in range(r.randrange(1, 20))]
        out.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
    return out + TRAINING.split("\n")


def fields(path):
    prefix = "tokenizer.ggml."
    return {k[len(prefix):]: f.contents() for k, f in GGUFReader(path).fields.items() if k.startswith(prefix)}


def hf(f, parse_special, prefix=None):
    """The Hugging Face pipeline of a GGUF vocabulary. prefix: None, 'always' (legacy) or 'first'."""
    tokens, types = f["tokens"], f["token_type"]
    cut = (2, 3, 4) if parse_special else (4,)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    normalizer = None
    if f["model"] == "gpt2":
        pattern = {"llama-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}.get(f["pre"])
        if pattern:
            split = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                     {**byte_level, "use_regex": False}]
        else:
            split = [{"type": "Digits", "individual_digits": True}] if f["pre"] == "smollm" else []
            split.append({**byte_level, "use_regex": True})
        normalizer = {"type": "NFC"} if f["pre"] == "qwen2" else None
        pre = {"type": "Sequence", "pretokenizers": split}
        model.update(merges=f["merges"], ignore_merges=f["pre"] == "llama-bpe")
        vocab = {t: i for i, t in enumerate(tokens)}
    else:
        vocab = {t: i for i, t in enumerate(tokens)}  # only normal pieces are made by merging
        merges = []
        for t, i in vocab.items():
            if types[i] != 1: continue
            parts = [(vocab[t[:k]], vocab[t[k:]], t[:k], t[k:]) for k in range(1, len(t)) if t[:k] in vocab and t[k:] in vocab]
            merges += [(-f["scores"][i], a, b) for _, _, a, b in sorted(parts)]
        merges.sort(key=lambda m: m[0])
        model.update(merges=[[a, b] for _, a, b in merges], byte_fallback=True, fuse_unk=True, unk_token="<unk>")
        replace, pre = {"type": "Replace", "pattern": {"String": " "}, "content": META}, None
        normalizer = replace if prefix is None else {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": META}, replace]}
        if prefix == "first":
            normalizer, pre = None, {"type": "Metaspace", "replacement": META, "prepend_scheme": "first", "split": False}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": k != 4} for i, (t, k) in enumerate(zip(tokens, types)) if k in cut]
    tokenizer = Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre, "post_processor": None, "decoder": None, "model": {**model, "vocab": vocab}}))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def sp(f):
    """The sentencepiece processor of a GGUF vocabulary, whose model file is written field by field."""
    def number(n):
        out = b""
        while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def field(no, value):
        if isinstance(value, float): return number(no << 3 | 5) + struct.pack("<f", value)
        if isinstance(value, bytes): return number(no << 3 | 2) + number(len(value)) + value
        return number(no << 3) + number(value)

    proto = b""
    for text, score, kind in zip(f["tokens"], f["scores"], f["token_type"]):
        text = text.replace(" ", META) if kind == 4 else text
        proto += field(1, field(1, text.encode()) + field(2, float(score)) + field(3, int(kind)))
    trainer = field(3, 2) + field(35, 1)  # BPE, byte fallback
    for no, key in ((40, "unknown"), (41, "bos"), (42, "eos"), (43, "padding")):
        i = f.get(key + "_token_id")
        if i is not None: trainer += field(no, i) + field(no + 5, f["tokens"][i].encode())
    proto += field(2, trainer)
    proto += field(3, field(1, b"identity") + field(3, int(f.get("add_space_prefix", True))) + field(4, 0) + field(5, 1))
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return lambda text: processor.encode(text)


def llama_cpp(path):
    try:
        import llama_cpp as lib
    except ImportError:
        return None
    llama_cpp.quiet = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(llama_cpp.quiet, None)
    model = lib.Llama(path, vocab_only=True, verbose=False)
    return lambda text, special: model.tokenize(text.encode(), add_bos=False, special=special)


def write(name, plain, special, peer, files=()):
    """files: (name, offset, bytes) excerpts, which are named rather than copied."""
    cases = [(text, "x:" + text.encode().hex()) for text in texts()]
    cases += [(data.decode(), f"f:{file}:{offset}:{len(data)}") for file, offset, data in files]
    disagreements = 0
    with open(os.path.join(HERE, f"tokenizer_{name}.txt"), "w", encoding="ascii") as f:
        for flag, judge in (("-", plain), ("s", special)):
            for text, source in cases:
                ids = judge(text)
                f.write(" ".join([flag, source, *map(str, ids)]) + "\n")
                if peer and peer(text, flag == "s") != ids:
                    disagreements += 1
                    if disagreements <= 5: print("   ", name, flag, "llama.cpp differs on", repr(text[:60]))
    print(name, "cases", 2 * len(cases), "llama.cpp differs on", disagreements if peer else "(not installed)")


def write_vocab(path, model, tokens, types, scores=None, merges=None, pre="default", **keys):
    w = GGUFWriter(path, "llama")
    w.add_context_length(64); w.add_embedding_length(32); w.add_block_count(1); w.add_head_count(1); w.add_feed_forward_length(32)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model(model); w.add_tokenizer_pre(pre); w.add_token_list(tokens); w.add_token_types(types)
    if scores is not None: w.add_token_scores(scores)
    if merges is not None: w.add_token_merges(merges)
    for k, v in keys.items(): getattr(w, "add_" + k)(v)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.close()


def train_bpe(path):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(__import__("tokenizers").Regex(LLAMA3), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"]
    t.train_from_iterator([TRAINING], trainers.BpeTrainer(
        vocab_size=700, min_frequency=2, show_progress=False, special_tokens=control,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    data = json.loads(t.to_str())["model"]
    tokens = sorted(data["vocab"], key=data["vocab"].get)
    user = ["<tool_call>", "</tool_call>", "\u00dcber\u00e7k"]  # the last has letters that are also in the byte alphabet
    types = [3 if x in control else 1 for x in tokens] + [4] * len(user)
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["merges"]]
    write_vocab(path, "gpt2", tokens + user, types, merges=merges, pre="gpt-2", bos_token_id=1, eos_token_id=2, add_bos_token=False)


def train_spm(path):
    with tempfile.TemporaryDirectory() as tmp:
        source, target = os.path.join(tmp, "text"), os.path.join(tmp, "model")
        with open(source, "w", encoding="utf-8") as f: f.write(TRAINING)
        sentencepiece.SentencePieceTrainer.train(
            input=source, model_prefix=target, model_type="bpe", vocab_size=760, byte_fallback=True, character_coverage=0.98,
            normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, minloglevel=2,
            control_symbols=["<|im_start|>", "<|im_end|>"], user_defined_symbols=["<tool_call>", "</tool_call>"], num_threads=1)
        p = sentencepiece.SentencePieceProcessor(model_file=target + ".model")
    n = p.get_piece_size()
    kind = lambda i: 2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 4 if p.id_to_piece(i)[1:-1].endswith("tool_call") else 1
    write_vocab(path, "llama", [p.id_to_piece(i) for i in range(n)], [kind(i) for i in range(n)], scores=[p.get_score(i) for i in range(n)],
                bos_token_id=1, eos_token_id=2, unk_token_id=0, add_bos_token=True)


def excerpts(directory):
    out = []
    names = ["calibration.txt"] + [f"handbook/{d}/{page}.html" for d in ("ar-MA", "de-DE", "fa-IR", "ja-JP", "ru-RU", "vi-VN", "zh-CN")
                                   for page in ("foreword", "apt")]
    for name in names:
        try:
            with open(os.path.join(directory, name), "rb") as f: data = f.read()
        except OSError:
            continue
        for at, size in ((0, 1000), (len(data) // 2, 8000 if name == "calibration.txt" else 1000)):
            while at < len(data) and data[at] & 0xC0 == 0x80: at += 1
            part = data[at:at + size]
            while part and len(part.decode("utf-8", "ignore").encode()) != len(part): part = part[:-1]
            out.append((name, at, part))
    return out


def main():
    bpe, spm = os.path.join(HERE, "tokenizer_bpe.gguf"), os.path.join(HERE, "tokenizer_spm.gguf")
    train_bpe(bpe); train_spm(spm)
    f = fields(bpe)
    for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        f["pre"] = pre
        write("bpe_" + pre, hf(f, False), hf(f, True), llama_cpp(bpe) if pre == "gpt-2" else None)
    f = fields(spm)
    # With a dummy prefix, sentencepiece treats user-defined tokens as part of the text, Hugging Face (and llama.cpp) as
    # cuts: the models that mix the two were made with the latter. Without such tokens sentencepiece is the judge, since
    # the Metaspace of Hugging Face leaves the prefix out of a text that begins with a space.
    def judge(prefix, parse_special):
        cut, of_hf, of_sp = (2, 3, 4) if parse_special else (4,), hf(f, parse_special, prefix), sp(f)
        cuts = [t for t, k in zip(f["tokens"], f["token_type"]) if k in cut]
        return lambda text: of_hf(text) if any(t in text for t in cuts) else of_sp(text)
    write("spm", judge("always", False), judge("always", True), llama_cpp(spm))
    write("spm_first", judge("first", False), judge("first", True), None)
    bare = {**f, "add_space_prefix": False}
    write("spm_bare", sp(bare), hf(bare, True), None)
    # Every seventh piece unused: it takes part in merging and falls apart afterwards. No judge reads special tokens here.
    unused = {**f, "token_type": [5 if k == 1 and i % 7 == 0 and len(f["tokens"][i]) > 1 else k for i, k in enumerate(f["token_type"])]}
    write("spm_unused", sp(unused), sp(unused), None)
    if len(sys.argv) < 2: return
    for name, file in MODELS.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]: continue
        path = os.path.join(sys.argv[1], file)
        if not os.path.exists(path): print(name, "skipped:", path, "is not there"); continue
        f = fields(path)
        write("model_" + name, sp(f) if f["model"] == "llama" else hf(f, False), hf(f, True), llama_cpp(path), excerpts(sys.argv[1]))


if __name__ == "__main__":
    main()
