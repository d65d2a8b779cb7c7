#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nibble and its peers on the same files, in turns on one machine: llama.cpp (with repacked weights and plain),
OpenVINO GenAI and CTranslate2, as far as each loads the file.

    python3 benchmarks/peers/run.py MODEL.gguf... [-p 512] [-n 64] [-t 2] [-r 3] [--rounds 3] [--out build/peers]

Every run of every engine is a process of its own, and rounds alternate A B C A B C, so that a machine that slows
down slows all; a peer that crashes or cannot load a file is named with the reason. pp: one batch of -p random tokens
into an empty cache, logits of the last. tg: -n single tokens after one. Each process warms up, then repeats -r
times; medians of all rounds are compared. Before each run the machine must be idle for a second, and what others or
the host took during it is recorded: rows with more than 5 % (2 % steal) are marked.

Peers are installed into --venv (created where missing: minutes, since llama.cpp is built for this machine), or
taken from --python. Writes results.json, results.md and roofline.svg to --out and prints the Markdown.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import machine
import roofline

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENGINES = {  # name: (program, variant); the packages it needs are in PACKAGES
    "llama.cpp": ("llama_cpp_peer.py", "repack"),
    "llama.cpp plain": ("llama_cpp_peer.py", "plain"),
    "OpenVINO": ("openvino_peer.py", ""),
    "CTranslate2": ("ctranslate2_peer.py", ""),
}
PACKAGES = [["llama-cpp-python==0.3.36"], ["openvino-genai", "ctranslate2", "gguf", "numpy"]]


def interpreter(o):
    """The peers' Python; installs them first where --venv lacks them."""
    if o.python:
        return o.python
    venv = pathlib.Path(o.venv)
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    marker = venv / "peers-installed"
    if not marker.exists():
        for packages in PACKAGES:
            environment = {**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON"}
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True, env=environment)
        marker.touch()
    return str(python)


def last_line(output):
    return (output.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1][:160]


def run_process(command, o):
    """Output of one engine's process with its use of the machine, or the reason why there is none."""
    idle = machine.wait_until_idle(o.wait)
    if not idle and o.require_idle:
        sys.exit("the machine is not idle; nothing is measured (drop --require-idle to measure anyway)")
    processors = sorted(os.sched_getaffinity(0))[:o.t]
    watch, before = machine.Watch(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=o.timeout, check=False,
                              preexec_fn=lambda: os.sched_setaffinity(0, processors))
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {o.timeout} s"}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    use = watch.shares(own)
    if done.returncode < 0:
        return {"failed": f"crashed (signal {-done.returncode})", "use": use}
    if done.returncode != 0:
        return {"failed": ("cannot load: " if done.returncode == 3 else "failed: ") + last_line(done.stderr), "use": use}
    return {"output": json.loads(done.stdout.decode().strip().splitlines()[-1] if command[0] != o.nibble
                                 else done.stdout.decode()), "use": use, "idle_before": idle}


def run_nibble(path, o):
    r = run_process([o.nibble, "bench", path, "-p", str(o.p), "-n", str(o.n), "-t", str(o.t), "-r", str(o.r),
                     "--format", "json"], o)
    if "output" in r:
        out = r["output"]
        r["bench"] = out
        r["output"] = {"info": f"nibble, {out['isa']}", "prefill": out["prefill_repetitions"],
                       "decode": out["decode_repetitions"], "load_seconds": out["load_seconds"],
                       "peak_rss_bytes": out["peak_rss_bytes"]}
    return r


def run_peer(name, path, python, scratch, o):
    program, variant = ENGINES[name]
    if name == "CTranslate2":  # converts each file once, in a process whose time and memory do not count
        variant = os.path.join(scratch, pathlib.Path(path).stem)
        if not os.path.exists(variant):
            os.makedirs(variant)
            done = subprocess.run([python, str(HERE / program), path, "--convert", variant], stderr=subprocess.PIPE,
                                  check=False)
            if done.returncode != 0:
                return {"failed": "cannot convert: " + last_line(done.stderr)}
    return run_process([python, str(HERE / program), path, "-p", str(o.p), "-n", str(o.n), "-t", str(o.t),
                        "-r", str(o.r), "--variant", variant], o)


