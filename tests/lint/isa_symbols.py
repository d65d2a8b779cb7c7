# SPDX-License-Identifier: MIT
"""Objects built for one instruction set must not offer their inline functions to the rest of the program.

The linker keeps one copy of each weak symbol, from whichever object comes first. If an AVX-512 unit
holds a weak std::max, the whole program may end up running that one, on machines without AVX-512. So a
weak symbol of such an object must lie in nibble::cpu::<isa>, or be an xsimd template tagged with a
vector architecture; and no weak symbol may be shared between units of two instruction sets.
Usage: isa_symbols.py --objects avx2=a.o;b.o avx512=c.o ...
"""
import argparse
import pathlib
import re
import subprocess

import lint

XSIMD_TAG = re.compile(r"\bxsimd::(fma3|fma4|avx2|avx512\w*|avxvnni|neon\w*|sve\w*|i8mm\w*)\b")


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--objects", nargs="*", default=[], help="isa=object;object...")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--compiler", default="c++", help="for the self-test")


def symbols(nm, path):
    """(name, type) of every defined symbol, names demangled."""
    out = subprocess.run([nm, "-C", "-P", "--defined-only", str(path)], capture_output=True, check=True)
    for line in out.stdout.decode().splitlines():
        match = re.match(r"^(.*) ([A-Za-z]) [0-9a-f]*(?: [0-9a-f]*)?\s*$", line)
        if match:
            yield match[1], match[2]


def check(root, options):
    units = {}
    for argument in options.objects:
        isa, _, objects = argument.partition("=")
        units.setdefault(isa, []).extend(o for o in objects.split(";") if o)
    return check_units(units, options)


def check_units(units, options):
    messages, owner, count = [], {}, 0
    for isa, objects in units.items():
        home = re.compile(rf"\bnibble::cpu::{re.escape(isa)}::")
        for path in objects:
            for name, kind in symbols(options.nm, path):
                if kind not in "WwVvu":
                    continue
                count += 1
                short = pathlib.Path(path).name
                if not home.search(name) and not (name.find("xsimd::") >= 0 and XSIMD_TAG.search(name)):
                    messages.append(f"{isa}: {short}: weak symbol outside nibble::cpu::{isa}: {name}")
                elif owner.setdefault(name, isa) != isa:
                    messages.append(f"{isa}: {short}: weak symbol shared with {owner[name]}: {name}")
    print(f"{sum(map(len, units.values()))} object(s), {count} weak symbol(s)")
    return messages


def self_test_check(root, options):
    """Compiles the case's sources (named <isa>.cpp) to objects, then checks those."""
    units = {}
    for source in sorted(root.glob("*.cpp")):
        done = subprocess.run([options.compiler, "-std=c++20", "-O2", "-c", str(source), "-o", f"{source}.o"],
                              capture_output=True, check=False)
        if done.returncode != 0:
            return [done.stderr.decode()]
        units[source.stem] = [f"{source}.o"]
    return check_units(units, options)


KEEP = "__attribute__((noinline, used)) "
CASES = {
    "own namespace passes": ({
        "avx2.cpp": f"namespace nibble::cpu::avx2 {{ inline {KEEP}int f(int x) {{ return x * 3; }} int g(int x) {{ return f(x); }} }}"}, None),
    "a std template leaks": ({
        "avx2.cpp": "#include <vector>\nnamespace nibble::cpu::avx2 { void g(std::vector<int>& v) { v.push_back(1); v.resize(99); } }"},
        "outside nibble::cpu::avx2"),
    "a shared inline function leaks": ({
        "avx2.cpp": f"namespace nibble {{ inline {KEEP}int f(int x) {{ return x * 3; }} }}\nnamespace nibble::cpu::avx2 {{ int g(int x) {{ return f(x); }} }}"},
        "weak symbol outside"),
    "an untagged xsimd function leaks": ({
        "avx2.cpp": f"namespace xsimd {{ inline {KEEP}int f(int x) {{ return x * 3; }} }}\nnamespace nibble::cpu::avx2 {{ int g(int x) {{ return xsimd::f(x); }} }}"},
        "weak symbol outside"),
    "two units share a tagged xsimd function": ({
        name + ".cpp": "namespace xsimd { struct avx512bw {}; template <class A> " + KEEP + "int f(A, int x) { return x * 3; } }\n"
        "namespace nibble::cpu::" + name + " { int g(int x) { return xsimd::f(xsimd::avx512bw{}, x); } }"
        for name in ("avx512", "avx512vnni")}, "shared with avx512"),
}

if __name__ == "__main__":
    import sys
    lint.run(self_test_check if "--self-test" in sys.argv else check, CASES, __doc__, add_arguments)
