# SPDX-License-Identifier: BSD-3-Clause
# rdma.sh: captures of RDMA replayed over RDMA, against our target and against the kernel's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel
captures=$root/pcap/tests/captures
work=$(mktemp -d)
step() { echo "-- $*"; }

replay() { # replay CAPTURE [OPTION...]
        local out
        out=$("$NVMFSPEC" pcap replay -t rdma -a 10.0.0.2 -n "$nqn" -v --allow-write "$@") ||
                { echo "$out"; return 1; }
        grep -E ' 0 DIFFERENT, 0 skipped$' <<<"$out" || { echo "$out"; return 1; }
}

wire_up
rdma_up rxe
step "our target"
"$NVMFSPEC" target -t rdma -a 10.0.0.2 -n "$nqn" --ns mem:64M >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 600); do
        grep -q listening "$work/log" && break
        sleep 0.1
done
grep -q listening "$work/log"
replay "$captures/nvme-rdma-rxe-6.12.pcap"
replay "$root/pdu/io/tests/captures/nvme-tcp-6.12.pcap"
kill "$pid"
wait "$pid"
step "the kernel's target"
nvmet_up rdma 10.0.0.2 "$nqn" /dev/ram0
replay "$captures/nvme-rdma-rxe-6.12.pcap"
replay "$captures/nvme-rdma-siw-6.12.pcap"
nvmet_down
dmesg_clean
