# SPDX-License-Identifier: MIT
"""Every line of kernels.def has a row in nibble_bench_kernels, and rows of each instruction set run. Lines of those
that this machine or build lacks must be named as such. Usage: kernel_rows_test.py PROGRAM KERNELS_DEF"""
import re
import subprocess
import sys


def run(*options):
    return subprocess.run([sys.argv[1], *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = {f"{isa}/{kernel}" for isa, kernel in re.findall(r"^NIBBLE_CPU_KERNEL\((\w+), (\w+)\)", file.read(), re.M)}
    done = run("--benchmark_list_tests")
    listed = done.stdout.decode().replace("neon-", "neon_"), done.stderr.decode().replace("neon-", "neon_")
    rows = {"/".join(row.split("/")[:2]) for row in listed[0].split()}
    absent = {line.split(": ")[1] for line in listed[1].splitlines() if line.startswith("not here: ")}
    problems = [f"{name}: no row" for name in sorted(lines - rows - absent)]
    problems += [f"{name}: not in the list" for name in sorted((rows | absent) - lines)]
    isas = {row.split("/")[0] for row in rows}
    problems += [f"{isa}: both here and not" for isa in sorted(isas & {name.split("/")[0] for name in absent})]
    out = run("--benchmark_filter=rms_norm|gemm_f32|quantize_row|probe", "--benchmark_min_time=0.001").stdout.decode()
    problems += [line for line in out.splitlines() if "ERROR" in line]
    for row in sorted(r for r in rows if r.endswith("/gemm_f32")):
        shares = re.findall(rf"^{row}/\S* .*peak %=([0-9.e+-]+)", out, re.M)
        if len(shares) != 1 or float(shares[0]) <= 0:
            problems.append(f"{row}: no share of the peak: {shares}")
    print(f"{len(lines)} lines, {len(rows)} with rows here")
    for problem in problems:
        print(problem)
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
