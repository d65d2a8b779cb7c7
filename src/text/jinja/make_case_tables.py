#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes case_tables.inc: character properties and case mappings as CPython's str has them.

Run with CPython 3.11 (Unicode 14.0.0), the tables' source. Ranges are {first, last, stride}; mappings add
a delta to every member of a range.
"""
import pathlib
import sys
import unicodedata

assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
ALL = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]


def ranges(pairs):
    """Groups sorted (code point, value) into runs of equal value with stride 1 or 2."""
    runs = []
    for c, v in pairs:
        if runs:
            first, last, stride, value = runs[-1]
            step = c - last
            if value == v and (step == stride or (first == last and step in (1, 2))):
                runs[-1] = (first, c, step, value)
                continue
        runs.append((c, c, 1, v))
    return runs


def members(test):
    return [(ord(c), 0) for c in ALL if test(c)]


def mapping(function):
    return [(ord(c), ord(function(c)) - ord(c)) for c in ALL if len(function(c)) == 1 and function(c) != c]


def special(function):
    return [(ord(c), [ord(x) for x in function(c)]) for c in ALL if len(function(c)) > 1]


def ignorable(c):
    """Whether the rule for a sigma at the end of a word skips c, found by asking str.lower."""
    if c.isupper() or c.islower() or c.istitle():
        return (c + "\u03a3").lower()[-1] == "\u03c3"
    return ("A\u03a3" + c + "A").lower()[1] == "\u03c3"


def emit(out, name, kind, entries):
    out.append(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for e in entries:
        text = " {" + ", ".join(str(x) if not isinstance(x, list) else "{" + ", ".join(map(str, x)) + "}" for x in e) + "},"
        if len(line) + len(text) > 110:
            out.append(line)
            line = "   "
        line += text
    out += [line, "};"]


def main():
    out = ["// Made by make_case_tables.py from CPython 3.11 (Unicode 14.0.0); do not edit."]
    sets = {
        "decimal_ranges": str.isdecimal,
        "digit_ranges": lambda c: c.isdigit() and not c.isdecimal(),
        "lower_ranges": str.islower,
        "upper_ranges": str.isupper,
        "title_ranges": lambda c: c.istitle() and not c.isupper(),
        "unprintable_ranges": lambda c: not c.isprintable(),
        "ignorable_ranges": ignorable,
    }
    for name, test in sets.items():
        emit(out, name, "Range", [r[:3] for r in ranges(members(test))])
    for name, function in {"upper_map": str.upper, "lower_map": str.lower, "title_map": str.title}.items():
        emit(out, name, "Mapping", ranges(mapping(function)))
    for name, function in {"special_upper": str.upper, "special_title": str.title}.items():
        emit(out, name, "SpecialCase", special(function))
    (pathlib.Path(__file__).parent / "case_tables.inc").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
