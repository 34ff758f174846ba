# SPDX-License-Identifier: BSD-3-Clause
# record.sh rxe|siw: what host and target record of each other over soft RDMA, beside what went over
# the wire; and what they record of a broken rule.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
nqn=nqn.2026-01.lab:record
work=$(mktemp -d)
step() { echo "-- $*"; }

target_up() { # target_up [OPTION...]
        "$NVMFSPEC" target -t rdma -a 10.0.0.2 -n "$nqn" --ns mem:64M --quiet "$@" >"$work/log" &
        target=$!
        for _ in $(seq 600); do
                grep -q listening "$work/log" && return
                sleep 0.1
        done
        return 1
}
target_down() {
        kill "$target"
        wait "$target"
}
verify() { # verify OPTION...
        timeout 60 "$NVMFSPEC" host verify -t rdma -a 10.0.0.2 -n "$nqn" --range 2M -i 2 \
                --iodepth 4 --size 16k "$@"
}
said() { # said FILE: each command, response and transfer, but for addresses and keys
        "$NVMFSPEC" pcap show "$1" 2>"$work/remarks" | sed -nE '
                s/.* (q[0-9]+) +([<>] (Command|Response|RDMA).*)/\1 \2/
                t next
                d
                :next
                s/ (at|key|invalidates) [0-9A-Fa-f]+h?//g
                p' | sort
}

wire_up
rdma_up "$1"
capture_wire "$work/wire.pcap"
dumping=$!
step "both ends of the same"
target_up --pcap "$work/target.pcapng"
verify --pcap "$work/host.pcap"
target_down
for _ in $(seq 20); do # until tcpdump has written all of it
        was=$(stat -c %s "$work/wire.pcap")
        sleep 1
        [ "$was" = "$(stat -c %s "$work/wire.pcap")" ] && break
done
kill "$dumping"
wait "$dumping" || true
for end in target.pcapng host.pcap wire.pcap; do
        "$NVMFSPEC" pcap check --all --strict "$work/$end"
        said "$work/$end" >"$work/$end.said"
done
[ "$(wc -l <"$work/host.pcap.said")" -gt 400 ]
diff -U1 "$work/host.pcap.said" "$work/target.pcapng.said" | head -40
diff -U1 "$work/host.pcap.said" "$work/wire.pcap.said" | head -40
step "replayed, and that recorded"
target_up
"$NVMFSPEC" pcap replay "$work/host.pcap" -t rdma -a 10.0.0.2 --allow-write --pcap "$work/again.pcap" |
        tee "$work/replayed"
grep -q ' 0 DIFFERENT, 0 skipped$' "$work/replayed"
"$NVMFSPEC" pcap check --all --strict "$work/again.pcap"
target_down
step "a rule broken by either"
flagged() { # flagged RULE FILE
        local out code=0
        out=$("$NVMFSPEC" pcap check "$2") || code=$?
        [ $code = 1 ] && grep -q " must $1: " <<<"$out" || { echo "$out"; return 1; }
}
target_up --violate rdma/transfer/whole-fetch --pcap "$work/spoilt.pcap"
verify --timeout 2000 >"$work/out" 2>&1 || true
target_down
flagged rdma/transfer/whole-fetch "$work/spoilt.pcap"
target_up
verify --violate rdma/sgl/subtype --pcap "$work/spoilt.pcap" >"$work/out" 2>&1 || true
target_down
flagged rdma/sgl/subtype "$work/spoilt.pcap"
rdma_down "$1"
wire_down
dmesg_clean
