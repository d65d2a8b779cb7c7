# SPDX-License-Identifier: MIT
"""The integer tile kernels must keep their accumulators in registers, and probes of the peak rates all their chains.

g++ 12 has spilled the natural form of this loop (24 accumulators, 4 weights, 1 activation of 32 registers)
to the stack on every step, which halves its rate and fails no other test. So: in every function named tile
with at least 16 byte products (vpdpbusd, vpmaddubsw, sdot, smmla), vector moves to or from the stack between the first and
the last of them may number at most a quarter of them; the trap had up to 7 a piece.
Chains that begin alike and do the same may become one, which then seems to run faster than any processor: probe_fma and
probe_dot must have at least 10 multiply-adds each.
An instruction set named by --exempt is expected to spill: where it no longer does, the exemption must go.
Usage: tile_spills.py --objects avx512vnni=a.o;b.o [--exempt avx512]
"""
import re
import subprocess

import lint

TILED = {"avx2", "avxvnni", "avx512", "avx512vnni", "neon_dot", "neon_i8mm"}
TILE = re.compile(r"\btile\b")
SPILL = re.compile(r"%[yz]mm.*\(%r[sb]p\b|\(%r[sb]p\b.*%[yz]mm|\b(?:ldr|str|ldp|stp)\s+q.*\[sp\b")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
DOT = re.compile(r"\b(vpdpbusd|vpmaddubsw|sdot|smmla)\b")
TILE_DOTS, SHARE = 16, 1 / 4
PROBE = re.compile(r"\bprobe_(fma|dot)\b")
MULTIPLY_ADD = {"fma": re.compile(r"\b(vfmadd\w*|fmla)\b"), "dot": DOT}
CHAINS = 10


def add_arguments(parser):
    parser.add_argument("--objects", nargs="*", default=[], help="isa=object;object...")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--exempt", action="append", default=[], help="instruction sets this compiler fails")


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
        dots = [i for i, line in enumerate(lines) if DOT.search(line)]
        if probe := PROBE.search(name):
            count = sum(MULTIPLY_ADD[probe[1]].search(line) is not None for line in lines)
            if count < CHAINS:
                messages.append(f"{where}: {name}: {count} multiply-adds, {CHAINS} chains are due")
        if len(dots) < TILE_DOTS or not TILE.search(name):
            continue
        tiles += 1
        loop = lines[dots[0]:dots[-1] + 1]
        spills = sum(SPILL.search(line) is not None for line in loop)
        if spills > SHARE * len(dots):
            messages.append(f"{where}: {name}: {spills} stack accesses among {len(dots)} products")
    return messages, tiles


def check(root, options):
    messages, tiles = [], 0
    for argument in options.objects:
        isa, _, objects = argument.partition("=")
        if isa not in TILED:
            continue
        count, spilling = 0, []
        for path in filter(None, objects.split(";")):
            out = subprocess.run([options.objdump, "-dC", "--no-show-raw-insn", path], capture_output=True, check=True)
            found, here = check_text(path, out.stdout.decode())
            spilling += found
            count += here
        tiles += count
        if isa in options.exempt:
            print(f"{isa}: exempt with this compiler, {len(spilling)} of {count} spill")
            if not spilling:
                messages.append(f"{isa}: exempt, but nothing spills: remove the exemption")
            continue
        messages += spilling
        if count == 0:
            messages.append(f"{isa}: no tile kernel found: nothing was checked")
    print(f"{tiles} tile kernel(s)")
    return messages


def self_test_check(root, options):
    return [m for p in sorted(root.glob("*.s")) for m in check_text(p.name, p.read_text())[0]]


PRODUCT = "  10:\tvpdpbusd %zmm4,%zmm3,%zmm5\n"
STACK = "  16:\tvmovdqa64 %zmm5,0xa08(%rsp)\n"
ARM_PRODUCT = "  10:\tsdot\tv16.4s, v2.16b, v8.16b\n"
ARM_STACK = "  16:\tldr\tq16, [sp, #176]\n"
PAIR = "  14:\tvpmaddubsw %ymm4,%ymm3,%ymm5\n"
FMA = "  18:\tvfmadd231ps %zmm0,%zmm0,%zmm1\n"
OUTPUT = "  1c:\tvmovups %zmm5,(%rdi)\n"
CASES = {
    "a tile in registers passes": ({"a.s": "0 <tile>:\n" + (PRODUCT * 4 + OUTPUT) * 12}, None),
    "stores around the loop pass": ({"a.s": "0 <tile>:\n" + STACK * 40 + PRODUCT * 48 + STACK * 40}, None),
    "spills in the loop are found": ({"a.s": "0 <tile>:\n" + (PRODUCT + STACK) * 48}, "47 stack accesses"),
    "so are those of pairs": ({"a.s": "0 <tile>:\n" + (PAIR + STACK) * 48}, "47 stack accesses"),
    "and those of Arm": ({"a.s": "0 <tile>:\n" + (ARM_PRODUCT + ARM_STACK) * 48}, "47 stack accesses"),
    "small kernels are left alone": ({"a.s": "0 <tile>:\n" + (PRODUCT + STACK) * 8}, None),
    "a probe with all its chains passes": ({"a.s": "0 <ns::probe_fma(long, double*)>:\n" + FMA * 12}, None),
    "a probe of one chain is found": ({"a.s": "0 <ns::probe_fma(long, double*)>:\n" + FMA}, "1 multiply-adds"),
    "so is one of integers": ({"a.s": "0 <ns::probe_dot(long, double*)>:\n" + ARM_PRODUCT}, "1 multiply-adds"),
    "other kernels are left alone": ({"a.s": "0 <dot_panel>:\n" + (PRODUCT + STACK) * 48}, None),
}

if __name__ == "__main__":
    import sys
    lint.run(self_test_check if "--self-test" in sys.argv else check, CASES, __doc__, add_arguments)
