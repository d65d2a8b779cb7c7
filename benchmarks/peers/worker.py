# SPDX-License-Identifier: MIT
"""What the peers' programs share. Each is a process of its own, since a peer may crash, and prints one JSON object:
rates of every repetition, seconds of loading, peak memory, and what it is. pp = one batch of -p random tokens into an
empty cache, logits of the last; tg = -n single tokens after one. Times of prefill() and decode() are in seconds.
Exit code 3 and a message on stderr: the peer cannot load this model."""
import argparse
import json
import resource
import sys
import time


class CannotLoad(Exception):
    pass


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-r", type=int, default=3)
    parser.add_argument("--variant", default="")
    return parser.parse_args()


def main(peer_type):
    options = arguments()
    start = time.perf_counter()
    try:
        peer = peer_type(options)
    except CannotLoad as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    load = time.perf_counter() - start
    peer.prefill(min(options.p, 32))  # warm-up
    peer.decode(2)
    prefill = [options.p / peer.prefill(options.p) for _ in range(options.r)]
    decode = [options.n / peer.decode(options.n) for _ in range(options.r)]
    print(json.dumps({"info": peer.info, "prefill": prefill, "decode": decode, "load_seconds": load,
                      "peak_rss_bytes": peak_rss_bytes()}))
    sys.stdout.flush()