def summarize(runs):
    """One engine's rounds on one model as one row, or why there is none."""
    good = [r for r in runs if "output" in r]
    row = {"rounds": len(good), "failures": sorted({r["failed"] for r in runs if "failed" in r})}
    if not good:
        return row
    row["info"] = good[0]["output"]["info"]
    for phase in "prefill", "decode":
        rates = [x for r in good for x in r["output"][phase]]
        row[phase] = {"median": statistics.median(rates), "best": max(rates), "worst": min(rates),
                      "deviation": statistics.stdev(rates) if len(rates) > 1 else 0.0}
    row["peak_rss_bytes"] = max(r["output"]["peak_rss_bytes"] for r in good)
    row["load_seconds"] = statistics.median(r["output"]["load_seconds"] for r in good)
    row["others"] = max(r["use"]["others"] for r in good)
    row["steal"] = max(r["use"]["steal"] for r in good)
    row["disturbed"] = any(machine.disturbed(r["use"]) or not r["idle_before"] for r in good)
    return row


def matrix_ops(nibble, path):
    """Multiplications and additions with weights per token: in all layers, and in the head."""
    done = subprocess.run([nibble, "inspect", path, "--format", "json"], check=True, stdout=subprocess.PIPE)
    layers = head = 0
    seen = json.loads(done.stdout)
    for t in seen["tensors"]:
        shape = [int(n) for n in t["shape"].split(" x ")] if " x " in t["shape"] else []
        if len(shape) < 2:
            continue
        weights = shape[0] * shape[1]
        if t["name"] == "output.weight" or (t["name"] == "token_embd.weight" and head == 0):
            head = 2 * weights
        else:
            layers += 2 * weights
    return layers, head, seen["file_bytes"]


def measure(path, o, python, scratch):
    names = ["nibble"] + o.peers
    runs = {name: [] for name in names}
    for i in range(o.rounds):
        for name in names:
            failed = runs[name] and all("failed" in r for r in runs[name])
            if i > 0 and failed:
                continue  # it will not load in the next round either
            runs[name].append(run_nibble(path, o) if name == "nibble" else run_peer(name, path, python, scratch, o))
            state = runs[name][-1].get("failed", "done")
            print(f"{pathlib.Path(path).name}: round {i + 1}, {name}: {state}", file=sys.stderr, flush=True)
    layers, head, file_bytes = matrix_ops(o.nibble, path)
    result = {"model": pathlib.Path(path).name, "file_bytes": file_bytes, "layer_ops": layers, "head_ops": head,
              "rows": {name: summarize(r) for name, r in runs.items()}, "runs": runs}
    benches = [r["bench"] for r in runs["nibble"] if "bench" in r]
    if benches:
        best = lambda key: max(b[key] for b in benches)
        keys = ("integer_ops_per_s", "bfloat_ops_per_s", "float_ops_per_s", "read_bytes_per_s")
        result["rates"] = {k: best(k) for k in keys}
    return result


def peak(rates):
    return max(rates["integer_ops_per_s"], rates["bfloat_ops_per_s"])


def shares(result, row, o):
    """Shares of the roofline: prefill of the peak of 8-bit dot products or of BF16 tiles, whichever is higher, decoding
    of the read rate at the file's size. The same work is counted for every engine: each weight once a token, the file
    once a decoded token."""
    if "rates" not in result or "prefill" not in row:
        return None, None
    prefill_ops = result["layer_ops"] + result["head_ops"] / o.p
    return (row["prefill"]["median"] * prefill_ops / peak(result["rates"]),
            row["decode"]["median"] * result["file_bytes"] / result["rates"]["read_bytes_per_s"])


