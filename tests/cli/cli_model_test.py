# SPDX-License-Identifier: MIT
"""The program on SmolLM2-135M-Instruct. Usage: cli_model_test.py PROGRAM MODELS_DIR; exits 77 without it.

Token ids and the perplexity are llama.cpp's (llama-cpp-python 0.3.36): ids of its tokenizer; perplexity of the
first chunk of 512 tokens of a fixed English text, from an FP32 forward pass of the dequantized file.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from program import Case, main

MODELS = pathlib.Path(sys.argv[2])
MODEL, TEXT = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf", MODELS / "evaluation.txt"
TEXT_BYTES, PERPLEXITY = 618637, 11.103669  # the figure holds for the text of this size


class RealModel(Case):
    def test_token_ids(self):
        for text, ids in [("Hello world", [19556, 905]),
                          ("I'VE seen <|im_end|> it", [57, 23, 18525, 2269, 2067, 108, 306, 79, 486, 108, 46, 357]),
                          ("The Debian handbook, chapter 7: 12345 caf\u00e9 \U0001f999\n\n  x=1;",
                           [504, 1413, 14958, 32762, 28, 3532, 216, 39, 42, 216, 33, 34, 35, 36, 37, 37366, 15107, 116,
                            243, 8866, 1792, 45, 33, 43])]:
            self.assertEqual(self.json("tokenize", MODEL, "--text", text)["ids"], ids)

    def test_inspect(self):
        r = self.json("inspect", MODEL)
        self.assertEqual((r["layers"], r["hidden"], r["heads"], r["kv_heads"]), (30, 576, 9, 3))
        self.assertEqual(r["file_bytes"], 98362432)
        self.assertTrue(r["chat_template"])

    def test_perplexity(self):
        if not TEXT.exists() or TEXT.stat().st_size != TEXT_BYTES:
            self.skipTest("skipped: the text is not there, or another one")
        r = self.json("eval", MODEL, "--text", TEXT, "--chunks", 1)
        self.assertEqual(r["tokens"], 255)
        self.assertLess(abs(r["perplexity"] / PERPLEXITY - 1), 1e-3)

    def test_quantize_and_compare(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "q8_0.gguf"
            self.assertIn("are quantized already", self.run_ok("quantize", MODEL, out, "--type", "q8_0")[1])
            r = self.json("eval", out, "--text", TEXT if TEXT.exists() else __file__, "--ctx", 128, "--chunks", 1,
                          "--reference", MODEL)
            self.assertGreater(r["mean_kl"], 0)
            self.assertLess(r["mean_kl"], 0.01)
            self.assertGreater(r["top1_agreement"], 0.9)
            self.assertEqual(len(r["layers"]), 31)

    def test_generate_and_chat(self):
        out, _ = self.run_ok("generate", MODEL, "--prompt", "The capital of France is", "-n", 6, "--temperature", 0)
        self.assertIn("Paris", out)
        out, err = self.run_ok("chat", MODEL, "-n", 24, "--temperature", 0, "--exact", stdin=b"What is the capital of France?\n")
        self.assertIn("Paris", out)
        self.assertEqual(err, "")

    def test_interrupt_ends_an_answer(self):
        process = subprocess.Popen([self.program, "generate", MODEL, "--prompt", "Count: 1, 2, 3,", "-n", "-1",
                                    "--temperature", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = os.read(process.stdout.fileno(), 64)
        self.assertTrue(first.startswith(b"Count"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue(out.endswith(b"\n"))
        self.assertIn(b"finish: cancelled", err)

    def test_interrupt_removes_the_unfinished_file(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([self.program, "quantize", MODEL, os.path.join(folder, "o.gguf"), "--type", "q4_0",
                                        "-t", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while process.poll() is None and not os.listdir(folder):
                pass
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(os.listdir(folder), [])
            self.assertIn(b"nibble: error: ", err)


if __name__ == "__main__":
    if not MODEL.exists():
        print(f"skipped: {MODEL} is not there")
        sys.exit(77)
    sys.exit(main(sys.argv[1]))
