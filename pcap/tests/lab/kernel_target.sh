# SPDX-License-Identifier: BSD-3-Clause
# kernel_target.sh: a capture of the kernel's host, replayed against the kernel's nvmet-tcp.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel
captures=$root/pdu/io/tests/captures
step() { echo "-- $*"; }

replay() { # replay CAPTURE [OPTION...]
        local out
        out=$("$NVMFSPEC" pcap replay -t tcp -a 127.0.0.1 -n "$nqn" -v "$@") || { echo "$out"; return 1; }
        grep -E ' 0 DIFFERENT, 0 skipped$' <<<"$out" || { echo "$out"; return 1; }
        [ "$(grep -c '^SAME .* Write ' <<<"$out")" -ge 8 ]
        [ "$(grep -c '^SAME .* Read ' <<<"$out")" -ge 8 ]
}

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
step plain
replay "$captures/nvme-tcp-6.12.pcap" --allow-write
step digests
replay "$captures/nvme-tcp-digest-6.12.pcap" --allow-write -g -G
step "RoCEv2 as TCP"
replay "$root/pcap/tests/captures/nvme-rdma-rxe-6.12.pcap" --allow-write
nvmet_down
dmesg_clean
