# SPDX-License-Identifier: MIT
"""Wrong programs must not compile, and the compiler's first words about them must help.

Each case is one .cpp file whose comments state what is expected:
  // expect: ok             it compiles (a control: the same code without the mistake)
  // expect: REGEX          it does not, and some error or note matches; may be repeated
  // refuse: REGEX          no message may match
Every case is compiled by each --compiler that is installed.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys


def verdict(source: pathlib.Path, compiler: str, flags: list[str]) -> list[str]:
    """What is wrong with the case, as sentences; empty when it behaves as its comments say."""
    text = source.read_text(encoding="utf-8")
    expected = re.findall(r"^// expect: (.+)$", text, re.MULTILINE)
    refused = re.findall(r"^// refuse: (.+)$", text, re.MULTILINE)
    if not expected:
        return [f"{source.name}: states no expectation"]
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *flags, str(source)],
                          capture_output=True, check=False)
    output = done.stderr.decode("utf-8", "replace")
    if expected == ["ok"]:
        return [f"{source.name}: does not compile with {compiler}:\n{output[:3000]}"] if done.returncode else []
    if done.returncode == 0:
        return [f"{source.name}: compiles with {compiler}, but must not"]
    messages = "\n".join(line for line in output.splitlines() if re.search(r"\b(error|note):", line))
    wrong = [f"{source.name}: {compiler} says nothing like '{pattern}':\n{output[:3000]}"
             for pattern in expected if not re.search(pattern, messages)]
    wrong += [f"{source.name}: {compiler} says '{pattern}'" for pattern in refused if re.search(pattern, messages)]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", type=pathlib.Path)
    parser.add_argument("--compiler", action="append", default=[])
    parser.add_argument("--flag", action="append", default=[])
    options = parser.parse_args()
    failures, runs = [], 0
    controls = 0
    for compiler in options.compiler or ["g++", "clang++"]:
        if not shutil.which(compiler):
            print(f"skipped: {compiler} is not installed")
            continue
        for case in options.cases:
            runs += 1
            controls += "// expect: ok" in case.read_text(encoding="utf-8")
            wrong = verdict(case, compiler, options.flag)
            failures += wrong
            print(f"{'FAIL' if wrong else 'ok  '} {case.name} ({pathlib.Path(compiler).name})")
    for failure in failures:
        print(failure)
    if controls == 0:
        print("no control case compiled: the failures above prove nothing")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
