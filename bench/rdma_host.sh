#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rdma_host.sh [ROUNDS] [SECONDS]: IOPS of our host and of the kernel's over soft RDMA, both against the
# kernel's target, side by side in the lab's guest, in turns; medians. The guest has one processor: who
# polls it takes it from the devices' threads, so ours is shown both ways.
#
#       ci/lab --timeout 600 -- env KIND=rxe bash bench/rdma_host.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
. "$root/ci/lab.d/net.sh"
kind=${KIND:-rxe}
rounds=${1:-3}
seconds=${2:-2}
nvmfspec=${NVMFSPEC:-$root/build/nvmfspec}
nqn=nqn.2026-01.io.nvmfspec:kernel

wire_up
rdma_up "$kind"
nvmet_up rdma 10.0.0.2 "$nqn" /dev/ram0
nvme connect -t rdma -a 10.0.0.2 -n "$nqn" -i 1
device=$(nvdev "$nqn")

kernel() { # RW BS QD
        fio --name=x --filename="$device" --rw="$1" --bs="$2" --iodepth="$3" --direct=1 \
                --ioengine="$([ "$3" = 1 ] && echo psync || echo libaio)" --time_based \
                --runtime="$seconds" --output-format=json 2>/dev/null |
                python3 -c 'import json, sys; j = json.load(sys.stdin)["jobs"][0]
print(int(j["read"]["iops"] + j["write"]["iops"]))'
}
ours() { # RW BS QD [OPTION]
        "$nvmfspec" host perf -t rdma -a 10.0.0.2 -n "$nqn" --rw "$1" --bs "$2" --iodepth "$3" \
                --time "$seconds" -o json "${@:4}" |
                python3 -c 'import json, sys; j = json.load(sys.stdin)
print(int(j["read"]["iops"] + j["write"]["iops"]))'
}
median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

printf '%s, %s rounds\n%-18s %8s %8s %8s %7s\n' "$kind" "$rounds" "" kernel sleeps polls ratio
for row in "randread 4k 1" "randread 4k 32" "randread 4k 128" "randwrite 4k 1" "randwrite 4k 32" \
        "randread 128k 8" "randwrite 128k 8"; do
        for i in $(seq "$rounds"); do
                # shellcheck disable=SC2086
                echo "$(kernel $row) $(ours $row --no-busy-poll) $(ours $row)"
        done >/tmp/rows
        for column in 1 2 3; do
                cut -d ' ' -f $column /tmp/rows | median
        done | paste -sd ' ' | awk -v row="$row" '{
                printf "%-18s %8d %8d %8d %7.2f\n", row, $1, $2, $3, ($2 > $3 ? $2 : $3) / $1 }'
done
