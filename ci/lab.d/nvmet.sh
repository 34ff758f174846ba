# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced in the guest: the kernel's NVMe target through configfs, and the
# block devices of its NVMe host. For more than one namespace and open access,
# see nvmet-config.
. "$(dirname "${BASH_SOURCE[0]}")/modules.sh"
nvmet=/sys/kernel/config/nvmet

# nvmet_up tcp|rdma|loop TRADDR SUBNQN BACKING [TRSVCID] [PORTID]: serves the block
# device or file BACKING as namespace 1 of SUBNQN to every host. A port that
# exists already gets one more subsystem.
nvmet_up() {
    local subsystem=$nvmet/subsystems/$3 port=$nvmet/ports/${6:-1}
    load nvmet "nvme-$1" brd
    [ "$1" = loop ] || load "nvmet-$1"
    nvmet_subsystem "$subsystem" "$4" || return
    [ -d "$port" ] || nvmet_port "$port" "$1" "$2" "${5:-4420}" || return
    ln -s "$subsystem" "$port/subsystems/"
}

nvmet_subsystem() { # DIRECTORY BACKING
    mkdir "$1" "$1/namespaces/1" &&
        echo 1 >"$1/attr_allow_any_host" &&
        echo -n "$2" >"$1/namespaces/1/device_path" || return
    # Files on tmpfs know no direct I/O.
    [ -b "$2" ] || echo 1 >"$1/namespaces/1/buffered_io"
    echo 1 >"$1/namespaces/1/enable"
}

# nvmet_host SUBNQN HOSTNQN KEY [CTRL_KEY [HASH [DHGROUP]]]: from now on only this host, and only
# if it authenticates itself; HASH as hmac(sha256), DHGROUP as null or ffdhe2048.
nvmet_host() {
    local host=$nvmet/hosts/$2
    mkdir "$host" &&
        echo "$3" >"$host/dhchap_key" &&
        { [ -z "${4-}" ] || echo "$4" >"$host/dhchap_ctrl_key"; } &&
        echo "${5:-hmac(sha256)}" >"$host/dhchap_hash" &&
        echo "${6:-null}" >"$host/dhchap_dhgroup" &&
        echo 0 >"$nvmet/subsystems/$1/attr_allow_any_host" &&
        ln -s "$host" "$nvmet/subsystems/$1/allowed_hosts/"
}

nvmet_port() { # DIRECTORY TRTYPE TRADDR TRSVCID
    local family=ipv4
    case $3 in *:*) family=ipv6 ;; esac
    mkdir "$1" && echo "$2" >"$1/addr_trtype" || return
    [ "$2" != loop ] || return 0
    echo $family >"$1/addr_adrfam" &&
        echo "$3" >"$1/addr_traddr" &&
        echo "$4" >"$1/addr_trsvcid"
}

# nvmet_down: takes the whole target down.
nvmet_down() (
    shopt -s nullglob
    rm -f "$nvmet"/ports/*/subsystems/* "$nvmet"/subsystems/*/allowed_hosts/*
    nvmet_remove "$nvmet"/ports/*/referrals/* "$nvmet"/ports/*/ana_groups/[!1]* "$nvmet"/ports/*
    for namespace in "$nvmet"/subsystems/*/namespaces/*; do
        echo 0 >"$namespace/enable"
    done
    nvmet_remove "$nvmet"/subsystems/*/namespaces/* "$nvmet"/subsystems/* "$nvmet"/hosts/*
)

nvmet_remove() { [ $# = 0 ] || rmdir "$@"; }

# nvdev SUBNQN [NSID]: the block device of a connected subsystem; waits up to 60 s.
nvdev() {
    local i device
    for i in $(seq 600); do
        for device in /sys/class/nvme-subsystem/*/nvme*n*; do
            nvdev_is "$device" "$1" "${2:-1}" && echo "/dev/${device##*/}" && return
        done
        sleep 0.1
    done
    echo "nvdev: no block device of $1" >&2
    return 1
}

# The paths below a multipath device (nvme0c0n1) look alike but have no node.
nvdev_is() { # DEVICE SUBNQN NSID
    [ -b "/dev/${1##*/}" ] &&
        [ "$(cat "${1%/*}/subsysnqn")" = "$2" ] &&
        [ "$(cat "$1/nsid")" = "$3" ]
}

# kernel_log: what the kernel has said, less reports it makes of itself whatever its peer does. When a
# namespace goes, its SRCU may have a grace period under way; on one processor that is work of the
# "events" queue, which nvme-wq, that must not wait for memory, then waits for. And a channel of ib_srpt that
# shares receives has no cache of them, which its end gives back all the same.
kernel_log() {
    dmesg | awk '
        function tell() {
            if (!own)
                printf "%s", report
            report = ""
            own = inside = 0
        }
        /-\[ cut here \]-/ { tell(); inside = 1 }
        { report = report $0 "\n" }
        /WQ_MEM_RECLAIM nvme-wq:nvme_scan_work is flushing !WQ_MEM_RECLAIM events:srcu_drive_gp/ { own = inside }
        /WARNING: .* srpt_cache_put\+/ { own = inside }
        !inside || /-\[ end trace / { tell() }
        END { tell() }'
}

# dmesg_clean: fails, and prints the place, when the kernel has complained.
dmesg_clean() {
    local bad='WARNING:|BUG:|Oops|Call Trace|general protection|KASAN|UBSAN|refcount_t:'
    bad+='|possible (circular|recursive) locking|inconsistent lock state|suspicious RCU'
    bad+='|blocked for more than|new suspected memory leaks|waiting for .* to become free'
    ! kernel_log | grep -E -B 2 -A 25 "$bad" >&2
}

# leaks_clean: the same for memory the kernel has lost, in an instrumented guest. Only
# what two scans find is a leak: young objects are often just on their way.
leaks_clean() {
    local kmemleak=/sys/kernel/debug/kmemleak
    [ -e $kmemleak ] || return 0
    echo scan >$kmemleak
    sleep 6 # objects younger than five seconds are not reported
    echo scan >$kmemleak
    ! grep . $kmemleak >&2
}
