# SPDX-License-Identifier: BSD-3-Clause
# srp.sh rxe|siw kernel|own: our initiator's commands against the kernel's SRP target (ib_srpt, LIO), or our own one; then
# LOGINS (3) times more.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
. "$lab/srpt.sh"
device=$1 whose=$2 port=5555
work=$(mktemp -d)
where=(-t srp -a 10.0.0.2 -s $port)
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        "$NVMFSPEC" host "$sub" "${where[@]}" "$@"
}
step() { echo "-- $*"; }

# Forms of data, and what `pcap show` says of them; LIO refuses tables that are not all in SRP_CMD.
forms=("direct" "indirect --pieces 7" "immediate")
shown=("out [0-9]+ direct" "out [0-9]+ indirect, 7 of 7 entries in line" "out [0-9]+ immediate")

wire_up
rdma_up "$device"
empty=$(resources)
case $whose in
kernel)
        srpt_up $port "${device}1"
        where+=(--target-id "$(srpt_guid)$(srpt_guid)")
        ;;
own)
        "$NVMFSPEC" target -t srp -a 10.0.0.2 -s $port --lun mem:32M >"$work/target.log" 2>&1 &
        target=$!
        for _ in $(seq 600); do
                grep -q listening "$work/target.log" && break
                sleep 0.1
        done
        forms+=("external --pieces 7")
        shown+=("out [0-9]+ indirect, [0-6] of 7 entries in line")
        ;;
esac

step login
ours login -i 3 -o json | tee "$work/login"
python3 - "$work/login" <<'P'
import json, sys
channels = json.load(open(sys.argv[1]))["channel"]
assert [c["rsp_flags"] & 3 for c in channels] == [0, 2, 2], channels
assert all(c["rsp_flags"] & 0x80 for c in channels), "immediate data is not granted"
P
step "a login to another port"
status=0
said=$(ours login --target-id 000000000000000000000000000000ff 2>&1) || status=$?
if [ "$whose" = kernel ]; then
        [ $status = 3 ]
        grep -q "login rejected: cannot associate with the nexus" <<<"$said"
fi
step "inquiry and luns"
ours inquiry
ours luns -o json | tee "$work/luns"
grep -q '"blocks":65536' "$work/luns" || grep -q '"blocks": *65536' "$work/luns"

step "each form of data is what goes over the wire"
if [ "$device" = rxe ]; then
        capture_wire "$work/wire.pcap"
        capture=$!
        for form in "${forms[@]}"; do
                # shellcheck disable=SC2086
                ours verify --form $form --range 256k --size 4k --passes 1 --iodepth 4 -i 2
        done
        capture_end $capture "$work/wire.pcap"
        "$NVMFSPEC" pcap check --all "$work/wire.pcap"
        "$NVMFSPEC" pcap show "$work/wire.pcap" >"$work/wire"
        for form in "${shown[@]}"; do
                grep -Em 1 "SRP_CMD .* $form" "$work/wire"
        done
        rm "$work/wire.pcap"
fi
step "data in each form"
for form in "${forms[@]}"; do
        # shellcheck disable=SC2086
        ours verify --form $form --range 4M --passes 2 --iodepth 8
done
dd if=/dev/urandom of="$work/data" bs=64k count=16 status=none
ours write --file "$work/data" --blocks 2048 --slba 100
ours read --file "$work/back" --blocks 2048 --slba 100 --form indirect
cmp "$work/data" "$work/back"
ours perf --rw randrw --bs 4k --iodepth 8 --time 1

step "a reset, alone and under another initiator's I/O, and what is not there"
ours reset
told=0
for _ in 1 2 3; do
        status=0
        ours perf --rw randrw --bs 4k --iodepth 8 --time 2 --timeout 5000 >"$work/perf" 2>&1 &
        perf=$!
        sleep 1
        ours reset
        wait $perf || status=$?
        [ $status != 0 ] || continue
        # Tasks of others end without response, but where the unit says otherwise (TAS); the next one is told.
        tail -n 1 "$work/perf"
        grep -q "UNIT ATTENTION 29h\|TASK ABORTED\|not answered within" "$work/perf"
        told=$((told + 1))
done
[ $told -gt 0 ]
ours verify --range 4M --passes 1 --iodepth 8
status=0
said=$(ours read --slba 65536 2>&1) || status=$?
[ $status = 1 ]
grep -q "ILLEGAL REQUEST 21h/00h" <<<"$said"

step "${LOGINS:=3} logins again, and nothing piles up"
once() { ours read --slba 100 --blocks 128 --file "$work/back" && cmp -n 65536 "$work/data" "$work/back"; }
ours write --file "$work/data" --blocks 128 --slba 100
[ "$whose" = own ] || srpt_srq "${device}1" 1
once # some is made once and stays
before=$(steady resources)
for _ in $(seq "$LOGINS"); do once; done
case $whose in
kernel)
        resources_back_to "$before"
        ;;
own)
        kill -TERM $target
        wait $target
        resources_back_to "$empty"
        ;;
esac
dmesg_clean
