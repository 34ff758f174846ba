# SPDX-License-Identifier: BSD-3-Clause
# removal.sh: the device is taken away under I/O and comes back (KIND rxe or siw). Only where the
# connection manager is told of it before user verbs, which waits for all users to let go: with modules.
. "$(dirname "$0")/lib.sh"

io() { # io DEVICE SECONDS: whatever becomes of it
        fio --name=io --filename="$1" --rw=randrw --bs=4k --size=8M --direct=1 --ioengine=libaio \
                --iodepth=16 --time_based --runtime="$2" --output-format=terse >/dev/null 2>&1 || true
}

step "the device is taken away under I/O"
target_up -n "$nqn" --ns mem:16M --listen tcp:127.0.0.1:4420
dev=$(connect -l 3 -c 1)
io "$dev" 3 &
sleep 1
rdma link delete "${kind}1"
wait $!
nvme disconnect-all
kill -0 "$target_pid"
step "what listens elsewhere goes on"
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn"
verify_io "$(nvdev "$nqn")"
disconnect
step "the device comes back"
rdma link add "${kind}1" type "$kind" netdev v1
rdma_active "${kind}1"
listens() { nvme discover -t rdma -a "$addr" -s 4420 >/dev/null 2>&1; }
wait_for 15 listens
dev=$(connect)
verify_io "$dev"
disconnect
target_down
cat "$work/target.log"
dmesg_clean
