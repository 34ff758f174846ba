# SPDX-License-Identifier: BSD-3-Clause
# own_target_rdma.sh rxe|siw: our host against our target over soft RDMA; and what the target says
# when the host breaks a rule.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
nqn=nqn.2026-01.lab:own
work=$(mktemp -d)
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        timeout 60 "$NVMFSPEC" host "$sub" -t rdma -a 10.0.0.2 "$@"
}
step() { echo "-- $*"; }

wire_up
rdma_up "$1"
ip address add fe80::2/64 dev v1
for i in $(seq 600); do # an address is no good before nobody else claims it
        [ -n "$(ip -6 address show tentative)" ] || break
        sleep 0.1
done
baseline=$(rdma resource show)
"$NVMFSPEC" target -t rdma -a 10.0.0.2 -s 4420 -n "$nqn" --ns mem:64M --listen "[fe80::2%v1]:4420" \
        >"$work/log" 2>&1 &
target=$!
for i in $(seq 600); do
        grep -q listening "$work/log" && break
        sleep 0.1
done
grep -q listening "$work/log"

step "discover at a link-local address, first of all: that is when the device is opened"
timeout 60 "$NVMFSPEC" host discover -t rdma -a fe80::2%v0 | grep -q fe80::2
step discover
ours discover >"$work/disc"
case $1 in
rxe) grep -q "rdma_prtype: roce-v2" "$work/disc" ;;
siw) grep -q "rdma_prtype: iwarp" "$work/disc" ;;
esac
step "stay, kept alive"
stays() { # 124 of timeout: it was still there
        local status=0
        timeout -s INT 3 "$NVMFSPEC" host discover -t rdma -a 10.0.0.2 --persistent -k 1 >/dev/null || status=$?
        [ $status = 124 ]
}
stays || { echo "try 1 of 3 failed" >&2; stays; } || { echo "try 2 of 3 failed" >&2; stays; }
step verify
ours verify -n "$nqn" --range 8M -i 4
ours verify -n "$nqn" --range 2M -i 2 --command-buffers --seed 2 -Q 33
ours verify -n "$nqn" --range 1M -i 3 --size 4k --iodepth 100 --seed 3
ours perf -n "$nqn" --rw randrw --time 1 -i 2 --no-busy-poll

# breaks RULE STATUS WORDS: so ends a load that breaks the rule.
breaks() {
        local status=0 said
        said=$(ours perf -n "$nqn" --rw randwrite --bs 8k --iodepth 4 --time 1 --timeout 5000 \
                --violate "$1" 2>&1) || status=$?
        echo "$1: $said" | tail -1
        [ $status = "$2" ] && grep -q "$3" <<<"$said"
}
step rules
closed="controller closed the connection"
breaks rdma/request/recfmt 3 "rejected the connection: invalid RECFMT"
breaks rdma/request/hsqsize 3 "rejected the connection: invalid HSQSIZE"
breaks rdma/capsule/length 3 "$closed"
breaks rdma/capsule/size 3 "$closed"
breaks rdma/capsule/cid 1 "Command ID Conflict"
breaks rdma/sgl/type 1 "SGL Descriptor Type Invalid"
breaks rdma/key/valid 3 "$closed"

kill $target
wait $target
for i in $(seq 600); do
        [ "$(rdma resource show)" = "$baseline" ] && break
        sleep 0.1
done
[ "$(rdma resource show)" = "$baseline" ]
rdma_down "$1"
dmesg_clean
leaks_clean
