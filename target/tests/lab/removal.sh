# SPDX-License-Identifier: BSD-3-Clause
# removal.sh: the device is taken away under I/O and comes back (KIND rxe or siw). Only where the
# connection manager is told of it before user verbs, which wait for all users to let go: with modules.
. "$(dirname "$0")/lib.sh"

target_up -n "$nqn" --ns mem:16M --listen tcp:127.0.0.1:4420
dev=$(connect -c 1)
step "the device is taken away under I/O"
fio --name=io --filename="$dev" --allow_file_create=0 --rw=randrw --bs=4k --size=4M --direct=1 --ioengine=libaio --iodepth=8 \
        --verify=crc32c --verify_fatal=1 --loops=3 --output-format=terse >/dev/null &
io=$!
sleep 1
rdma link delete "${kind}1"
kill -0 "$target_pid"
none_left() { ! rdma resource show qp | grep nvmfspec >/dev/null; }
wait_for 60 none_left
step "what listens elsewhere goes on"
nvme discover -t tcp -a 127.0.0.1 -s 4420 | grep -E '^(trtype|traddr)'
step "the device comes back: the host reconnects, its I/O ends well"
rdma link add "${kind}1" type "$kind" netdev v1
rdma_active "${kind}1"
wait "$io"
disconnect
step "it is taken away while nobody uses it, several times: the target keeps nothing of it"
mapped() { awk '/^VmData/ { print $2 }' "/proc/$target_pid/status"; }
again() {
        rdma link delete "${kind}1"
        rdma link add "${kind}1" type "$kind" netdev v1
        rdma_active "${kind}1"
        wait_for 60 connect -c 1
        disconnect
        sleep 2
}
again
before=$(mapped)
for _ in 1 2 3 4; do again; done
echo "KiB before $before, after $(mapped)"
[ "$(mapped)" -le $((before + 1024)) ]
target_down
dmesg_clean
