# SPDX-License-Identifier: BSD-3-Clause
# link.sh COUNT: the target's link is down for 8 s under verified I/O, COUNT times; the host reconnects each
# time, and in the end the devices hold nothing of it (KIND rxe or siw).
. "$(dirname "$0")/lib.sh"

target_up -n "$nqn" --ns mem:16M
connect -i 1 >/dev/null
disconnect
target_down
before=$(rdma resource show) # the kernel's host keeps what it has made once
target_up -n "$nqn" --ns mem:16M
dev=$(connect -i 1 -k 5 -c 2 -l 120)
live() { [ "$(cat /sys/class/nvme/nvme*/state)" = live ]; }
for i in $(seq "$1"); do
        step "link down: $i"
        fio --name=io --filename="$dev" --allow_file_create=0 --rw=randwrite --bs=4k --size=8M --direct=1 --ioengine=libaio \
                --iodepth=8 --time_based --runtime=10 --verify=crc32c --verify_backlog=64 \
                --verify_fatal=1 --output-format=terse >/dev/null &
        io=$!
        sleep 1
        wire_cut v1 8
        wait_for 60 live
        wait "$io"
        live
        rdma resource show qp | tee "$work/qps" # one that has failed for good is the device's own
        if grep ERR "$work/qps"; then exit 1; fi
done
disconnect
target_down
cat "$work/target.log"
now_as_before() { [ "$(rdma resource show)" = "$before" ]; }
wait_for 60 now_as_before || { rdma resource show; exit 1; }
dmesg_clean
