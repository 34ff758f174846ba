# SPDX-License-Identifier: BSD-3-Clause
# srp.sh DIRECTORY: what the kernel's SRP initiator and target say to each other over rxe, in
# DIRECTORY/srp.pcap: a scan, reads and writes, a reset, logout and a login that is rejected. It breaks no rule, is
# measured, and all of it is done again with our own target, over the same wire.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
. "$lab/srpt.sh"
step() { echo "-- $*"; }
port=5555

login() { # [ID_EXT]: fails if the target rejects it
        local guid
        guid=$(srpt_guid)
        echo "id_ext=${1:-$guid},ioc_guid=$guid,dest=10.0.0.2:$port,initiator_ext=0000000000000001" \
                >/sys/class/infiniband_srp/srp-rxe0-1/add_target
}

disk() { # the disk's name, once it is there
        local i d
        for i in $(seq 600); do
                for d in /sys/block/sd*; do
                        [ -e "$d" ] && [ "$(cat "$d/size")" -gt 0 ] && echo "/dev/${d##*/}" && return
                done
                sleep 0.1
        done
        return 1
}

logout() { for p in /sys/class/srp_remote_ports/*/delete; do echo 1 >"$p"; done; sleep 1; }

reset() { # the disk's logical unit: SG_SCSI_RESET, of the device
        python3 -c 'import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDWR), 0x2284, struct.pack("i", 1))' "$1"
}

copy() { dd bs="$1" count=2 status=none "${@:2}"; }

wire_up
rdma_up rxe
srpt_up $port rxe1
load ib_srp
capture_wire "$1/srp.pcap"
step "a scan, writes and reads"
login
disk=$(disk)
copy 4k if=/dev/zero of="$disk" oflag=direct
copy 16k if=/dev/zero of="$disk" oflag=direct
copy 16k if="$disk" of=/dev/null iflag=direct
step "a reset"
reset "$disk"
copy 4k if="$disk" of=/dev/null iflag=direct
step "logout, and a rejected login"
logout
login 00000000000000ff 2>/dev/null && exit 1
sleep 1
"$NVMFSPEC" pcap check --all --strict "$1/srp.pcap"
cp "$1/srp.pcap" "$1/taken.pcap" # what follows is caught, too
step "measured"
"$NVMFSPEC" pcap stat "$1/taken.pcap"
step "replayed to our own target"
"$NVMFSPEC" target -t srp -a 10.0.0.2 -s $((port + 1)) --lun mem:32M >"$1/target.log" 2>&1 &
target=$!
for _ in $(seq 600); do
        grep -q listening "$1/target.log" && break
        sleep 0.1
done
"$NVMFSPEC" pcap replay "$1/taken.pcap" -t srp -a 10.0.0.2 -s $((port + 1)) --allow-write -v
kill -TERM $target
wait $target
dmesg_clean
