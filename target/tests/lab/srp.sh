# SPDX-License-Identifier: BSD-3-Clause
# srp.sh [OPTION...]: the kernel's SRP initiator (ib_srp) logs in to our target through RDMA CM (KIND rxe), scans it, makes a
# file system on a unit and checks it, is reset under I/O, logs out, and logs in LOGINS (3) times more. FORMS (by `;`) are
# patterns of `pcap show`: how reads and writes of 512 bytes to 64 KiB describe their memory, which ib_srp's parameters on
# the kernel's command line say. The options are our target's.
. "$(dirname "$0")/lib.sh"
trtype=srp port=5555
id=0002c90300a0b0c0
load ib_srp

srp_up() { target_up -s $port --target-id "$id$id" --lun mem:64M --lun mem:32M,bs=4096 "$@"; }

login() { # [ID_EXT [OPTIONS]]: fails if the target rejects it
        echo "id_ext=${1:-$id},ioc_guid=$id,dest=10.0.0.2:$port,initiator_ext=0000000000000001${2:+,$2}" \
                >"/sys/class/infiniband_srp/srp-${kind}0-1/add_target"
}

again() { login 2>/dev/null; } # the kernel still knows the last login for a while

logout() {
        local p
        for p in /sys/class/srp_remote_ports/*/delete; do echo 1 >"$p"; done
        wait_for 60 no_disks
}
disks() { # names of our disks that are there, with their LUNs
        local d
        for d in /sys/block/sd*; do
                [ -e "$d" ] && grep -q NVMFSPEC "$d/device/vendor" && [ "$(cat "$d/size")" -gt 0 ] &&
                        echo "$(basename "$(readlink -f "$d/device")" | sed 's/.*://') /dev/${d##*/}"
        done
        return 0
}
disk() { disks | awk -v lun="$1" '$1 == lun { print $2 }'; }
has_disks() { [ "$(disks | wc -l)" = "$1" ]; }
no_disks() { has_disks 0; }

reset() { # the disk's logical unit: SG_SCSI_RESET, of the device
        python3 -c 'import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDWR), 0x2284, struct.pack("i", 1))' "$1"
}

# parameters_are_set: those of ib_srp on the kernel's command line exist, and have that value.
parameters_are_set() {
        local word name
        for word in $(grep -o 'ib_srp\.[^ ]*' /proc/cmdline); do
                name=${word#ib_srp.} name=${name%=*}
                echo "$word"
                [ "$(cat "/sys/module/ib_srp/parameters/$name")" = "${word#*=}" ] || return
        done
}

copies() { # DISK: two writes and two reads of each size
        local size
        for size in 512 4k 16k 64k; do
                dd if=/dev/urandom of="$1" bs=$size count=2 iflag=fullblock oflag=direct status=none
                dd if="$1" of=/dev/null bs=$size count=2 iflag=direct status=none
        done
}

# are_said CAPTURE: no rule is broken in it by either side, and each of FORMS is there.
are_said() {
        local form forms
        "$NVMFSPEC" pcap check --all --strict "$1"
        "$NVMFSPEC" pcap show "$1" >"$1.txt"
        IFS=';' read -ra forms <<<"${FORMS-}"
        for form in ${forms[@]+"${forms[@]}"}; do
                grep -Em 1 "SRP_CMD .* $form" "$1.txt" && continue
                echo "nowhere: $form" >&2
                grep -Eo '(out|in) [0-9]+ [a-z]+.*' "$1.txt" | sort | uniq -c >&2
                return 1
        done
}

step "a login to another target is rejected"
parameters_are_set
srp_up "$@"
if login 00000000000000ff 2>/dev/null; then exit 1; fi
grep "rejected (cannot associate with the nexus)" "$work/target.log"

step "a scan, and data by each form"
capture_wire "$work/wire.pcap"
capture=$!
login
wait_for 60 has_disks 2
disks
one=$(disk 0) two=$(disk 1)
[ "$(blockdev --getsize64 "$one")" = $((64 << 20)) ]
[ "$(blockdev --getss "$two")" = 4096 ]
copies "$one"
capture_end $capture "$work/wire.pcap"
are_said "$work/wire.pcap"
rm "$work"/wire.pcap*

step "checksummed data, a file system, discards"
verify_io "$one"
verify_io "$two"
filesystem_io "$one"
blkdiscard "$two"
cmp -n $((32 << 20)) /dev/zero "$two"

step "a reset, alone and under I/O"
reset "$one"
fio --name=io --filename="$one" --allow_file_create=0 --rw=randrw --bs=4k --size=8M --direct=1 --ioengine=libaio --iodepth=16 \
        --time_based --runtime=4 --output-format=terse >/dev/null &
for _ in 1 2 3; do sleep 1; reset "$one"; done
wait $!
verify_io "$one"
logout

step "${LOGINS:=3} logins again: each finds what the last one wrote, and nothing piles up"
fds() { ls "/proc/$target_pid/fd" | wc -l; }
once() {
        wait_for 60 again
        wait_for 60 has_disks 2
        [ ! -e "$work/block" ] || cmp -n 4096 "$work/block" "$(disk 1)"
        dd if=/dev/urandom of="$work/block" bs=4k count=1 status=none
        dd if="$work/block" of="$(disk 1)" bs=4k oflag=direct status=none
        logout
}
once # some is made once and stays
objects=$(steady rdma_objects) regions=$(rdma_regions) before=$(steady fds)
echo "$objects"
for _ in $(seq "$LOGINS"); do once; done
as_before() {
        # Receives that were posted for channels which overlapped stay for the next ones.
        [ "$(rdma_objects)" = "$objects" ] && [ "$(rdma_regions)" -le $((regions + 4)) ] && [ "$(fds)" -le "$before" ]
}
wait_for 60 as_before || {
        diff <(echo "$objects") <(rdma_objects)
        echo "regions before $regions, after $(rdma_regions); descriptors before $before, after $(fds)"
        exit 1
}

step "the target goes away under I/O, and comes back"
wait_for 60 again
wait_for 60 has_disks 2
dd if="$(disk 0)" of=/dev/null bs=64k iflag=direct status=none &
sleep 0.3
target_down
wait $! || true
srp_up "$@"
back() { dd if="$(disk 0)" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null; }
wait_for 120 back
logout
target_down
dmesg_clean
