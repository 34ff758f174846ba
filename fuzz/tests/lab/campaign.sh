#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# campaign.sh [--own] tcp|rxe|siw|srp SECONDS OUTDIR [OPTION...] - in the lab's guest: fuzz remote against
# the kernel's target, or our own, with the kernel's log as the oracle; then memory is looked through
# for leaks (where the kernel can) and all is summed up. run_campaign calls it, and plays each finding
# again in a guest of its own. srp: over rxe, of the kernel ib_srpt.
#
# campaign.sh [--own] tcp|rxe|siw|srp again OUTDIR FILE [OPTION...] - plays the finding again, TIMES times.
#
# What 6.12's nvmet-rdma does not survive, or not whole: request.hrqsize>255 (memory), request.hrqsize<2
# and request.len<32 (queues that are never released), rdma/in-capsule/offset (panic).
# What 6.12's ib_srpt does not: external, empty, long (memory); srp/command/format-agreed, immediate, descriptors and
# additional-cdb, srp/iu/length-initiator (conformance/baseline/ib_srpt-deadly.txt says why). Its channels share receives.
#
# OPTIONs are those of fuzz remote. OUTDIR/finds has findings and corpus, OUTDIR/log what fuzz remote
# said, OUTDIR/dmesg the kernel's log.
# Exit: that of fuzz remote: 0 clean, 1 findings, 2 no set-up, 3 no target; again: 0 it came, 1 not.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
. "$lab/srpt.sh"
tool=${NVMFSPEC:-$here/../../../build/nvmfspec}
times=${TIMES:-5}
hung=4 # seconds after which the kernel complains of a task, and another one until it looks
late=(--late $((hung * 1000 + 1500)))
who=kernel
if [ "$1" = --own ]; then
        who=own
        shift
fi
kind=$1 seconds=$2 out=$(readlink -m "$3") nqn=nqn.2026-01.lab:$who transport=tcp
shift 3
where=() # where the target is, for all of our commands
debug=/sys/kernel/debug
mkdir -p "$out"

oracle="$here/kernel_log.sh '$out/dmesg'"

is_up() { # COMMAND...: within a minute
        for _ in $(seq 600); do
                "$@" >/dev/null 2>&1 && return
                sleep 0.1
        done
        [ ! -e "$out/target" ] || cat "$out/target" >&2
        return 1
}

srp_up() {
        rdma_up rxe || return
        transport=srp where=(-t srp -a 10.0.0.2 -s 5555)
        if [ $who = kernel ]; then
                srpt_up 5555 rxe1 && srpt_srq rxe1 1 || return
                where+=(--target-id "$(srpt_guid)$(srpt_guid)")
        else
                "$tool" target "${where[@]}" --lun mem:32M >"$out/target" 2>&1 &
        fi
        is_up "$tool" host luns "${where[@]}"
}

target_up() {
        wire_up || return
        if [ "$kind" = srp ]; then
                srp_up
                return
        fi
        if [ "$kind" != tcp ]; then
                transport=rdma
                rdma_up "$kind" || return
        fi
        where=(-t $transport -a 10.0.0.2 -n "$nqn")
        if [ $who = kernel ]; then
                nvmet_up $transport 10.0.0.2 $nqn /dev/ram0
                return
        fi
        "$tool" target "${where[@]}" --ns mem:64M >"$out/target" 2>&1 &
        is_up "$tool" host identify "${where[@]}"
}

kernel_tells() {
        rm -f "$out"/dmesg* "$out/said"
        dmesg -C
        dmesg -n 4 # the console is slow
        echo $hung >/proc/sys/kernel/hung_task_timeout_secs
        echo 1 >/proc/sys/kernel/hung_task_check_interval_secs
        echo -1 >/proc/sys/kernel/hung_task_warnings
}

play() { # SUBCOMMAND OPTION...
        local sub=$1
        shift
        "$tool" fuzz "$sub" "${where[@]}" --allow-write --settle 30 --hang 5000 \
                --oracle "$oracle" "$@"
}

# Whether fuzz repro says of a finding what its first line says.
is_again() { # FILE OPTION...
        local want said wait=()
        want=$(sed -n '1s/^# //p' "$1")
        [[ $want != oracle* ]] || wait=("${late[@]}")
        said=$(play repro ${wait[@]+"${wait[@]}"} "$@" 2>&1 | tee -a "$out/said")
        case $want in
        rule*) grep -q "^$(echo "$want" | sed 's/^rule //; s/: .*//'): " <<<"$said" ;;
        oracle*)
                while read -r said; do
                        [[ $want != "${said:0:100}"* ]] || return 0
                done < <(sed -nE '/^oracle: /{s/:/ /;s/  / /;s/[0-9]+/#/g;p}' <<<"$said")
                return 1
                ;;
        *) grep -q "^${want%% *}" <<<"$said" ;;
        esac
}

again() { # FILE OPTION...
        local n=0
        for _ in $(seq "$times"); do
                ! is_again "$@" || n=$((n + 1))
        done
        echo "${1##*/}: again $n of $times times"
        [ $n -gt 0 ]
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
        leaks
        "$here/kernel_log.sh" "$out/dmesg" >/dev/null
        echo 'complaints in the kernel log, and how often:'
        [ ! -e "$out/dmesg.bad" ] || sed -E 's/[PT]ID: *[0-9]+//; s/kworker[^ ]*/kworker/' "$out/dmesg.bad" |
                sort | uniq -c
}

main() {
        local rc
        target_up || exit 2
        kernel_tells
        if [ "$seconds" = again ]; then
                again "$@"
                exit
        fi
        [ ! -e $debug/kmemleak ] || echo clear >$debug/kmemleak
        play remote "${late[@]}" --time "$seconds" --look 3000 --minimise 180 -o "$out/finds" "$@" | tee "$out/log"
        rc=${PIPESTATUS[0]}
        summary
        exit "$rc"
}

main "$@" # read as a whole: the file may change while it runs
