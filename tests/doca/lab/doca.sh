# SPDX-License-Identifier: BSD-3-Clause
# doca.sh rxe|siw OUT: our requester against our target over soft RDMA, in each dialect; 1 GiB each way over 1, 2 and 4 contexts; a
# stop under load; the suite; and what captures of the wire, OUT/*.pcap, show of it: the connections are found by the blobs,
# each I/O message is there, and judged.
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
        grep -E "clients: .*; polls: [1-9][0-9]* hits, [0-9]+ misses$" "$work/log"
done

record() { # record NAME COMMAND...: what goes over the wire in the meantime; the exit status of COMMAND
        local name=$1 code=0
        shift
        capture_wire "$out/$name.pcap"
        dump=$!
        "$@" || code=$?
        sleep 1
        kill $dump
        wait $dump || true
        return $code
}
there_and_back() { # there_and_back [OPTION...]: 64 KiB
        ours write --blocks 128 --file "$work/data" "$@" &&
                ours read --blocks 128 --file "$work/back" "$@" &&
                cmp "$work/data" "$work/back"
}
seen() { # seen MESSAGE: how many
        awk -v message="$1" '$1 == message { print $2; exit }' "$work/count"
}
judge() { # judge NAME: a capture of that has each I/O message and its data, and nothing wrong
        local name=$1
        "$NVMFSPEC" pcap check "$out/$name.pcap" | tee "$work/check"
        grep -q ": 0 must and 0 should broken$" "$work/check"
        "$NVMFSPEC" pcap show --count "$out/$name.pcap" | tee "$work/count"
        [ "$(seen write)" = 1 ]
        [ "$(seen read)" = 1 ]
        [ "$(seen result)" = 2 ]
        grep -q "^  RDMA READ " "$work/count"
        grep -q "^  RDMA WRITE " "$work/count"
        "$NVMFSPEC" pcap stat -o json "$out/$name.pcap" >"$work/stat"
        grep -q '"command":"write","io":true,"count":1,"errors":0,"h2c_bytes":65536,"c2h_bytes":0,' "$work/stat"
        grep -q '"command":"read","io":true,"count":1,"errors":0,"h2c_bytes":0,"c2h_bytes":65536,' "$work/stat"
}
judged() { # judged NAME [OPTION...]: on the wire
        local name=$1
        shift
        step "a capture: $name"
        record "$name" there_and_back "$@"
        judge "$name"
}
flagged() { # flagged NAME [OPTION...]: a requester that breaks a rule of I/O messages is found by a capture
        local name=$1 code=0
        shift
        step "a capture of a broken rule: $name"
        record "$name" ours write --blocks 8 --pattern 7 --violate doca/io/type-service "$@" || code=$?
        [ $code = 1 ]
        code=0
        "$NVMFSPEC" pcap check "$out/$name.pcap" >"$work/check" || code=$?
        cat "$work/check"
        [ $code = 1 ]
        grep -q "service must doca/io/type-service: " "$work/check"
        grep -q ", DOCA io_control of context 0)$" "$work/check"
}

target_up --ns mem:16M
head -c 65536 /dev/urandom >"$work/data"
judged doca
flagged broken
if [ "$device" = rxe ]; then
        judged cm --cm
        flagged cm-broken --cm
        ours verify --cm --range 4M -i 2
fi

target_down
step "what the target records itself"
target_up --ns mem:16M --pcap "$out/target.pcap"
there_and_back
target_down
judge target

target_up --ns mem:16M
step "a client that vanishes"
timeout -s KILL 2 "$NVMFSPEC" host perf -t doca -a 10.0.0.2 --rw randrw --time 30 -i 2 || true
ours verify --range 1M
step "the suite"
"$NVMFSPEC" conform -t doca -a 10.0.0.2 --allow-write
target_down

moved() { # moved LOG: 1 GiB each way, by what the target says at its end
        sed -nE 's/.*clients: [0-9]+ reads \(([0-9]+) bytes\), [0-9]+ writes \(([0-9]+) bytes\), .*/\1 \2/p' "$1" |
                awk '{ found = $1 >= 1073741824 && $2 >= 1073741824 } END { exit !found }'
}
for contexts in 1 2 4; do
        step "1 GiB each way, $contexts contexts"
        target_up --ns mem:256M
        ours verify --range 256M -i $contexts --passes 5 --iodepth 16
        target_down
        grep "0 failed" "$work/log"
        moved "$work/log"
done

for i in $(seq 600); do
        [ "$(rdma resource show)" = "$baseline" ] && break
        sleep 0.1
done
[ "$(rdma resource show)" = "$baseline" ]
rdma_down "$device"
dmesg_clean
leaks_clean
