# SPDX-License-Identifier: BSD-3-Clause
# For scripts that run in the lab's guest: our target at one end, the kernel's host at the other.
# Source it. NVMFSPEC is the binary under test. KIND is what lies between them: tcp (over lo), or rxe or
# siw (RDMA over a wire).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../../ci/lab.d/nvmet.sh"
. "$here/../../../ci/lab.d/net.sh"
kind=${KIND:-tcp}
nqn=nqn.2026-01.io.nvmfspec:lab
work=$(mktemp -d)
target_pid=

step() { echo "-- $*"; }

case $kind in
tcp)
        trtype=tcp addr=127.0.0.1
        ;;
*)
        trtype=rdma addr=10.0.0.2
        wire_up
        rdma_up "$kind"
        load nvme-rdma
        ;;
esac

# target_up [OPTION...]: starts our target (on $addr:4420 if nothing else is said) and waits until it
# listens.
target_up() {
        case " $*" in
        *' --config '*) ;;
        *) set -- -t "$trtype" -a "$addr" "$@" ;;
        esac
        : >"$work/target.log" # now: the target before this one was listening, too
        "$NVMFSPEC" target "$@" >>"$work/target.log" 2>&1 &
        target_pid=$!
        for _ in $(seq 600); do
                grep -q listening "$work/target.log" && return
                kill -0 "$target_pid" 2>/dev/null || break
                sleep 0.1
        done
        cat "$work/target.log" >&2
        return 1
}

# target_down: SIGTERM must drain and exit with 0.
target_down() {
        kill -TERM "$target_pid"
        wait "$target_pid" || { echo "target ended with $?"; cat "$work/target.log"; return 1; }
}

# connect [OPTION...]: the kernel host connects; prints the block device.
connect() {
        nvme connect -t "$trtype" -a "$addr" -s 4420 -n "$nqn" "$@" >&2
        nvdev "$nqn"
}

disconnect() { nvme disconnect -n "$nqn"; }

# rdma_objects: how many queue pairs, completion queues, connection ids ... exist in all. Not regions:
# receives that were posted for connections which overlapped stay for the next ones.
rdma_objects() {
        rdma resource show | sed 's/^[0-9]*: //; s/ mr [0-9]*//' | sort
}
rdma_regions() { rdma resource show mr | wc -l; }

# verify_io DEVICE: fio writes a checksummed pattern and reads it back, large and small blocks.
verify_io() {
        fio --name=verify --filename="$1" --allow_file_create=0 --rw=randwrite --bsrange=4k-256k --size=6M --direct=1 \
                --ioengine=libaio --iodepth=16 --verify=crc32c --do_verify=1 --verify_fatal=1 \
                --randseed=7 --output-format=terse >/dev/null
}

# filesystem_io DEVICE: mkfs, mount, verified files, unmount, fsck.
filesystem_io() {
        mkfs.ext4 -q -F "$1"
        mkdir -p "$work/mnt"
        mount "$1" "$work/mnt"
        fio --name=files --directory="$work/mnt" --rw=randwrite --bs=16k --size=8M --nrfiles=4 \
                --verify=crc32c --do_verify=1 --verify_fatal=1 --end_fsync=1 --output-format=terse >/dev/null
        umount "$work/mnt"
        fsck.ext4 -fn "$1" >/dev/null
}

# three_tries COMMAND...: where a machine that stands still may expire a timer, and is right to. What is
# called has no `set -e`.
three_tries() {
        local n
        for n in 1 2 3; do
                "$@" && return
                echo "try $n of 3 failed: $*" >&2
        done
        return 1
}

# wait_for SECONDS COMMAND...
wait_for() {
        local n=$(($1 * 10))
        shift
        for _ in $(seq "$n"); do
                "$@" && return
                sleep 0.1
        done
        echo "waited in vain for: $*" >&2
        return 1
}
