# SPDX-License-Identifier: MIT
"""Every command of the program on a small random model. Usage: cli_test.py PROGRAM"""
import json
import math
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import tempfile
import time

from program import Case, main
import tiny_model

EVAL_KEYS = ["perplexity", "perplexity_stderr", "mean_kl", "mean_kl_stderr", "top1_agreement", "bits_per_weight",
             "file_bytes", "tokens"]
BENCH_KEYS = ["prefill_tokens_per_s", "decode_tokens_per_s", "load_seconds", "peak_rss_bytes", "integer_ops_per_s",
              "float_ops_per_s", "read_bytes_per_s", "prefill_roofline_share", "decode_roofline_share"]
FOLDER = tempfile.TemporaryDirectory()
HERE = pathlib.Path(FOLDER.name)
MODEL, BARE, HALF, TEXT = HERE / "tiny.gguf", HERE / "bare.gguf", HERE / "half.gguf", HERE / "text.txt"


def set_up() -> None:
    tiny_model.make(str(MODEL))
    tiny_model.make(str(BARE), template=False)
    tiny_model.make(str(HALF), f16=True)
    words = ["hello", "the", "quick", "tell", "thing", "caf\u00e9", "42", "\n"]
    rng = random.Random(1)
    TEXT.write_text(" ".join(rng.choice(words) for _ in range(600)), encoding="utf-8")


