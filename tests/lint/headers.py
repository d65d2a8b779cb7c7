# SPDX-License-Identifier: MIT
"""Every header compiles alone, with each compiler given: a user may include any one of them first.

Public headers are compiled as a user would, private ones with src/ on the path. A header that passed is
not compiled again until it, a project header below it, the flags or the compiler change (--cache).
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import lint

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


def add_arguments(parser):
    parser.add_argument("--compiler", action="append", default=[], help="may be repeated; absent ones are reported")
    parser.add_argument("--flag", action="append", default=[], help="compiler flag, e.g. --flag=-Ibuild/include")
    parser.add_argument("--cache", type=pathlib.Path, help="folder that remembers what passed")


def closure(root, header, flags, seen):
    """The project headers below header, itself included."""
    if header in seen:
        return
    seen.add(header)
    bases = [root / "include", root / "src", header.parent] + [pathlib.Path(f[2:]) for f in flags if f.startswith("-I")]
    for name in INCLUDE.findall(header.read_text(encoding="utf-8")):
        for base in bases:
            if (base / name).is_file():
                closure(root, (base / name).resolve(), flags, seen)
                break


def wanted(root):
    """All public headers; private ones except per-ISA kernels and pieces that are included repeatedly."""
    for header in lint.sources(root, "include", "src", suffixes={".hpp"}):
        parts = header.parts
        if parts[:3] == ("src", "cpu", "isa") or (parts[0] == "src" and parts[1] == "cuda"):
            continue
        yield header


def check(root, options):
    compilers, messages = [], []
    for compiler in options.compiler or ["g++", "clang++"]:
        if shutil.which(compiler):
            version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
            compilers.append((compiler, version))
        else:
            print(f"skipped: {compiler} is not installed")
    jobs = []
    for header in wanted(root):
        flags = ["-std=c++20", "-fsyntax-only", "-x", "c++", *WARNINGS, f"-I{root}/include", *options.flag]
        if header.parts[0] != "include":
            flags += [f"-I{root}/src"]
        files = set()
        closure(root, (root / header).resolve(), flags, files)
        digest = hashlib.sha256()
        for path in sorted(files):
            digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        for compiler, version in compilers:
            key = digest.copy()
            key.update(version + "\0".join(flags).encode())
            mark = options.cache / key.hexdigest() if options.cache else None
            if mark is None or not mark.exists():
                jobs.append((header, compiler, flags, mark))

    def compile_one(job):
        header, compiler, flags, mark = job
        # Twice, and from an empty main file: g++ dislikes '#pragma once' in a main file.
        twice = ["-include", str(root / header)] * 2
        done = subprocess.run([compiler, *flags, *twice, os.devnull], capture_output=True, check=False)
        if done.returncode == 0:
            if mark is not None:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
            return None
        errors = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "error" in line]
        return f"{header}: does not compile alone with {compiler}: {(errors or ['?'])[0]}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        messages += [m for m in pool.map(compile_one, jobs) if m]
    print(f"compiled {len(jobs)} header(s) with {len(compilers)} compiler(s)")
    return messages


CASES = {
    "a header that stands alone passes": ({
        "include/nibble/core/a.hpp": "#pragma once\n#include <vector>\ninline std::vector<int> f() { return {}; }\n"}, None),
    "a header that leans on its includer": ({
        "include/nibble/core/a.hpp": "#pragma once\ninline std::vector<int> f() { return {}; }\n"}, "compile alone"),
    "a private header that leans on its includer": ({
        "src/core/a.hpp": "#pragma once\nstd::size_t f();\n"}, "compile alone"),
    "a header with a warning": ({
        "include/nibble/core/a.hpp": "#pragma once\ninline int f(long x) { return x; }\n"}, "compile alone"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__, add_arguments)
