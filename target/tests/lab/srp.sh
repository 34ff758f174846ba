# SPDX-License-Identifier: BSD-3-Clause
# srp.sh [OPTION...]: the kernel's SRP initiator (ib_srp) logs in to our target through RDMA CM (KIND rxe), scans it, makes a
# file system on a unit and checks it, is reset under I/O, and logs out. The options are our target's.
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

step "a login to another target is rejected"
srp_up "$@"
if login 00000000000000ff 2>/dev/null; then exit 1; fi
grep "rejected (cannot associate with the nexus)" "$work/target.log"

step "a scan"
login
wait_for 60 has_disks 2
disks
one=$(disk 0) two=$(disk 1)
[ "$(blockdev --getsize64 "$one")" = $((64 << 20)) ]
[ "$(blockdev --getss "$two")" = 4096 ]

step "checksummed data, a file system, discards"
verify_io "$one"
verify_io "$two"
filesystem_io "$one"
blkdiscard "$two"
cmp -n $((32 << 20)) /dev/zero "$two"

step "a reset, alone and under I/O"
reset "$one"
fio --name=io --filename="$one" --rw=randrw --bs=4k --size=8M --direct=1 --ioengine=libaio --iodepth=16 \
        --time_based --runtime=4 --output-format=terse >/dev/null &
for _ in 1 2 3; do sleep 1; reset "$one"; done
wait $!
verify_io "$one"

step "logout, and as many logins again"
logout
for _ in 1 2 3; do
        wait_for 60 again
        wait_for 60 has_disks 2
        verify_io "$(disk 1)"
        logout
done

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
