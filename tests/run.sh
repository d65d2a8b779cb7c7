#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds nibble (preset dev) and runs every test. Debian 12; installs packages when some are missing and
# we are root; safe to repeat, also without a network. Arguments go to ctest: sh tests/run.sh -L unit
# The last line is 'N passed, N failed, N skipped' (test cases).
set -eu
cd "$(dirname "$0")/.."
sh cmake/debian_packages.sh --base

preset=${NIBBLE_PRESET:-dev}
cmake --preset "$preset"
cmake --build --preset "$preset"
report="build/$preset/test-report.xml"
rm -f "$report"
status=0
ctest --preset "$preset" --output-junit "$PWD/$report" "$@" || status=$?
python3 tests/support/summary.py "$report" || status=1
exit "$status"
