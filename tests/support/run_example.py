# SPDX-License-Identifier: MIT
"""Runs an example and fails when it fails, prints nothing, or writes to stderr; runs it twice and expects the
same output. Usage: run_example.py PROGRAM [--tiny | --model FILE]; exits 77 when FILE is absent.
"""
import os
import subprocess
import sys
import tempfile

import tiny_model


def run(arguments: list[str]) -> str:
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=280)
    if done.returncode != 0 or not done.stdout.strip() or done.stderr:
        sys.exit(f"{arguments[0]} ended with {done.returncode}: {done.stdout[-500:]!r} {done.stderr[-500:]!r}")
    return done.stdout.decode("utf-8", "replace")


def main(arguments: list[str]) -> int:
    command, options = arguments[:1], arguments[1:]
    with tempfile.TemporaryDirectory() as folder:
        if options[:1] == ["--tiny"]:
            command.append(os.path.join(folder, "tiny.gguf"))
            tiny_model.make(command[1])
        elif options[:1] == ["--model"]:
            if not os.path.exists(options[1]):
                print(f"skipped: {options[1]} is not there")
                return 77
            command.append(options[1])
        output = run(command)
        print(output)
        if run(command) != output:
            sys.exit("a second run gave another output")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
