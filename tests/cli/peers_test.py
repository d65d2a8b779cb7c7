# SPDX-License-Identifier: MIT
"""benchmarks/peers/run.py with the real program and peers made up by this test: one works, one crashes, one cannot
load the file. Usage: peers_test.py PROGRAM RUNNER"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import tiny_model

PROGRAM, RUNNER = sys.argv[1], sys.argv[2]
PEER = """#!/bin/sh
case "$*" in
  *--variant\\ repack*) kill -SEGV $$;;
  *--variant\\ plain*) echo '{"info": "a peer", "prefill": [50, 70, 60], "decode": [5, 7, 6],
 "load_seconds": 0.5, "peak_rss_bytes": 1000000}' | tr -d '\\n';;
  *) echo "it says no" >&2; exit 3;;
esac
"""


class Runner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.here = pathlib.Path(cls.folder.name)
        tiny_model.make(str(cls.here / "tiny.gguf"))
        peer = cls.here / "peer"
        peer.write_text(PEER)
        peer.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_it(self, *more):
        return subprocess.run([sys.executable, RUNNER, str(self.here / "tiny.gguf"), "-p", "16", "-n", "4", "-r", "2", "-t", "1",
                               "--rounds", "2", "--nibble", PROGRAM, "--python", str(self.here / "peer"), "--wait", "0",
                               "--out", str(self.here / "out"), *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)

    def test_crashes_and_refusals_are_rows(self):
        done = self.run_it("--peers", "llama.cpp,llama.cpp plain,OpenVINO")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((self.here / "out/results.json").read_text())["results"][0]
        rows = result["rows"]
        self.assertEqual(rows["llama.cpp"], {"rounds": 0, "failures": ["crashed (signal 11)"]})
        self.assertEqual(len(result["runs"]["llama.cpp"]), 1)  # not tried again
        self.assertEqual(rows["OpenVINO"]["failures"], ["cannot load: it says no"])
        peer = rows["llama.cpp plain"]
        self.assertEqual((peer["prefill"]["median"], peer["prefill"]["best"], peer["decode"]["worst"]), (60, 70, 5))
        own = rows["nibble"]
        self.assertEqual(own["rounds"], 2)
        rates = [x for r in result["runs"]["nibble"] for x in r["output"]["decode"]]
        self.assertEqual(len(rates), 4)
        self.assertEqual(own["decode"]["best"], max(rates))
        text = done.stdout.decode()
        self.assertIn("| llama.cpp | crashed (signal 11) |", text)
        self.assertIn("60.0 (50.0 - 70.0)", text)
        self.assertIn(f"{own['prefill']['median'] / 60:.2f}x", text)
        self.assertEqual(text.strip(), (self.here / "out/results.md").read_text().strip())
        svg = xml.etree.ElementTree.parse(self.here / "out/roofline.svg").getroot()
        shapes = [e.tag.split("}")[1] for e in svg.iter()]
        self.assertEqual(shapes.count("rect"), 1 + 2)    # the ground, and two engines' prefill
        self.assertEqual(shapes.count("circle"), 2 + 2)  # their decoding, and the legend
        for e in svg.iter():
            for key in ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy"):
                self.assertTrue(-1 <= float(e.get(key, 0)) <= 1000, e.attrib)

    def test_others_are_seen(self):
        sys.path.insert(0, str(pathlib.Path(RUNNER).parent))
        import machine
        idle = {"others": 0.0, "steal": 0.0}
        self.assertFalse(machine.disturbed(idle))
        self.assertTrue(machine.disturbed({**idle, "others": 0.06}))
        self.assertTrue(machine.disturbed({**idle, "steal": 0.03}))
        watch = machine.Watch()
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"])  # at least an eighth of the machine
                   for _ in range(os.cpu_count() // 8 + 1)]
        try:
            self.assertFalse(machine.wait_until_idle(0))
            shares = watch.shares()
            self.assertGreater(shares["others"], machine.BUSY_LIMIT)
            self.assertEqual(watch.shares(own_seconds=1e9)["others"], 0)
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()

    def test_unknown_peer(self):
        self.assertEqual(self.run_it("--peers", "nobody").returncode, 2)

    def test_no_peers(self):
        done = self.run_it("--peers", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| nibble", done.stdout.decode())


if __name__ == "__main__":
    if not os.path.exists("/proc/stat"):
        print("skipped: needs Linux")
        sys.exit(77)
    unittest.main(argv=["peers"])
