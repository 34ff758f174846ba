# SPDX-License-Identifier: BSD-3-Clause
# doca.sh rxe|siw OUT: our requester against our target over soft RDMA, in each dialect; 1 GiB each way over 1, 2 and 4 contexts; a
# stop under load; the suite; and what a capture of the wire, OUT/doca.pcap, shows of it: over rxe the queue pairs are found by
# the blobs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
device=$1 out=$2 work=$(mktemp -d)
step() { echo "-- $*"; }
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        timeout 120 "$NVMFSPEC" host "$sub" -t doca -a 10.0.0.2 "$@"
}
target_up() { # target_up [OPTION...]
        : >"$work/log" # what the last one said is no word of this one
        "$NVMFSPEC" target -t doca -a 10.0.0.2 "$@" >"$work/log" 2>&1 &
        target=$!
        for i in $(seq 600); do
                ! grep -q listening "$work/log" || break
                sleep 0.1
        done
        grep -q "listening on doca:10.0.0.2:4421$" "$work/log"
}
target_down() {
        kill $target
        wait $target
}

wire_up
rdma_up "$device"
baseline=$(rdma resource show)
for dialect in 2.10 3.0 3.1 3.2; do
        step "dialect $dialect"
        target_up --dialect $dialect --ns mem:64M
        ours verify --dialect $dialect --range 4M -i 3
        ours perf --dialect $dialect --rw randrw --time 1 -i 2
        target_down
        grep "0 failed" "$work/log"
done

step "a capture"
target_up --ns mem:16M
capture_wire "$out/doca.pcap"
head -c 65536 /dev/urandom >"$work/data"
ours write --blocks 128 --file "$work/data"
ours read --blocks 128 --file "$work/back"
cmp "$work/data" "$work/back"
sleep 1
"$NVMFSPEC" pcap check "$out/doca.pcap" | tee "$work/check"
grep -q ": 0 must and 0 should broken" "$work/check"
"$NVMFSPEC" pcap show "$out/doca.pcap" >"$work/show"
if [ "$device" = rxe ]; then
        grep -q "DOCA io_control of context 0\|write user_data" "$work/show"
        grep -q "RDMA READ" "$work/show"
        ours verify --cm --range 4M -i 2
fi

step "a client that vanishes"
timeout -s KILL 2 "$NVMFSPEC" host perf -t doca -a 10.0.0.2 --rw randrw --time 30 -i 2 || true
ours verify --range 1M
step "the suite"
"$NVMFSPEC" conform -t doca -a 10.0.0.2 --allow-write
target_down

for contexts in 1 2 4; do
        step "1 GiB each way, $contexts contexts"
        target_up --ns mem:256M
        ours verify --range 256M -i $contexts --passes 4 --iodepth 16
        target_down
        grep "0 failed" "$work/log"
done

for i in $(seq 600); do
        [ "$(rdma resource show)" = "$baseline" ] && break
        sleep 0.1
done
[ "$(rdma resource show)" = "$baseline" ]
rdma_down "$device"
dmesg_clean
leaks_clean
