# SPDX-License-Identifier: MIT
"""The test runner itself: how it counts cases, skips and failures, and that it cannot report a pass wrongly."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
import run_binary  # noqa: E402

ALL_GOOD = "===\nAll tests passed (12 assertions in 3 test cases)\n"
ONE_SKIP = "a_test.cpp:3: warning:\n  skipped: no GPU\n\n" + ALL_GOOD
WRONG = "test cases:  4 |  3 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n"


class Counting(unittest.TestCase):
    def test_summaries(self):
        self.assertEqual(run_binary.summarize(ALL_GOOD, 0), (3, 0, 0))
        self.assertEqual(run_binary.summarize(ONE_SKIP, 0), (2, 0, 1))
        self.assertEqual(run_binary.summarize(WRONG, 1), (3, 1, 0))
        self.assertEqual(run_binary.summarize("Segmentation fault", -11), (0, 1, 0))
        self.assertEqual(run_binary.summarize("No tests ran\n", 0), (0, 0, 0))

    def run_fake(self, output, code):
        """Runs the wrapper around a program that prints `output` and exits with `code`."""
        program = f"import sys; sys.stdout.write({output!r}); sys.exit({code})"
        done = subprocess.run([sys.executable, SUPPORT / "run_binary.py", sys.executable, "-c", program],
                              capture_output=True, check=False)
        return done.returncode, done.stdout.decode().splitlines()[-1]

    def test_exit_codes(self):
        self.assertEqual(self.run_fake(ALL_GOOD, 0), (0, "cases: 3 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_fake(ONE_SKIP.replace("3 test cases", "1 test case"), 0)[0], 77)
        self.assertEqual(self.run_fake(WRONG, 1)[0], 1)
        self.assertEqual(self.run_fake(ALL_GOOD, 3)[0], 1)  # died after its last case
        self.assertEqual(self.run_fake("No tests ran\n", 0)[0], 1)

    def summary(self, body):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(f"<testsuite>{body}</testsuite>")
            report.flush()
            done = subprocess.run([sys.executable, SUPPORT / "summary.py", report.name], capture_output=True, check=False)
        return done.returncode, done.stdout.decode().splitlines()[-1]

    def test_reports(self):
        binary = '<testcase name="a" status="run"><system-out>cases: 5 passed, 0 failed, 2 skipped\n</system-out></testcase>'
        script = '<testcase name="b" status="run"/>'
        broken = '<testcase name="c" status="fail"><failure/></testcase>'
        absent = '<testcase name="d" status="notrun"><skipped/></testcase>'
        self.assertEqual(self.summary(binary + script), (0, "6 passed, 0 failed, 2 skipped"))
        self.assertEqual(self.summary(binary + broken), (1, "5 passed, 1 failed, 2 skipped"))
        self.assertEqual(self.summary(script + absent), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.summary(""), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
