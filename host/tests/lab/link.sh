# SPDX-License-Identifier: BSD-3-Clause
# link.sh rxe|siw COUNT: our host's link is down for 8 s under verified I/O to the kernel's target, COUNT
# times; it reconnects each time, and in the end the devices hold nothing of it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
nqn=nqn.2026-01.lab:kernel
work=$(mktemp -d)
verify() {
        "$NVMFSPEC" host verify -t rdma -a 10.0.0.2 -n "$nqn" --range 8M -i 2 --timeout 10000 \
                --ctrl-loss-tmo 60 --reconnect-delay 2 "$@"
}
# Of our host; the kernel's target keeps completion queues and a domain for the next one.
resources() { rdma resource show "${device}0"; }
# siw (6.12) never completes what it was sending when the connection broke: nvmet, whichever its host, waits for
# it forever in a queue pair that is drained.
stuck() { rdma resource show qp | grep -c 'state SQD' || true; }
connections() { rdma resource show qp | grep 'type RC' | grep -vc 'state SQD' || true; }

device=$1
wire_up
rdma_up "$device"
nvmet_up rdma 10.0.0.2 "$nqn" /dev/ram0
before=$(resources)
for i in $(seq "$2"); do
        echo "-- link down: $i"
        verify --time 11 -k 2 -o json >"$work/result" &
        verify=$!
        sleep 1
        wire_cut v0 8
        wait $verify || { cat "$work/result"; rdma resource show qp; exit 1; }
        grep reconnects "$work/result"
        if rdma resource show qp | grep ERR; then exit 1; fi
done
echo "-- and again, undisturbed"
verify | tee "$work/result"
grep -q " 0 reconnects" "$work/result"
for i in $(seq 600); do
        [ "$(resources)" != "$before" ] || [ "$(connections)" != 0 ] || break
        sleep 0.1
done
[ "$(resources)" = "$before" ] && [ "$(connections)" = 0 ] || {
        echo "$before"
        rdma resource show
        rdma resource show qp
        rdma resource show cm_id
        exit 1
}
if [ "$(stuck)" != 0 ]; then # taking the port down would wait, too
        echo "the kernel's target waits forever for $(stuck) queue pairs of siw"
        exit 0
fi
nvmet_down
rdma_down "$device"
wire_down
dmesg_clean
leaks_clean