class General(Case):
    def test_version_and_help(self):
        out, err = self.run_ok("--version")
        self.assertRegex(out, r"\d+\.\d+\.\d+")
        self.assertIn("instruction sets", out)
        self.assertIn("scalar", out)
        self.assertEqual(err, "")
        out, err = self.run_ok("--help")
        for command in ["inspect", "quantize", "eval", "generate", "chat", "tokenize", "bench"]:
            self.assertIn(command, out)
            self.assertIn("--", self.run_ok(command, "--help")[0])
        self.assertEqual(err, "")

    def test_wrong_command_lines_exit_2(self):
        self.fails(2, "", "nonsense")
        self.fails(2, "", )
        self.fails(2, "MODEL", "inspect")
        self.fails(2, "--format", "inspect", MODEL, "--format", "xml")
        self.fails(2, "", "inspect", MODEL, "--no-such-option")
        self.fails(2, "--type", "quantize", MODEL, HERE / "x.gguf", "--type", "q9_9")
        self.fails(2, "", "quantize", MODEL, HERE / "x.gguf")
        self.fails(2, "", "eval", MODEL)
        self.fails(2, "--ctx", "eval", MODEL, "--text", TEXT, "--ctx", "3")
        self.fails(2, "", "eval", MODEL, "--text", TEXT, "--fast", "--exact")
        self.fails(2, "available here", "eval", MODEL, "--text", TEXT, "--isa", "mmx")
        self.fails(2, "", "generate", MODEL)
        self.fails(2, "temperature", "generate", MODEL, "--prompt", "x", "--temperature", "-1")
        self.fails(2, "temperature", "generate", MODEL, "--prompt", "x", "--temperature", "nan")
        self.fails(2, "top_p", "generate", MODEL, "--prompt", "x", "--top-p", "0")
        self.fails(2, "min_p", "generate", MODEL, "--prompt", "x", "--min-p", "1.5")
        self.fails(2, "repetition_penalty", "generate", MODEL, "--prompt", "x", "--repetition-penalty", "0")
        self.fails(2, "stop string", "generate", MODEL, "--prompt", "x", "--stop", "")
        self.fails(2, "--max-tokens", "generate", MODEL, "--prompt", "x", "-n", "-2")
        self.fails(2, "", "tokenize", MODEL)
        self.fails(2, "", "tokenize", MODEL, "--text", "x", "--file", TEXT)
        self.fails(2, "threads", "bench", MODEL, "-t", "-1")

    def test_bad_files_exit_1_and_are_named(self):
        missing, broken = HERE / "missing.gguf", HERE / "broken.gguf"
        broken.write_bytes(MODEL.read_bytes()[:100000])
        for command in [["inspect"], ["tokenize", "--text", "x"], ["generate", "--prompt", "x"], ["chat"], ["bench"],
                        ["eval", "--text", TEXT], ["quantize", HERE / "o.gguf", "--type", "q8_0"]]:
            for file in [missing, broken]:
                self.fails(1, file.name, command[0], file, *command[1:])
        self.fails(1, "missing.txt", "eval", MODEL, "--text", HERE / "missing.txt")
        self.fails(1, "text.txt", "inspect", TEXT)
        self.assertFalse((HERE / "o.gguf").exists())

    def test_full_disk_and_closed_pipe(self):
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([self.program, "inspect", MODEL], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"nibble: error: cannot write to standard output", done.stderr)
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([self.program, "inspect", MODEL], stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        self.assertEqual((done.returncode, done.stderr), (1, b""))


class Inspect(Case):
    def test_keys(self):
        r = self.json("inspect", MODEL)
        self.assertEqual(r["architecture"], "llama")
        self.assertEqual(r["file_bytes"], MODEL.stat().st_size)
        self.assertEqual((r["layers"], r["hidden"], r["context"]), (2, 64, 128))
        self.assertTrue(r["runs_here"])
        self.assertEqual(r["weights"], sum(math.prod(map(int, t["shape"].split(" x "))) for t in r["tensors"]))
        self.assertAlmostEqual(r["bits_per_weight"], 8 * r["file_bytes"] / r["weights"])
        self.assertEqual(r["tensor_count"], len(r["tensors"]))
        self.assertEqual(r["kv_bytes"], 2 * 128 * 2 * (16 + 16) * 2)
        self.assertEqual(r["memory_bytes"], r["weight_bytes"] + r["kv_bytes"])
        self.assertEqual(self.json("inspect", MODEL, "--ctx", 64)["kv_bytes"] * 2, r["kv_bytes"])
        self.assertIn({"key": "llama.block_count", "type": "u32", "value": "2"}, r["metadata"])
        self.assertEqual([t["type"] for t in r["types"]], ["F32"])

    def test_formats(self):
        out, err = self.run_ok("inspect", MODEL)
        self.assertEqual(err, "")
        self.assertIn("blk.1.ffn_down.weight", out)
        self.assertIn("| token_embd.weight | F32 |", self.run_ok("inspect", MODEL, "--format", "md")[0])

    def test_a_model_that_cannot_run_is_still_shown(self):
        other = HERE / "other.gguf"
        other.write_bytes(MODEL.read_bytes().replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0xlama", 1))
        r = self.json("inspect", other)
        self.assertFalse(r["runs_here"])
        self.assertIn("xlama", r["reason"])
        self.fails(1, "xlama", "generate", other, "--prompt", "x")


class Tokenize(Case):
    def test_ids_and_tokens(self):
        r = self.json("tokenize", MODEL, "--text", "hello <|im_end|>\u00e9")
        self.assertEqual(list(r), ["ids", "tokens"])
        self.assertEqual(len(r["ids"]), len(r["tokens"]))
        self.assertEqual(r["tokens"][0], "hello")
        self.assertNotIn(2, r["ids"])
        self.assertIn(2, self.json("tokenize", MODEL, "--text", "hello <|im_end|>", "--special")["ids"])
        self.assertEqual(self.json("tokenize", MODEL, "--file", "-", stdin=b"hello")["tokens"], ["hello"])
        self.assertEqual(self.json("tokenize", MODEL, "--text", "")["ids"], [])
        (HERE / "nul.txt").write_bytes(b"a\0b\xff")
        self.assertEqual(len(self.json("tokenize", MODEL, "--file", HERE / "nul.txt")["ids"]), 4)
        self.assertIn("'hello'", self.run_ok("tokenize", MODEL, "--text", "hello")[0])


class Generate(Case):
    def test_streams_are_apart(self):
        out, err = self.run_ok("generate", MODEL, "--prompt", "hello", "-n", 8, "--temperature", 0)
        self.assertTrue(out.startswith("hello"))
        self.assertTrue(out.endswith("\n"))
        self.assertIn("finish:", err)
        self.assertEqual(self.run_ok("generate", MODEL, "-p", "hello", "-n", 8, "--temperature", 0, "-q"), (out, ""))

    def test_json_and_seeds(self):
        def ids(*options):
            return self.json("generate", MODEL, "--prompt", "hello", "-n", 16, *options)["ids"]
        r = self.json("generate", MODEL, "--prompt", "hello", "-n", 5, "--seed", 3)
        for key in ["text", "ids", "finish", "prompt_tokens", "generated_tokens"]:
            self.assertIn(key, r)
        self.assertEqual(ids("--seed", 3), ids("--seed", 3))
        self.assertNotEqual(ids("--seed", 3, "--temperature", 2), ids("--seed", 4, "--temperature", 2))
        greedy = ids("--temperature", 0)
        self.assertEqual(greedy, ids("--temperature", 0, "--seed", 9, "-t", 1))
        self.assertEqual(greedy, ids("--top-k", 1, "--seed", 5))
        self.assertEqual(self.json("generate", MODEL, "--file", "-", "-n", 0, stdin=b"hello")["ids"], [])

    def test_limits(self):
        r = self.json("generate", MODEL, "--prompt", "hello", "-n", -1, "--ctx", 24, "--temperature", 5)
        self.assertIn(r["finish"], ["context_full", "end"])
        self.fails(1, "does not fit", "generate", MODEL, "--prompt", "x" * 200, "-n", 1)
        self.fails(1, "at most 4", "generate", MODEL, "--prompt", "abcdefgh", "--ctx", 4)

    def test_every_isa(self):
        isas = self.run_ok("--version")[0].split("instruction sets here:")[1].split()
        texts = {self.json("generate", MODEL, "--prompt", "the", "-n", 8, "--temperature", 0, "--exact", "--isa", isa)["text"]
                 for isa in isas}
        self.assertEqual(len(texts), 1, (isas, texts))

    def test_interrupt(self):
        process = subprocess.Popen([self.program, "generate", MODEL, "--prompt", "x", "-n", "-1", "--ctx", str(1 << 22),
                                    "--temperature", "3", "--stop", "impossible \u2603"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.assertEqual(process.stdout.read(1), b"x")  # it has begun; a buffer would keep what follows from communicate
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        # A random model may have ended by itself before the signal came.
        self.assertIn(process.returncode, [130, 0])
        self.assertTrue(out.endswith(b"\n"))
        self.assertNotIn(b"error", err)


class Chat(Case):
    def test_piped(self):
        out, err = self.run_ok("chat", MODEL, "-n", 8, "--temperature", 0, stdin=b"hello\n\nmore\n/exit\nnever\n")
        self.assertEqual(err, "")
        again, _ = self.run_ok("chat", MODEL, "-n", 8, "--temperature", 0, stdin=b"hello\r\nmore")
        self.assertEqual(out, again)
        self.assertEqual(self.run_ok("chat", MODEL, stdin=b"")[0], "")
        with_system, _ = self.run_ok("chat", MODEL, "-n", 8, "--temperature", 0, "--system", "be odd", stdin=b"hello\nmore\n")
        self.assertIsInstance(with_system, str)

    def test_no_template_is_said(self):
        self.fails(1, "no chat template", "chat", BARE, stdin=b"hello\n")

    def test_context_full_is_an_error_or_a_note(self):
        done = self.run_raw("chat", MODEL, "--ctx", 20, stdin=b"a message that is much longer than twenty tokens\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"does not fit", done.stderr)

    def test_terminal(self):
        master, slave = pty.openpty()
        process = subprocess.Popen([self.program, "chat", MODEL, "-n", "4", "--temperature", "0"], stdin=slave,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        os.close(slave)
        os.write(master, b"hello\n/exit\n")
        out, err = process.communicate(timeout=60)
        os.close(master)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(b"> ", err)
        self.assertNotIn(b"> ", out)


class Eval(Case):
    def test_keys_and_numbers(self):
        r = self.json("eval", MODEL, "--text", TEXT, "--ctx", 64, "--chunks", 3)
        self.assertEqual(list(r)[:8], EVAL_KEYS)
        self.assertEqual(r["tokens"], 3 * 31)
        self.assertEqual(r["file_bytes"], MODEL.stat().st_size)
        self.assertIsNone(r["mean_kl"])
        self.assertGreater(r["perplexity"], 1)
        self.assertEqual(r["numerics"], "exact")
        self.assertEqual(self.json("eval", MODEL, "--text", "-", "--ctx", 64, "--chunks", 3, "-t", 1,
                                   stdin=TEXT.read_bytes())["perplexity"], r["perplexity"])

    def test_reference(self):
        same = self.json("eval", MODEL, "--text", TEXT, "--ctx", 32, "--chunks", 2, "--reference", MODEL)
        self.assertEqual((same["mean_kl"], same["top1_agreement"]), (0, 1))
        self.assertEqual(same["perplexity"], same["reference_perplexity"])
        self.assertEqual(same["tensors"], [])
        half = self.json("eval", HALF, "--text", TEXT, "--ctx", 32, "--chunks", 2, "--reference", MODEL)
        self.assertGreater(half["mean_kl"], 0)
        self.assertLess(half["mean_kl"], 1e-4)
        self.assertEqual([row["layer"] for row in half["layers"]], [-1, 0, 1])
        self.assertIn("relative_rms", half["tensors"][0])
        fast = self.json("eval", MODEL, "--text", TEXT, "--ctx", 32, "--chunks", 2, "--reference", MODEL, "--fast")
        self.assertEqual(fast["numerics"], "fast")
        self.assertEqual(fast["reference_perplexity"], same["perplexity"])

    def test_short_text_and_progress(self):
        self.fails(1, "needs 512", "eval", MODEL, "--text", "-", stdin=b"short")
        out, err = self.run_ok("eval", MODEL, "--text", TEXT, "--ctx", 64, "--chunks", 2)
        self.assertIn("evaluate 100 %", err)
        self.assertNotIn("evaluate", out)


class Quantize(Case):
    def test_types(self):
        for name in ["f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"]:
            target = HERE / f"{name}.gguf"
            r = self.json("quantize", MODEL, target, "--type", name, "--threads", 2)
            self.assertEqual(r["file_bytes"], target.stat().st_size)
            seen = self.json("inspect", target)
            kinds = {t["name"]: t["type"].lower() for t in seen["tensors"]}
            self.assertEqual(kinds["blk.0.ffn_up.weight"], name)
            self.assertEqual(kinds["token_embd.weight"], "q8_0" if name[0] in "qi" else name)
            self.assertEqual(kinds["blk.0.attn_norm.weight"], "f32")
            metadata = {m["key"]: m["value"] for m in seen["metadata"]}
            self.assertEqual(metadata["general.quantization_version"], "2")
            self.assertEqual(metadata["general.name"], "tiny random llama")
            self.assertIn("general.file_type", metadata)
            loss = self.json("eval", target, "--text", TEXT, "--ctx", 32, "--chunks", 2, "--reference", MODEL)
            self.assertLess(loss["mean_kl"], 0.5 if name[0] in "qi" else 1e-3)
            self.assertEqual(loss["mean_kl"] == 0, name == "f32")

    def test_threads_do_not_change_the_file(self):
        one, two = HERE / "t1.gguf", HERE / "t2.gguf"
        self.run_ok("quantize", MODEL, one, "--type", "q4_0", "--threads", 1)
        self.run_ok("quantize", MODEL, two, "--type", "Q4_0", "--threads", 3)
        self.assertEqual(one.read_bytes(), two.read_bytes())

    def test_tables_list_every_tensor_on_request(self):
        for more, listed in ([], False), (["--details"], True):
            out, _ = self.run_ok("quantize", MODEL, HERE / "d.gguf", "--type", "q4_0", *more)
            self.assertEqual("blk.1.ffn_up.weight" in out, listed)
            self.assertRegex(out, r"f32 +q4_0 +14\b")
            out, _ = self.run_ok("eval", HERE / "d.gguf", "--text", TEXT, "--ctx", 32, "--chunks", 1, "--reference", MODEL, *more)
            self.assertEqual("blk.1.ffn_up.weight" in out, listed)

    def test_embedding_requantization_and_in_place(self):
        small = HERE / "small.gguf"
        self.run_ok("quantize", MODEL, small, "--type", "q4_0", "--embedding", "q5_1")
        kinds = {t["name"]: t["type"] for t in self.json("inspect", small)["tensors"]}
        self.assertEqual((kinds["token_embd.weight"], kinds["blk.0.attn_q.weight"]), ("Q5_1", "Q4_0"))
        target = HERE / "mixed.gguf"
        _, err = self.run_ok("quantize", MODEL, target, "--type", "q4_0")
        self.assertIn("quantize 100 %", err)
        self.assertNotIn("note", err)
        kinds = {t["name"]: t["type"] for t in self.json("inspect", target)["tensors"]}
        self.assertEqual((kinds["token_embd.weight"], kinds["blk.0.attn_q.weight"]), ("Q8_0", "Q4_0"))
        _, err = self.run_ok("quantize", target, target, "--type", "q8_0")
        self.assertIn("nibble: note: 14 tensors are quantized already (q4_0)", err)
        self.assertEqual({t["type"] for t in self.json("inspect", target)["tensors"]}, {"F32", "Q8_0"})

    def test_types_that_do_not_fit(self):
        if self.run_raw("quantize", MODEL, HERE / "k.gguf", "--type", "q4_k").returncode == 2:
            self.skipTest("this build has no encoder with blocks of 256")
        r = self.json("quantize", MODEL, HERE / "k.gguf", "--type", "q4_k")
        row = next(t for t in r["tensors"] if t["name"] == "blk.0.attn_q.weight")
        self.assertNotEqual(row["to"], "q4_k")
        self.assertIn("no whole number", row["note"])

    def test_failures_leave_nothing_behind(self):
        bad = HERE / "nan.gguf"
        raw = bytearray(MODEL.read_bytes())
        raw[-4:] = b"\0\0\xc0\x7f"  # the last weight of the last tensor
        bad.write_bytes(bytes(raw))
        keep = HERE / "keep.gguf"
        keep.write_bytes(b"precious")
        self.fails(1, "NaN", "quantize", bad, keep, "--type", "q8_0")
        self.assertEqual(keep.read_bytes(), b"precious")
        self.fails(1, "nowhere", "quantize", MODEL, HERE / "nowhere" / "o.gguf", "--type", "q8_0")
        leftovers = [p.name for p in HERE.iterdir() if "tmp" in p.name or p.name.startswith(".")]
        self.assertEqual(leftovers, [])


class Bench(Case):
    def test_keys(self):
        r = self.json("bench", MODEL, "-p", 32, "-n", 4, "-t", 2, "-r", 2)
        for key in BENCH_KEYS:
            self.assertGreater(r[key], 0, key)
        self.assertEqual(r["threads"], 2)
        self.assertGreaterEqual(r["prefill_tokens_per_s"], r["prefill_tokens_per_s_mean"])
        for phase in "prefill", "decode":
            rates = r[f"{phase}_repetitions"]
            self.assertEqual(len(rates), 2)
            self.assertEqual(r[f"{phase}_tokens_per_s"], max(rates))
            self.assertAlmostEqual(r[f"{phase}_tokens_per_s_mean"] / (sum(rates) / 2), 1)
        none = self.json("bench", MODEL, "-p", 0, "-n", 1, "-r", 1)
        self.assertIsNone(none["prefill_tokens_per_s"])
        self.assertIsNone(none["prefill_roofline_share"])
        self.assertEqual({row["phase"] for row in none["ops"]}, {"decode"})

    def test_where_the_time_goes(self):
        r = self.json("bench", MODEL, "-p", 16, "-n", 4, "-t", 1, "-r", 1)
        rows = {(row["phase"], row["op"]): row for row in r["ops"]}
        for phase in "prefill", "decode":
            for op in "linear", "attention", "embedding", "head", "other":
                self.assertIn((phase, op), rows)
            # Norms, rotation and the like have no span of their own: they are folded into these.
            self.assertNotIn((phase, "norm"), rows)
            self.assertAlmostEqual(sum(v["time_share"] for k, v in rows.items() if k[0] == phase), 1, places=6)
        # Linear layers and head: two operations for every weight and token; the head only for the last token, as
        # float weights are multiplied in FP32 whatever the numerics.
        tensors = self.json("inspect", MODEL)["tensors"]
        size = {t["name"]: math.prod(map(int, t["shape"].split(" x "))) for t in tensors if " x " in t["shape"]}
        inner = sum(n for name, n in size.items() if name.startswith("blk."))
        head = size.get("output.weight", size["token_embd.weight"])
        for phase, count in ("prefill", 16), ("decode", 4):
            self.assertEqual(rows[phase, "linear"]["ops_per_token"], 2 * inner)
            self.assertEqual(rows[phase, "head"]["ops_per_token"] * count, 2 * head * (1 if phase == "prefill" else count))
        self.assertEqual([row["threads"] for row in r["read_rates"]], [1])
        self.assertEqual([row["threads"] for row in self.json("bench", MODEL, "-p", 1, "-n", 0, "-r", 1, "-t", 3)["read_rates"]],
                         [1, 2, 3])


if __name__ == "__main__":
    set_up()
    code = main(sys.argv[1])
    FOLDER.cleanup()
    sys.exit(code)
