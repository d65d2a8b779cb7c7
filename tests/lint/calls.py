# SPDX-License-Identifier: MIT
"""A library must not end, print to or read the environment of its host. Forbidden in include/ and src/
outside src/cli: abort and its kin, printing, getenv, iostream objects, assert, time-seeded randomness."""
import re

import lint

FORBIDDEN = [
    (re.compile(r"(?<![\w.>:])(?:(?:std)?\s*::\s*)?(abort|exit|_Exit|_exit|quick_exit|terminate)\s*\("), "ends the host's process"),
    (re.compile(r"(?<![\w.>:])(?:(?:std)?\s*::\s*)?(v?f?printf|puts|putchar|fputs|fputc|perror)\s*\("), "prints"),
    (re.compile(r"\bstd\s*::\s*(cout|cerr|clog|wcout|wcerr)\b"), "prints"),
    (re.compile(r"\b(std(?:out|err))\b"), "prints"),
    (re.compile(r"(?<![\w.>:])(?:(?:std)?\s*::\s*)?((?:secure_)?getenv|setenv|putenv|setlocale)\s*\("), "touches the host's environment"),
    (re.compile(r"#\s*include\s*<(iostream|cassert|assert\.h)>"), "is a header of forbidden things"),
    (re.compile(r"(?<![\w.>])(assert)\s*\("), "ends the host's process; use core/contract.hpp"),
    (re.compile(r"\bstd\s*::\s*(random_device)\b"), "makes results unrepeatable"),
    (re.compile(r"(?<![\w.>:])(?:(?:std)?\s*::\s*)?(rand|srand|popen)\s*\("), "has no place in a library"),
    (re.compile(r"(__builtin_trap|__builtin_abort)\b"), "ends the host's process"),
]


def check(root, _options):
    messages = []
    for source in lint.sources(root, "include", "src"):
        if source.parts[:2] == ("src", "cli"):
            continue
        text = lint.blank((root / source).read_text(encoding="utf-8"))
        for pattern, reason in FORBIDDEN:
            for match in pattern.finditer(text):
                messages.append(f"{source}:{lint.line_of(text, match.start(1))}: '{match[1]}' {reason}")
    return messages


def one(text, fragment):
    return {"include/nibble/core/a.hpp": text}, fragment


CASES = {
    "a clean tree passes": ({
        "include/nibble/core/a.hpp": '// abort() is forbidden\nvoid throw_error();\nint exit_code(); x.exit(); '
                                     'constexpr int n = 1\'000; char c = \'"\'; const char* s = "abort()";\n',
        "src/cli/main.cpp": "#include <iostream>\nint main() { std::cout << 1; std::exit(1); }\n"}, None),
    "abort": one("void f() { std::abort(); }", "'abort'"),
    "exit": one("void f() { exit(1); }", "'exit'"),
    "a global call": one("void f() { ::exit(1); }", "'exit'"),
    "terminate": one("void f() { std::terminate(); }", "'terminate'"),
    "printf": one('void f() { printf("x"); }', "'printf'"),
    "fprintf": one('void f() { std::fprintf(stderr, "x"); }', "'fprintf'"),
    "cerr": one("void f() { std::cerr << 1; }", "'cerr'"),
    "getenv": one('void f() { std::getenv("HOME"); }', "'getenv'"),
    "iostream": one("#include <iostream>\n", "'iostream'"),
    "assert": one("void f(int x) { assert(x); }", "'assert'"),
    "a call after a character literal": one("char c = '\\''; void f() { abort(); }", "'abort'"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__)
