# SPDX-License-Identifier: MIT
"""What the lint scripts share: finding sources, blanking comments and strings, reporting, self-tests.

Every script takes --root DIR (the project) and --self-test. A self-test runs the check on small trees
that each hold one fault, and fails unless every fault is found and a clean tree passes.
"""
import argparse
import pathlib
import re
import sys
import tempfile

SOURCE_SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".def"}


def sources(root: pathlib.Path, *folders: str, suffixes=frozenset(SOURCE_SUFFIXES)):
    """Project sources under the folders, sorted, as paths relative to root."""
    found = []
    for folder in folders:
        found += [p.relative_to(root) for p in (root / folder).rglob("*") if p.suffix in suffixes and p.is_file()]
    return sorted(found)


_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL)


def blank(text: str, strings: bool = True) -> str:
    """The text with comments (and string literals, if asked) replaced by spaces; lines keep their numbers.

    An apostrophe between digits (1'000) is a separator, not the start of a character literal.
    """
    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text)

    def replace(match):
        token = match[0]
        if token.startswith(("//", "/*")) or strings:
            return re.sub(r"[^\n]", " ", token)
        return token

    return _TOKEN.sub(replace, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def main(check, self_test_cases: dict, description: str, add_arguments=None) -> int:
    """Runs check(root, options) -> list of messages, or its self-test.

    self_test_cases maps a name to (files, fragment): files is {path: text}; fragment is a part of the
    message that must appear, or None where the tree must pass.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    if add_arguments:
        add_arguments(parser)
    options = parser.parse_args()
    if not options.self_test:
        messages = check(options.root.resolve(), options)
        for message in messages:
            print(message)
        print(f"{len(messages)} finding(s)")
        return 1 if messages else 0

    wrong = 0
    for name, (files, fragment) in self_test_cases.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            messages = check(root, options)
        good = not messages if fragment is None else any(fragment in m for m in messages)
        print(f"{'ok  ' if good else 'FAIL'} {name}")
        if not good:
            print(f"  expected {fragment!r}, got {messages}")
            wrong += 1
    return 1 if wrong or not self_test_cases else 0


def run(*arguments, **keywords):
    sys.exit(main(*arguments, **keywords))
