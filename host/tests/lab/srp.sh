# SPDX-License-Identifier: BSD-3-Clause
# srp.sh rxe|siw kernel|own: our initiator's commands against the kernel's SRP target (ib_srpt, LIO), or our own one.
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

wire_up
rdma_up "$device"
forms=(direct "indirect --pieces 7" immediate)
case $whose in
kernel)
        srpt_up $port "${device}1"
        where+=(--target-id "$(srpt_guid)$(srpt_guid)")
        ;;
own)
        "$NVMFSPEC" target -t srp -a 10.0.0.2 -s $port --lun mem:32M >"$work/target.log" 2>&1 &
        for _ in $(seq 600); do
                grep -q listening "$work/target.log" && break
                sleep 0.1
        done
        forms+=("external --pieces 7") # LIO refuses them
        ;;
esac

step login
ours login -i 3 -o json | tee "$work/login"
python3 - "$work/login" <<'P'
import json, sys
channels = json.load(open(sys.argv[1]))["channel"]
assert [c["rsp_flags"] & 3 for c in channels] == [0, 2, 2], channels
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

step "a reset, and what is not there"
ours reset
status=0
said=$(ours read --slba 65536 2>&1) || status=$?
[ $status = 1 ]
grep -q "ILLEGAL REQUEST 21h/00h" <<<"$said"
[ "$whose" = kernel ] || { kill -TERM %1; wait %1; }
dmesg_clean
