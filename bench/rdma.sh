#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rdma.sh [ROUNDS] [SECONDS]: IOPS of the kernel's host over soft RDMA against our target and against the
# kernel's own, side by side in the lab's guest, in turns; ratio of the medians. Both serve memory.
#
#       ci/lab --timeout 600 -- env KIND=rxe bash bench/rdma.sh
#
# OPTIONS are our target's; STRACE=1 counts its system calls for each case instead.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
. "$root/ci/lab.d/net.sh"
kind=${KIND:-rxe}
rounds=${1:-3}
seconds=${2:-3}
nvmfspec=${NVMFSPEC:-$root/build/nvmfspec}
ours=nqn.2026-01.io.nvmfspec:bench
theirs=nqn.2026-01.io.nvmfspec:kernel
work=$(mktemp -d)

wire_up
rdma_up "$kind"
load brd nvme-rdma
[ -b /dev/ram0 ] || modprobe brd rd_nr=1 rd_size=65536
nvmet_up rdma 10.0.0.2 "$theirs" /dev/ram0 4421
# shellcheck disable=SC2086
"$nvmfspec" target -t rdma -a 10.0.0.2 -n "$ours" --ns mem:64M ${OPTIONS-} >"$work/target.log" 2>&1 &
target=$!
for _ in $(seq 50); do grep -q listening "$work/target.log" && break; sleep 0.1; done
nvme connect -t rdma -a 10.0.0.2 -s 4420 -n "$ours" -i 1
nvme connect -t rdma -a 10.0.0.2 -s 4421 -n "$theirs" -i 1
our_dev=$(nvdev "$ours")
their_dev=$(nvdev "$theirs")

fio_iops() { # DEVICE RW QD
        fio --name=x --filename="$1" --rw="$2" --bs=4k --iodepth="$3" --ioengine=libaio --direct=1 \
                --size=16M --time_based --runtime="$seconds" --output-format=json |
                python3 -c 'import json, sys; j = json.load(sys.stdin)["jobs"][0]
print(int(j["read"]["iops"] + j["write"]["iops"]))'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# Written once, so that no page is touched for the first time later.
for dev in "$our_dev" "$their_dev"; do
        dd if=/dev/zero of="$dev" bs=1M count=16 oflag=direct status=none
done
for rw in randread randwrite; do
        for qd in 1 32; do
                if [ -n "${STRACE-}" ]; then
                        strace -f -c -o "$work/calls" -p "$target" 2>/dev/null &
                        tracer=$!
                        sleep 0.5
                        n=$(fio_iops "$our_dev" "$rw" "$qd")
                        kill -INT $tracer
                        wait $tracer || true
                        echo "$kind $rw QD $qd: $((n * seconds)) commands"
                        head -12 "$work/calls"
                        continue
                fi
                : >"$work/ours"
                : >"$work/theirs"
                for _ in $(seq "$rounds"); do
                        fio_iops "$their_dev" "$rw" "$qd" >>"$work/theirs"
                        fio_iops "$our_dev" "$rw" "$qd" >>"$work/ours"
                done
                a=$(median <"$work/ours") b=$(median <"$work/theirs")
                awk -v k="$kind" -v w="$rw" -v q="$qd" -v a="$a" -v b="$b" -v x="$(paste -sd' ' "$work/ours")" \
                        -v y="$(paste -sd' ' "$work/theirs")" \
                        'BEGIN { printf "%s %s QD %-2d  ours %6d  nvmet %6d  ratio %.2f   (%s | %s)\n", k, w, q, a, b, a / b, x, y }'
        done
done
nvme disconnect-all
kill -TERM "$target"
wait "$target"
