# SPDX-License-Identifier: BSD-3-Clause
# ana.sh SECONDS: the kernel's multipath host on two listeners of our target; each second another one of them is
# the optimized path, driven over RPC, under verified I/O. No I/O may fail, and the host has to follow.
. "$(dirname "$0")/lib.sh"
socket=/run/nvmfspec-ana.sock
ctl() { "$NVMFSPEC" ctl --rpc "$socket" "$@" >/dev/null; }
ports=(4420 4421)

# state PORT STATE: of group 1
state() {
        ctl nvmf_subsystem_listener_set_ana_state nqn="$nqn" trtype="$trtype" traddr="$addr" \
                trsvcid="$1" ana_state="$2" anagrpid=1
}
# path_of PORT: sets $path to what the host holds of the path over it: "live optimized". No process is started for it:
# fio has the guest's one processor, and each would wait for its turn.
path_of() {
        local ns address state ana
        path=
        for ns in /sys/class/nvme/nvme*/nvme*c*n1; do
                read -r address <"$ns/../address"
                [[ $address == *trsvcid=$1* ]] || continue
                read -r state <"$ns/../state"
                read -r ana <"$ns/ana_state"
                path="$state $ana"
        done
}
path_is() { path_of "$1" && [ "$path" = "live $2" ]; }

[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ]
listener() { # listener PORTID STATE
        cat <<J
{ "portid": $1, "addr": { "trtype": "$trtype", "adrfam": "ipv4", "traddr": "$addr",
  "trsvcid": "${ports[$1 - 1]}" }, "subsystems": [ "$nqn" ], "referrals": [],
  "ana_groups": [ { "grpid": 1, "ana": { "state": "$2" } } ] }
J
}
cat >"$work/target.json" <<J
{ "hosts": [], "ports": [ $(listener 1 optimized), $(listener 2 inaccessible) ],
  "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": "1" }, "allowed_hosts": [],
    "namespaces": [ { "nsid": 1, "enable": 1, "ana_grpid": 1, "device": { "path": "mem:64M" } } ] } ] }
J
target_up --config "$work/target.json" --rpc "$socket"
for port in "${ports[@]}"; do
        nvme connect -t "$trtype" -a "$addr" -s "$port" -n "$nqn" -i 1
done
wait_for 60 path_is "${ports[0]}" optimized
wait_for 60 path_is "${ports[1]}" inaccessible
dev=$(nvdev "$nqn" 1)
ctrl=$(basename /sys/class/nvme/nvme*/ | head -n 1)
nvme ana-log "/dev/$ctrl" | grep -E 'grpid|state' 

step "failover each second for $1 s under verified I/O"
# Behind all others, or hosts, target and this script wait for fio to prepare and check blocks.
nice -n 10 fio --name=ana --filename="$dev" --allow_file_create=0 --rw=randrw --bs=4k --size=32M --direct=1 --ioengine=libaio --iodepth=8 \
        --verify=crc32c --verify_fatal=1 --time_based --runtime="$1" --output-format=json \
        --output="$work/fio.json" &
io=$!
switches=0 to=0 began=${EPOCHREALTIME/./}
while kill -0 "$io" 2>/dev/null; do
        to=$((1 - to))
        # First the old path closes: for a moment there is none, and I/O waits for the new one.
        case $((switches % 3)) in
        0) state "${ports[1 - to]}" inaccessible && state "${ports[to]}" optimized ;;
        1) state "${ports[to]}" optimized && state "${ports[1 - to]}" inaccessible ;;
        2) state "${ports[1 - to]}" change && state "${ports[to]}" non_optimized &&
                state "${ports[1 - to]}" inaccessible && state "${ports[to]}" optimized ;;
        esac
        wait_for 60 path_is "${ports[to]}" optimized
        wait_for 60 path_is "${ports[1 - to]}" inaccessible
        # The next one is due a second after this one was, however long the host took to follow.
        switches=$((switches + 1)) left=$((began + switches * 1000000 - ${EPOCHREALTIME/./}))
        [ $left -le 0 ] || sleep "$((left / 1000000)).$(printf %06d $((left % 1000000)))"
done
wait "$io"
[ "$switches" -ge 3 ] # each way once, however slow the machine is
grep -q '"error" : 0' "$work/fio.json"
if grep -q '"error" : [^0]' "$work/fio.json"; then exit 1; fi

step "without I/O it is the event that tells the host"
state "${ports[to]}" non_optimized
wait_for 60 path_is "${ports[to]}" non-optimized
state "${ports[to]}" optimized
wait_for 60 path_is "${ports[to]}" optimized
step "$switches failovers"
for port in "${ports[@]}"; do
        path_of "$port"
        step "port $port: $path"
        [[ $path == live\ * ]]
done
disconnect
target_down
dmesg_clean
