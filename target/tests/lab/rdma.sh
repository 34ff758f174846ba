# SPDX-License-Identifier: BSD-3-Clause
# rdma.sh: what only RDMA has (KIND rxe or siw): resources that come back, the target stopped under I/O,
# listeners of both kinds at once.
. "$(dirname "$0")/lib.sh"

io() { # io DEVICE SECONDS: whatever becomes of it
        fio --name=io --filename="$1" --allow_file_create=0 --rw=randrw --bs=4k --size=8M --direct=1 --ioengine=libaio \
                --iodepth=16 --time_based --runtime="$2" --output-format=terse >/dev/null 2>&1 || true
}
back_at() { [ "$(rdma_objects)" = "$1" ] || { rdma_objects >"$work/now"; return 1; }; }
gone() { [ ! -b "$1" ]; }

step "resources come back after each connection"
target_up -n "$nqn" --ns mem:16M
connect -i 2 >/dev/null
disconnect >/dev/null
before=$(steady rdma_objects)
echo "$before"
for _ in 1 2 3; do
        dev=$(connect -i 2 -Q 32)
        verify_io "$dev"
        disconnect >/dev/null
done
wait_for 60 back_at "$before" || { diff <(echo "$before") "$work/now"; exit 1; }

step "SIGTERM under I/O"
dev=$(connect -l 2 -c 1)
io "$dev" 4 &
sleep 1
target_down
wait_for 60 gone "$dev"
wait $!
nvme disconnect-all
none_left() { ! rdma resource show qp | grep nvmfspec >/dev/null; }
wait_for 60 none_left

step "listeners of both kinds: what one writes the other reads"
target_up -n "$nqn" --ns mem:16M --listen tcp:127.0.0.1:4420
grep "listening on rdma:10.0.0.2:4420 127.0.0.1:4420" "$work/target.log"
dev=$(connect)
dd if=/dev/urandom of="$work/pattern" bs=64k count=16 status=none
dd if="$work/pattern" of="$dev" bs=64k conv=nocreat oflag=direct status=none
disconnect
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn"
cmp -n $((16 << 16)) "$work/pattern" "$(nvdev "$nqn")"
disconnect
nvme discover -t tcp -a 127.0.0.1 -s 4420 | grep -E '^(trtype|traddr)'
target_down

step "an address that no device has, and one that is taken"
if "$NVMFSPEC" target -t rdma -a 10.0.0.9 2>"$work/error"; then exit 1; fi
cat "$work/error"
grep -q "rdma:10.0.0.9:4420: no RDMA device has this address" "$work/error"
target_up -n "$nqn" --ns mem:16M
if "$NVMFSPEC" target -t rdma -a "$addr" 2>"$work/error"; then exit 1; fi
cat "$work/error"
grep -q "rdma:$addr:4420: Address already in use" "$work/error"
target_down
dmesg_clean
