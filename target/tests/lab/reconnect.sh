# SPDX-License-Identifier: BSD-3-Clause
# reconnect.sh COUNT: connect and disconnect COUNT times, then controller resets; nothing may pile up.
. "$(dirname "$0")/lib.sh"

target_up -n "$nqn" --ns mem:16M
fds() { ls "/proc/$target_pid/fd" | wc -l; }
once() {
        local dev
        dev=$(connect -i 2)
        dd if="$dev" of=/dev/null bs=4k count=1 iflag=direct status=none
        disconnect >/dev/null
}
once
before=$(steady fds) # what nobody uses is given back once a second
no_more() { [ "$(fds)" -le "$before" ]; }
if [ "$kind" != tcp ]; then objects=$(steady rdma_objects) regions=$(rdma_regions); fi
step "$1 reconnects"
for _ in $(seq "$1"); do
        once
done
wait_for 60 no_more || true
step "descriptors before $before, after $(fds)"
no_more
if [ "$kind" != tcp ]; then
        step "RDMA resources"
        as_before() { [ "$(rdma_objects)" = "$objects" ]; }
        wait_for 60 as_before || true
        diff <(echo "$objects") <(rdma_objects)
        # What the shared receive queue once held for more connections at a time stays posted: a
        # disconnect that is slow to drain meets the next connect.
        back() { [ "$(rdma_regions)" -le $((regions + 4)) ]; }
        wait_for 60 back || true
        echo "regions before $regions, after $(rdma_regions)"
        back
fi
step "controller reset under I/O"
dev=$(connect)
fio --name=reset --filename="$dev" --allow_file_create=0 --rw=randrw --bs=4k --size=8M --direct=1 --ioengine=libaio --iodepth=8 \
        --time_based --runtime=4 --output-format=terse >/dev/null &
io=$!
for _ in 1 2 3; do
        sleep 1
        nvme reset "${dev%n[0-9]*}"
done
wait "$io"
disconnect
target_down
dmesg_clean
