# SPDX-License-Identifier: BSD-3-Clause
"""Figures of TLS in the lab's guest: a part of bench.py. Only ratios mean anything (rdma.py)."""
import collections
import itertools
import re
import statistics

from rdma import BUILD, ROOT, guest

NAMES = {"plain": "plain", "aes128": "AES-128-GCM", "aes256": "AES-256-GCM", "ktls": "AES-128-GCM --ktls"}


def ratio(above, below):
    return statistics.median(a / b for a, b in zip(above, below))


def row(iops, load, how, depth):
    """IOPS at our target and at nvmet; ours to nvmet's, and what TLS leaves of each one's own plain."""
    ours, theirs, plain, their_plain = (iops[load, target, kind, depth] for kind in (how, "plain")
                                        for target in ("ours", "kernel"))
    cells = [f"{statistics.median(n) / 1000:9.1f}" for n in (ours, theirs)] + [f"{ratio(ours, theirs):9.2f}"]
    if how != "plain":
        cells += [f"{ratio(ours, plain):16.2f}", f"{ratio(theirs, their_plain):7.2f}"]
    return f"{load:7}  QD {depth:2}  {NAMES[how]:18}" + "".join(cells)


def tls(runs, seconds):
    """The kernel's host and ours against our target and the kernel's, whose TLS is the kernel's own, and both plain."""
    out = guest(ROOT / "bench/lab/tls.sh", BUILD / "nvmfspec", runs, max(1, int(seconds)), options=["--tls"])
    iops = collections.defaultdict(list)
    for *key, n in re.findall(r"^(\w+) (\w+) (\w+) (\d+) (\d+)$", out, re.M):
        iops[tuple(key)].append(int(n))
    print("\ntls: randread 4 KiB in the lab's guest, thousand IOPS, medians; ratios of pairs run by turns")
    print(f"{'load':7}  depth  {'TLS':18}" + "".join(f"{c:>9}" for c in ("ours", "nvmet", "ratio")) +
          "  to plain: ours  nvmet")
    for load, depth, how in itertools.product(("kernel", "ours"), ("1", "32"), NAMES):
        print(row(iops, load, how, depth))
