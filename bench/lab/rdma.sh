# SPDX-License-Identifier: BSD-3-Clause
# rdma.sh NVMFSPEC rxe|siw ROUNDS SECONDS [OTHER]: 4 KiB random reads and writes by the kernel's host, at
# the kernel's target, or that of another build, and at ours by turns, in one guest: prints
# "ours|theirs randread|randwrite QUEUE_DEPTH IOPS" lines.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../ci/lab.d/net.sh"
. "$here/../../ci/lab.d/nvmet.sh"
nvmfspec=$1 kind=$2 rounds=$3 seconds=$4 other=${5:-}
nqn=nqn.2026-01.io.nvmfspec:bench
declare -A device

connect() { # WHOSE PORT
        nvme connect -t rdma -a 10.0.0.2 -s "$2" -n "$nqn-$1" -i 1 >&2
        device[$1]=$(nvdev "$nqn-$1")
}

iops() { # WHOSE READ_OR_WRITE QUEUE_DEPTH
        local field=8
        [ "$2" = randread ] || field=49
        fio --name=bench --filename="${device[$1]}" --rw="$2" --bs=4k --direct=1 --size=16M \
                --ioengine=libaio --iodepth="$3" --time_based --runtime="$seconds" \
                --output-format=terse | cut -d';' -f$field
}

target() { # PROGRAM WHOSE PORT
        "$1" target -t rdma -a 10.0.0.2 -s "$3" -n "$nqn-$2" --ns mem:64M >/dev/null &
}

wire_up
rdma_up "$kind"
if [ "$other" ]; then
        target "$other" theirs 4500
else
        nvmet_up rdma 10.0.0.2 "$nqn-theirs" /dev/ram0 4500
fi
target "$nvmfspec" ours 4420
sleep 1
connect theirs 4500
connect ours 4420
for whose in theirs ours; do # no page is touched for the first time later
        dd if=/dev/zero of="${device[$whose]}" bs=1M count=16 oflag=direct status=none
done
for round in $(seq "$rounds"); do # whoever is second is 2 to 4 % slower
        pair='theirs ours'
        [ $((round % 2)) = 1 ] || pair='ours theirs'
        for rw in randread randwrite; do
                for depth in 1 32; do
                        for whose in $pair; do
                                echo "$whose $rw $depth $(iops "$whose" $rw $depth)"
                        done
                done
        done
done
