#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# campaign.sh [--own] tcp|rxe|siw SECONDS OUTDIR [OPTION...] - in the lab's guest: fuzz remote against
# the kernel's target, or our own, with the kernel's log as the oracle; then each finding is played
# again, memory is looked through for leaks (where the kernel can) and all is summed up.
#
#   mkdir -p out && ci/lab --instrumented --mem 6144 --timeout 1000 --out out -- \
#           fuzz/tests/lab/campaign.sh rxe 600 out --look 3000 --avoid 'request.hrqsize>255'
#
# What 6.12's nvmet-rdma does not survive, or not whole: request.hrqsize>255 (memory), request.hrqsize<2
# and request.len<32 (queues that are never released), rdma/3.3/in-capsule-offset (panic).
#
# OPTIONs are those of fuzz remote. OUTDIR/finds has findings and corpus, OUTDIR/log what fuzz remote
# said, OUTDIR/dmesg the kernel's log, OUTDIR/repro what became of each finding. SECONDS 0: only plays
# the findings again that are there.
# Exit: that of fuzz remote: 0 clean, 1 findings, 2 no set-up, 3 no target.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
tool=${NVMFSPEC:-$here/../../../build/nvmfspec}
who=kernel
if [ "$1" = --own ]; then
        who=own
        shift
fi
kind=$1 seconds=$2 out=$(readlink -f "$3") nqn=nqn.2026-01.lab:$who transport=tcp
shift 3
debug=/sys/kernel/debug
mkdir -p "$out"

oracle="$here/kernel_log.sh '$out/dmesg'"

target_up() {
        wire_up || return
        if [ "$kind" != tcp ]; then
                transport=rdma
                rdma_up "$kind" || return
        fi
        if [ $who = kernel ]; then
                nvmet_up $transport 10.0.0.2 $nqn /dev/ram0
                return
        fi
        "$tool" target -t $transport -a 10.0.0.2 -n $nqn --ns mem:64M >"$out/target" 2>&1 &
        for _ in $(seq 100); do
                "$tool" host identify -t $transport -a 10.0.0.2 -n $nqn >/dev/null 2>&1 && return
                sleep 0.1
        done
        cat "$out/target" >&2
        return 1
}

play() { # SUBCOMMAND OPTION...
        local sub=$1
        shift
        "$tool" fuzz "$sub" -t $transport -a 10.0.0.2 -n $nqn --allow-write --settle 30 \
                --oracle "$oracle" "$@"
}

# Whether fuzz repro says of a finding what its first line says.
is_again() { # FILE
        local want said
        want=$(sed -n '1s/^# //p' "$1")
        said=$(play repro "$1" 2>&1)
        case $want in
        rule*) grep -q "^$(echo "$want" | sed 's/^rule //; s/: .*//'): " <<<"$said" ;;
        oracle*)
                said=$(grep '^oracle: ' <<<"$said" | sed -E 's/^oracle:/oracle/; s/[0-9]+/#/g')
                [ -n "$said" ] && [[ $want == "${said:0:100}"* ]]
                ;;
        *) grep -q "^${want%% *}" <<<"$said" ;;
        esac
}

again() {
        local file
        for file in "$out"/finds/*.seq; do
                [ -e "$file" ] || return 0
                if is_again "$file"; then
                        echo "again: ${file##*/}"
                else
                        echo "not again: ${file##*/}"
                fi
        done | tee "$out/repro"
}

leaks() {
        if [ ! -e $debug/kmemleak ]; then
                echo 'kmemleak: not in this kernel'
        elif leaks_clean 2>"$out/kmemleak"; then
                echo 'kmemleak: clean'
        else
                echo "kmemleak: $(grep -c 'unreferenced object' "$out/kmemleak") objects"
        fi
}

summary() {
        echo "--- $who target over $kind, kernel $(uname -r)"
        [ ! -s "$out/log" ] || tail -n 1 "$out/log"
        again
        leaks
        "$here/kernel_log.sh" "$out/dmesg" >/dev/null
        echo 'complaints in the kernel log, and how often:'
        [ ! -e "$out/dmesg.bad" ] || sed -E 's/[PT]ID: *[0-9]+//; s/kworker[^ ]*/kworker/' "$out/dmesg.bad" |
                sort | uniq -c
}

main() {
        local rc=0
        target_up || exit 2
        dmesg -C
        dmesg -n 4 # the console is slow
        echo 20 >/proc/sys/kernel/hung_task_timeout_secs
        if [ "$seconds" -gt 0 ]; then
                [ ! -e $debug/kmemleak ] || echo clear >$debug/kmemleak
                play remote --time "$seconds" -o "$out/finds" "$@" | tee "$out/log"
                rc=${PIPESTATUS[0]}
        fi
        summary
        exit "$rc"
}

main "$@" # read as a whole: the file may change while it runs
