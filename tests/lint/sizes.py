# SPDX-License-Identifier: MIT
"""A file that outgrows its limit usually holds two ideas. Headers aim at 400 lines and sources at 600;
from 400 and 600 on a note is printed, above 800 the check fails. Tables (.def, *_tables.*, golden data)
are exempt. .clang-format wraps at 110 columns; the check allows 120 for what it cannot break."""
import lint

GOAL = {".hpp": 400, ".cuh": 400, ".cpp": 600, ".cu": 600}
LIMIT = 800
COLUMNS = 120


def is_table(path):
    return path.suffix == ".def" or path.stem.endswith(("_table", "_tables")) or "generated" in path.parts


def check(root, _options):
    messages = []
    for source in lint.sources(root, "include", "src", "tests", "examples", "benchmarks"):
        if is_table(source):
            continue
        lines = (root / source).read_text(encoding="utf-8").split("\n")
        count = len(lines) - 1
        if count > LIMIT:
            messages.append(f"{source}: {count} lines; the limit is {LIMIT}")
        elif count > GOAL.get(source.suffix, LIMIT):
            print(f"note: {source}: {count} lines; the goal is {GOAL[source.suffix]}")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and "http" not in line and 'R"' not in line and source.parts[0] != "tests":
                messages.append(f"{source}:{number}: {len(line)} columns; the limit is {COLUMNS}")
        first = lines[0]
        if first != "// SPDX-License-Identifier: MIT":
            messages.append(f"{source}:1: must be '// SPDX-License-Identifier: MIT'")
        if source.suffix == ".hpp" and "#pragma once" not in lines and source.parts[0] != "tests":
            messages.append(f"{source}: lacks '#pragma once'")
    return messages


HEAD = "// SPDX-License-Identifier: MIT\n"
CASES = {
    "a clean tree passes": ({
        "include/nibble/core/a.hpp": HEAD + "#pragma once\n" + "int x;\n" * 300,
        "src/core/unicode_tables.cpp": "int x;\n" * 5000}, None),
    "too long": ({"src/core/a.cpp": HEAD + "int x;\n" * 800}, "801 lines"),
    "too wide": ({"src/core/a.cpp": HEAD + "int " + "x" * 120 + ";\n"}, "columns"),
    "no licence line": ({"src/core/a.cpp": "int x;\n"}, "SPDX"),
    "no guard": ({"include/nibble/core/a.hpp": HEAD + "int x;\n"}, "#pragma once"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__)
