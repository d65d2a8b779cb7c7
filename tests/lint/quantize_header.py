# SPDX-License-Identifier: MIT
"""nibble/quantize.hpp is a promise: it brings nothing but the standard library, Eigen and the modules
core, format and quant, and it compiles in under three seconds (processor time, -O0, the best of up to
four tries, since a busy machine makes every one slower)."""
import resource
import pathlib
import shutil
import subprocess
import tempfile

import lint

SECONDS = 3.0
ALLOWED_FOLDERS = ("core", "format", "quant")


def add_arguments(parser):
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=SECONDS)


def foreign(root, generated, path):
    """Why the header at path breaks the promise, or None."""
    path = pathlib.Path(path).resolve()
    for base in [root / "include", *generated]:
        if path.is_relative_to(base):
            inside = path.relative_to(base).parts
            if inside[0] != "nibble":
                break
            if len(inside) > 2 and inside[1] not in ALLOWED_FOLDERS:
                return f"module '{inside[1]}'"
            return None
    text = path.as_posix()
    if "/Eigen/" in text or "/c++/" in text or "/gcc/" in text or "/clang/" in text or "/bits/" in text:
        return None
    # The C library and the kernel's headers, which the standard library stands on.
    if text.startswith("/usr/include/") and len(path.relative_to("/usr/include").parts) <= 3:
        top = path.relative_to("/usr/include").parts
        known = {"linux", "asm", "asm-generic", "gnu", "sys", "x86_64-linux-gnu", "aarch64-linux-gnu"}
        if len(top) == 1 or top[0] in known:
            return None
    if "-linux-gnu/" in text:
        return None
    return "neither the standard library nor Eigen"


def check(root, options):
    header = root / "include/nibble/quantize.hpp"
    if not header.is_file():
        return ["include/nibble/quantize.hpp does not exist"]
    if not shutil.which(options.compiler):
        return [f"{options.compiler} is not installed"]
    messages = []
    generated = [pathlib.Path(f[2:]).resolve() for f in options.flag if f.startswith("-I")]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "user.cpp"
        source.write_text("#include <nibble/quantize.hpp>\nint main() {}\n", encoding="utf-8")
        command = [options.compiler, "-std=c++20", "-O0", f"-I{root}/include", *options.flag]
        listing = subprocess.run([*command, "-M", str(source)], capture_output=True, check=False)
        if listing.returncode != 0:
            return [listing.stderr.decode("utf-8", "replace")[:2000]]
        for path in listing.stdout.decode().replace("\\\n", " ").split()[2:]:
            reason = foreign(root, generated, path)
            if reason:
                messages.append(f"nibble/quantize.hpp brings {path}: {reason}")
        best = float("inf")
        for _ in range(1 if options.self_test else 4):
            if best <= options.seconds:
                break
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*command, "-c", str(source), "-o", f"{folder}/user.o"], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        # A self-test's slow case takes more than a sixth of the limit on any machine.
        limit = options.seconds / 6 if options.self_test else options.seconds
        print(f"nibble/quantize.hpp compiles in {best:.2f} s of processor time")
        if best > limit:
            messages.append(f"nibble/quantize.hpp takes {best:.2f} s to compile; the limit is {limit} s")
    return messages


SLOW = """constexpr unsigned spin(unsigned seed) {  // one to five seconds of constant evaluation
  for (unsigned i = 0; i < 15; ++i)
    for (unsigned j = 0; j < 60000; ++j) seed = seed * 1664525u + j;
  return seed;
}
static_assert(spin(7) != 1);
"""
CASES = {
    "a light header passes": ({
        "include/nibble/quantize.hpp": "#include <vector>\n#include \"nibble/quant/a.hpp\"\n", "include/nibble/quant/a.hpp": ""}, None),
    "a foreign module": ({
        "include/nibble/quantize.hpp": "#include \"nibble/io/a.hpp\"\n", "include/nibble/io/a.hpp": ""}, "module 'io'"),
    "a foreign library": ({
        "include/nibble/quantize.hpp": "#include \"other/b.hpp\"\n", "include/other/b.hpp": ""}, "neither the standard"),
    "a slow header": ({"include/nibble/quantize.hpp": SLOW}, "to compile"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__, add_arguments)
