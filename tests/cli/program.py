# SPDX-License-Identifier: MIT
"""Running the program under test."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))


class Case(unittest.TestCase):
    """What all cases share; `program` is set by main()."""
    program = ""

    def run_raw(self, *arguments, stdin=b""):
        return subprocess.run([self.program, *map(str, arguments)], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=300, check=False)

    def run_ok(self, *arguments, stdin=b""):
        """Exit code 0; returns stdout and stderr as text."""
        done = self.run_raw(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, (arguments, done.stderr.decode("utf-8", "replace")))
        return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    def json(self, *arguments, stdin=b""):
        return json.loads(self.run_ok(*arguments, "--format", "json", stdin=stdin)[0])

    def fails(self, code, fragment, *arguments, stdin=b""):
        """The given exit code, nothing on stdout, and one line `nibble: error: ...` as the last on stderr."""
        done = self.run_raw(*arguments, stdin=stdin)
        error = done.stderr.decode("utf-8", "replace")
        self.assertEqual(done.returncode, code, (arguments, error))
        self.assertEqual(done.stdout, b"", arguments)
        lines = error.strip("\n").split("\n")
        self.assertEqual([line for line in lines if "error:" in line], lines[-1:], error)
        self.assertTrue(lines[-1].startswith("nibble: error: "), error)
        self.assertIn(fragment, lines[-1])


def main(program: str) -> int:
    Case.program = program
    result = unittest.main(module="__main__", argv=["cli"], exit=False, verbosity=1).result
    print(f"cases: {result.testsRun - len(result.skipped)} run, {len(result.skipped)} skipped")
    return 0 if result.wasSuccessful() else 1
