# SPDX-License-Identifier: BSD-3-Clause
"""Figures of TLS in the lab's guest: a part of bench.py. Only ratios mean anything (rdma.py)."""
import collections
import re
import statistics

from rdma import BUILD, ROOT, guest


def ratio(above, below):
    return statistics.median(a / b for a, b in zip(above, below))


def tls(runs, seconds):
    """The kernel's host against our target and the kernel's, whose TLS is the kernel's own, and both without."""
    out = guest(ROOT / "bench/lab/tls.sh", BUILD / "nvmfspec", runs, max(1, int(seconds)), options=["--tls"])
    iops = collections.defaultdict(list)
    for whose, how, depth, n in re.findall(r"^(\w+) (\w+) (\d+) (\d+)$", out, re.M):
        iops[whose, how, depth].append(int(n))
    for depth in "1", "32":
        ours, theirs, plain, their_plain = (iops[whose, how, depth] for how in ("tls", "plain")
                                            for whose in ("ours", "theirs"))
        ktls = iops["ours", "ktls", depth]
        print(f"randread 4 KiB QD {depth} over TLS: {statistics.median(ours):.0f} IOPS; ratio to nvmet over TLS "
              f"{ratio(ours, theirs):.2f}, with --ktls {ratio(ktls, theirs):.2f}; to ours without {ratio(ours, plain):.2f}; without, ours to nvmet's "
              f"{ratio(plain, their_plain):.2f}; nvmet's own over TLS to without {ratio(theirs, their_plain):.2f}")
