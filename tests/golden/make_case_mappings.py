#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the checksums in tests/unit/text/jinja_python_text_test.cpp.

Each is the CRC-32 of what a str method of CPython 3.11 (Unicode 14.0.0) gives for every code point in turn.
"""
import unicodedata
import zlib

assert unicodedata.unidata_version == "14.0.0"
ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def bits(test):
    return "".join("1" if test(c) else "0" for c in ALL)


for name, text in {
    "upper": "".join(c.upper() for c in ALL),
    "lower": "".join(c.lower() for c in ALL),
    "title": "".join(c.title() for c in ALL),
    "isdecimal": bits(str.isdecimal),
    "isdigit": bits(str.isdigit),
    "islower": bits(str.islower),
    "isupper": bits(str.isupper),
    "isprintable": bits(str.isprintable),
    "isspace": bits(str.isspace),
}.items():
    print(f'{{"{name}", 0x{zlib.crc32(text.encode()):08x}u}},')
