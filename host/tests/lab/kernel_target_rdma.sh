# SPDX-License-Identifier: BSD-3-Clause
# kernel_target_rdma.sh rxe|siw: our host's commands against the kernel's nvmet-rdma.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
device=$1
nqn=nqn.2026-01.lab:kernel
work=$(mktemp -d)
where=(-t rdma -a 10.0.0.2)
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        "$NVMFSPEC" host "$sub" "${where[@]}" "$@"
}
step() { echo "-- $*"; }

fails_with() { # fails_with STATUS WORDS COMMAND...
        local want=$1 words=$2 status=0 said
        shift 2
        said=$("$@" 2>&1) || status=$?
        [ "$status" = "$want" ] && grep -q "$words" <<<"$said" && [ "$(wc -l <<<"$said")" = 1 ] && return
        echo "status $status, not $want with '$words': $said" >&2
        return 1
}

step no device
wire_up
fails_with 3 "no RDMA device" ours list -n "$nqn"
rdma_up "$1"
step nobody listens
fails_with 3 "no listener\|Connection refused" ours list -n "$nqn" --timeout 5000
nvmet_up rdma 10.0.0.2 "$nqn" /dev/ram0
baseline=$(resources)

step discover
ours discover | tee "$work/disc"
grep -q "subnqn: *$nqn" "$work/disc"
grep -q "trtype: *rdma" "$work/disc"
grep -q "rdma_cms: *rdma-cm" "$work/disc"
fails_with 1 "Connect of queue 0" ours list -n "$nqn:other"
where+=(-n "$nqn")
step identify
ours identify -o json >"$work/id.json"
grep -q "$nqn" "$work/id.json"
ours list
"$NVMFSPEC" host list "nvme+rdma://10.0.0.2:4420/$nqn" >/dev/null
ours get-log smart >/dev/null
step "write, read back, compare"
dd if=/dev/urandom of="$work/pat" bs=4k count=8 status=none
ours write -N 1 --slba 0 --blocks 64 --file "$work/pat"
ours read -N 1 --slba 0 --blocks 64 --file "$work/back"
cmp "$work/pat" "$work/back"
cmp -n 32768 "$work/pat" /dev/ram0
ours flush -N 1
ours zeroes -N 1 --slba 0 --blocks 8
step verify
ours verify -N 1 --range 8M --passes 1 -i 1
ours verify -N 1 --range 8M --passes 1 -i 4 --command-buffers --seed 2
ours verify -N 1 --range 1M --passes 2 -i 3 --size 4k --iodepth 100 --seed 3
step perf
ours perf --rw randrw --bs 4k --iodepth 32 --time 1 -i 1
ours perf --rw randrw --bs 64k --iodepth 4 --time 1 -i 4 --no-busy-poll
ours perf --rw randwrite --bs 512 --iodepth 32 --time 1 -i 2 --cpu 0
resources_back_to "$baseline"

step reconnects
for i in $(seq 50); do
        ours read -N 1 --file /dev/null
done
resources_back_to "$baseline"

step "a target that goes away"
ours perf --rw randread --time 20 >"$work/perf" 2>&1 &
perf=$!
sleep 1
rm "$nvmet/ports/1/subsystems/$nqn"
status=0
wait $perf || status=$?
cat "$work/perf"
[ $status = 3 ]
baseline=${baseline%%;*} # without subsystems nobody listens
resources() { rdma resource show "${device}0" | sed -E 's/^[0-9]+: //'; }
resources_back_to "$baseline"
nvmet_down
rdma_down "$1"
wire_down
dmesg_clean
leaks_clean
