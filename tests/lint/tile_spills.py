# SPDX-License-Identifier: MIT
"""The integer tile kernels must keep their accumulators in registers.

g++ 12 has spilled the natural form of this loop (24 accumulators, 4 weights, 1 activation of 32 registers)
to the stack on every step, which halves its rate and fails no other test. So: in every function with at
least 16 vpdpbusd, 512-bit moves to or from the stack between the first and the last of them may number at
most half of them; the trap had up to 7 a piece.
Usage: tile_spills.py --objects avx512vnni=a.o;b.o
"""
import re
import subprocess

import lint

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
TILE_DOTS, SHARE = 16, 1 / 2


def add_arguments(parser):
    parser.add_argument("--objects", nargs="*", default=[], help="isa=object;object...")
    parser.add_argument("--objdump", default="objdump")


def check_text(where, text):
    """Messages about one disassembly, and the number of tile functions in it."""
    functions, name = {}, None
    for line in text.splitlines():
        if match := FUNCTION.match(line.strip()):
            name = match[1]
        elif name is not None:
            functions.setdefault(name, []).append(line)
    messages, tiles = [], 0
    for name, lines in functions.items():
        dots = [i for i, line in enumerate(lines) if "vpdpbusd" in line]
        if len(dots) < TILE_DOTS:
            continue
        tiles += 1
        loop = lines[dots[0]:dots[-1] + 1]
        spills = sum("zmm" in line and re.search(r"\(%r[sb]p\b", line) is not None for line in loop)
        if spills > SHARE * len(dots):
            messages.append(f"{where}: {name}: {spills} stack accesses among {len(dots)} vpdpbusd")
    return messages, tiles


def check(root, options):
    messages, tiles = [], 0
    for argument in options.objects:
        isa, _, objects = argument.partition("=")
        if "vnni" not in isa:
            continue
        for path in filter(None, objects.split(";")):
            out = subprocess.run([options.objdump, "-dC", "--no-show-raw-insn", path], capture_output=True, check=True)
            found, count = check_text(path, out.stdout.decode())
            messages += found
            tiles += count
    if any("vnni" in a.partition("=")[0] for a in options.objects) and tiles == 0:
        messages.append("no tile kernel found: nothing was checked")
    print(f"{tiles} tile kernel(s)")
    return messages


def self_test_check(root, options):
    return [m for p in sorted(root.glob("*.s")) for m in check_text(p.name, p.read_text())[0]]


DOT = "  10:\tvpdpbusd %zmm4,%zmm3,%zmm5\n"
SPILL = "  16:\tvmovdqa64 %zmm5,0xa08(%rsp)\n"
OUTPUT = "  1c:\tvmovups %zmm5,(%rdi)\n"
CASES = {
    "a tile in registers passes": ({"a.s": "0 <tile>:\n" + (DOT * 4 + OUTPUT) * 12}, None),
    "stores around the loop pass": ({"a.s": "0 <tile>:\n" + SPILL * 40 + DOT * 48 + SPILL * 40}, None),
    "spills in the loop are found": ({"a.s": "0 <tile>:\n" + (DOT + SPILL) * 48}, "47 stack accesses"),
    "small kernels are left alone": ({"a.s": "0 <dot>:\n" + (DOT + SPILL) * 8}, None),
}

if __name__ == "__main__":
    import sys
    lint.run(self_test_check if "--self-test" in sys.argv else check, CASES, __doc__, add_arguments)
