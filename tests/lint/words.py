# SPDX-License-Identifier: MIT
"""The project speaks of itself alone: no unfinished-work marks in code, no path of one machine, no
package registry's host name, no narration of how a text came about. Checks every tracked text file."""
import pathlib
import re
import subprocess

import lint

# Spelled in pieces so that this file passes its own check.
HOSTS = "|".join(["py" + r"pi\.org", "python" + "hosted", "deb" + r"\.debian\.org"])
RULES = [
    (re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + r"XX|HA" + r"CK)\b"), "unfinished work", {".hpp", ".cpp", ".cu", ".py", ".cmake", ".sh"}),
    (re.compile(r"(?<![\w./])/(?:wo" + "rk|ho" + r"me)/\w"), "a path of one machine", None),
    (re.compile(HOSTS), "a registry's host name; packages are named by name only", None),
    (re.compile(r"\b(as an A" + r"I|language model assis" + r"tant|this sess" + r"ion|the iss" + r"ue tracker|co-?authored-by)\b", re.I),
     "words about how the text came about", None),
]
TEXT = {".hpp", ".cpp", ".cu", ".cuh", ".def", ".py", ".sh", ".cmake", ".txt", ".md", ".in", ".json", ".yml", ""}


def tracked(root: pathlib.Path):
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        return [pathlib.Path(p) for p in listing.stdout.decode().split("\0") if p]
    return [p.relative_to(root) for p in root.rglob("*") if p.is_file()]


def check(root, _options):
    messages = []
    for path in tracked(root):
        if path.suffix not in TEXT or "golden" in path.parts or "corpus" in path.parts or not (root / path).is_file():
            continue
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for pattern, reason, suffixes in RULES:
            if suffixes is not None and path.suffix not in suffixes:
                continue
            for match in pattern.finditer(text):
                messages.append(f"{path}:{lint.line_of(text, match.start())}: '{match[0]}': {reason}")
    return messages


CASES = {
    "a clean tree passes": ({"README.md": "A library. See build/work/x.\n", "src/core/a.cpp": "int todo_list;\n"}, None),
    "unfinished work": ({"src/core/a.cpp": "// TO" + "DO: more\n"}, "unfinished work"),
    "a machine's path": ({"README.md": "cd /wo" + "rk/main\n"}, "a path of one machine"),
    "a registry's host": ({"README.md": "get it from py" + "pi.org\n"}, "host name"),
    "narration": ({"docs/a.md": "Written in this sess" + "ion.\n"}, "how the text came about"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__)
