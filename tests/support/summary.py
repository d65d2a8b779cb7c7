# SPDX-License-Identifier: MIT
"""Reads CTest's JUnit report, names what was skipped and what failed, and ends with one plain line:
'N passed, N failed, N skipped', counting the cases inside each test binary. Exits 1 on any failure."""
import re
import sys
import xml.etree.ElementTree as xml

CASES = re.compile(r"^cases: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def count(test) -> tuple[int, int, int]:
    """(passed, failed, skipped) of one CTest test: its cases if it counts any, else the test itself."""
    status = test.get("status", "")
    output = test.findtext("system-out") or ""
    if matches := CASES.findall(output):
        passed, failed, skipped = map(int, matches[-1])
        if status == "fail" and failed == 0:
            failed = 1
        return passed, failed, skipped
    if test.find("skipped") is not None or status in ("notrun", "disabled"):
        return 0, 0, 1
    return (0, 1, 0) if status == "fail" or test.find("failure") is not None else (1, 0, 0)


def main(path: str) -> int:
    total = [0, 0, 0]
    for test in xml.parse(path).getroot().iter("testcase"):
        numbers = count(test)
        total = [a + b for a, b in zip(total, numbers)]
        reasons = sorted(set(re.findall(r"skipped: .+", test.findtext("system-out") or "")))
        if numbers[1]:
            print(f"failed: {test.get('name')}")
        for reason in reasons:
            print(f"{test.get('name')}: {reason}")
        if numbers[2] and not reasons:
            print(f"{test.get('name')}: skipped without a reason")
    if sum(total) == 0:
        print("no test ran")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