def markdown(results, facts, o):
    lines = [f"{facts['processor']} ({facts['family_model']}), {facts['processors']} processors, "
             f"{facts['memory_bytes'] / 2**30:.0f} GiB, {', '.join(facts['flags'])}; {facts['date']}.",
             f"{o.t} threads, {o.rounds} rounds of {o.r} repetitions; medians (worst - best), tokens/s.", ""]
    infos = dict.fromkeys(row["info"] for r in results for row in r["rows"].values() if "info" in row)
    lines += ["Engines: " + "; ".join(infos) + ".", ""]
    for result in results:
        lines += [f"**{result['model']}**, {result['file_bytes'] / 1e6:.0f} MB" +
                  (f"; peak {peak(result['rates']) / 1e9:.0f} Gop/s, reads "
                   f"{result['rates']['read_bytes_per_s'] / 1e9:.1f} GB/s" if "rates" in result else ""), "",
                  f"| engine | pp{o.p} | of peak | nibble is | tg{o.n} | of read rate | nibble is | peak RSS MB | load s |",
                  "|---|---|---|---|---|---|---|---|---|"]
        own = result["rows"]["nibble"]
        for name, row in result["rows"].items():
            if "prefill" not in row:
                lines.append(f"| {name} | {'; '.join(row['failures'])} | | | | | | | |")
                continue
            cells = []
            for phase, share in zip(("prefill", "decode"), shares(result, row, o)):
                v = row[phase]
                digits = 0 if v["median"] >= 100 else 1
                ratio = f"{own[phase]['median'] / v['median']:.2f}x" if name != "nibble" and phase in own else ""
                cells += [f"{v['median']:.{digits}f} ({v['worst']:.{digits}f} - {v['best']:.{digits}f})",
                          f"{100 * share:.1f} %" if share is not None else "", ratio]
            mark = " *" if row["disturbed"] else ""
            lines.append(f"| {name}{mark} | " + " | ".join(cells) +
                         f" | {row['peak_rss_bytes'] / 1e6:.0f} | {row['load_seconds']:.2f} |")
            lines += [f"| {name}, other rounds | {failure} | | | | | | | |" for failure in row["failures"]]
        lines.append("")
    if any(row.get("disturbed") for r in results for row in r["rows"].values()):
        lines += ["\\* Others used more than 5 % of the machine, or the host took more than 2 %: not for quoting.", ""]
    return "\n".join(lines)


def panels(results, o):
    models = []
    for r in results:
        if "rates" not in r:
            continue
        points = []
        for name, row in r["rows"].items():
            if "prefill" in row:
                prefill, decode = r["layer_ops"] + r["head_ops"] / o.p, r["layer_ops"] + r["head_ops"]
                points.append((name, "prefill", prefill * o.p / r["file_bytes"], row["prefill"]["median"] * prefill / 1e9))
                points.append((name, "decode", decode / r["file_bytes"], row["decode"]["median"] * decode / 1e9))
        models.append({"title": r["model"], "bandwidth": r["rates"]["read_bytes_per_s"] / 1e9,
                       "integer": peak(r["rates"]) / 1e9,
                       "peak_name": "BF16 tiles" if r["rates"]["bfloat_ops_per_s"] > r["rates"]["integer_ops_per_s"]
                                    else "8-bit dot product",
                       "float": r["rates"]["float_ops_per_s"] / 1e9,
                       "points": points})
    return models


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", type=int, default=512, help="tokens of prefill")
    parser.add_argument("-n", type=int, default=64, help="tokens of decoding")
    parser.add_argument("-t", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    parser.add_argument("-r", type=int, default=3, help="repetitions a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(ENGINES), help="of " + ", ".join(ENGINES) + "; empty: none")
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    parser.add_argument("--venv", default=str(ROOT / "build/peers/venv"), help="where the peers are, or get installed")
    parser.add_argument("--python", help="an interpreter that has them already")
    parser.add_argument("--out", default=str(ROOT / "build/peers"))
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait for an idle machine before each run")
    parser.add_argument("--require-idle", action="store_true", help="end where it does not become idle")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a process may take")
    o = parser.parse_args()
    o.peers = [p for p in o.peers.split(",") if p]
    if unknown := set(o.peers) - set(ENGINES):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    return o


def main():
    o = arguments()
    python = interpreter(o) if o.peers else sys.executable
    facts = machine.describe()
    with tempfile.TemporaryDirectory() as scratch:
        results = [measure(path, o, python, scratch) for path in o.models]
    out = pathlib.Path(o.out)
    out.mkdir(parents=True, exist_ok=True)
    text = markdown(results, facts, o)
    (out / "results.md").write_text(text + "\n", encoding="utf-8")
    everything = {"machine": facts, "command": sys.argv, "results": results}
    (out / "results.json").write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    if models := panels(results, o):
        (out / "roofline.svg").write_text(roofline.draw(models), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
