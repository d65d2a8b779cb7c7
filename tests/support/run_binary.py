# SPDX-License-Identifier: MIT
"""Runs one Catch2 binary and makes its skips visible.

A test case that cannot run here says WARN("skipped: reason") and returns. This wrapper passes the
output through, ends with 'cases: N passed, N failed, N skipped', and exits 77 (CTest's skip code)
when every case that ran was skipped. Usage: run_binary.py BINARY [ARGUMENT...]
"""
import re
import subprocess
import sys


def summarize(output: str, code: int) -> tuple[int, int, int]:
    """Counts (passed, failed, skipped) test cases in the console output of Catch2 2.13 or 3."""
    skipped = len(re.findall(r"^\s*skipped: ", output, re.MULTILINE))
    total = failed = 0
    if match := re.search(r"^All tests passed \(.* in (\d+) test cases?\)", output, re.MULTILINE):
        total = int(match[1])
    elif match := re.search(r"^test cases:\s*(\d+)(.*)$", output, re.MULTILINE):
        total = int(match[1])
        if wrong := re.search(r"(\d+) failed", match[2]):
            failed = int(wrong[1])
        # Catch2 counts cases tagged [!mayfail] apart, and cases without any assertion as passed.
    if code != 0:
        failed = max(failed, 1)
    skipped = min(skipped, max(total - failed, 0))
    return max(total - failed - skipped, 0), failed, skipped


def main(arguments: list[str]) -> int:
    process = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = process.stdout.decode("utf-8", "replace")
    sys.stdout.write(output)
    passed, failed, skipped = summarize(output, process.returncode)
    print(f"cases: {passed} passed, {failed} failed, {skipped} skipped")
    if process.returncode != 0:
        return 1 if process.returncode != 77 else 77
    if passed == 0 and skipped == 0:
        print("error: the binary ran no test case")
        return 1
    return 77 if passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
