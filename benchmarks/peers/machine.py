# SPDX-License-Identifier: MIT
"""What machine this is, and whether anything else runs on it."""
import os
import platform
import time

BUSY_LIMIT, STEAL_LIMIT = 0.05, 0.02  # shares of all processors' time


def cpu_times():
    """Seconds of all processors together: busy (without steal), stolen by the host, all."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(x) / os.sysconf("SC_CLK_TCK") for x in file.readline().split()[1:9]]
    user, nice, system, idle, wait, irq, soft, steal = fields
    return user + nice + system + irq + soft, steal, sum((user, nice, system, idle, wait, irq, soft, steal))


class Watch:
    """Shares of the machine that others (all but one child) and the host took between two moments."""

    def __init__(self):
        self.start = cpu_times()

    def shares(self, own_seconds=0.0):
        busy, steal, total = (b - a for a, b in zip(self.start, cpu_times()))
        total = max(total, 1e-9)
        return {"others": max(0.0, busy - own_seconds) / total, "steal": steal / total}


def disturbed(shares):
    return shares["others"] > BUSY_LIMIT or shares["steal"] > STEAL_LIMIT


def wait_until_idle(seconds):
    """True once one second passes with no more than BUSY_LIMIT of the machine in use; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        watch = Watch()
        time.sleep(1)
        if not disturbed(watch.shares()):
            return True
        if time.monotonic() >= deadline:
            return False


def describe():
    facts = {}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    wanted = ("avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8")
    flags = set(facts.get("flags", "").split())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": facts.get("model name", platform.processor()),
            "family_model": f"{facts.get('cpu family', '?')}/{facts.get('model', '?')}",
            "processors": len(os.sched_getaffinity(0)), "flags": [f for f in wanted if f in flags],
            "memory_bytes": memory, "system": f"{platform.system()} {platform.release()}",
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
