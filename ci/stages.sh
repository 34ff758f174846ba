# SPDX-License-Identifier: BSD-3-Clause
# Shared by ci/test and ci/nightly: stages run in lanes side by side, and the account at the end.
# Source it after lib.sh. A stage is a function stage_NAME; what it prints is kept in
# out/ci/NAME.log.
export NVMFSPEC_NEEDS=fail # ci/setup has installed what tests compare with
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
export NVMFSPEC=$root/build/nvmfspec

# check COMMAND...: a step of a stage; where it fails, the stage has failed, and goes on.
check() { "$@" || { echo "FAILED $*"; failed=yes; }; }

# What was skipped is said with its reason at the end, never silently; and what took longest.
# A lane runs in the background, where the shell has SIGINT ignored; tests send it.
run_pytest() {
        check env --default-signal=INT,QUIT \
                "$python" -m pytest -p no:cacheprovider -rsfE --durations=15 "$@"
}

# The programs' tests wait more than they compute, so each processor has more than one worker; tests
# that share what is dear to make stay in one of them (their xdist_group).
run_workers() {
        local each=$1
        shift
        run_pytest -n $((each * jobs)) --dist loadgroup "$@"
}

# --- running them -----------------------------------------------------------------

# In a subshell, so that a build that fails ends the stage, and no more.
run_stage() { # NAME
        local stage=$1 log=out/ci/$1.log began=$SECONDS status=0 pid
        : >"$log"
        (
                trap 'times >"out/ci/$stage.times"' EXIT
                failed=''
                "stage_$1"
                [ -z "$failed" ]
        ) >"$log" 2>&1 &
        pid=$!
        [ -z "$live" ] || tail -n +1 -s 0.1 --pid="$pid" -f "$log"
        wait "$pid" || status=$?
        [ -n "$live" ] || flock out/ci cat "$log"
        echo "$1 $status $((SECONDS - began))" >>out/ci/results
}

# What a log says has failed: tests of pytest and ctest, steps of check, findings of lint.
names_of_failed() { # NAME
        grep -hE '^(FAILED|ERROR) |^[[:space:]]+[0-9]+ - .*\(.*\)$|^lint: .|^fail |: NOT FOUND' \
                "out/ci/$1.log" | sed 's/^[[:space:]]*/    /' | sort -u
}

account() {
        local stage status wall cpu broken=()
        printf '\n%-12s %8s %8s\n' stage 'wall s' 'CPU s'
        while read -r stage status wall; do
                cpu=$(sed -n '2s/[ms]/ /gp' "out/ci/$stage.times" |
                        awk '{ printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }')
                [ "$status" = 0 ] || broken+=("$stage")
                printf '%-12s %8d %8s  %s\n' "$stage" "$wall" "$cpu" \
                        "$([ "$status" = 0 ] && echo passed || echo FAILED)"
        done <out/ci/results
        printf '%-12s %8d\n' all "$SECONDS"
        [ ${#broken[@]} != 0 ] || return 0
        printf '\nci/%s: FAILED:\n' "${0##*/}"
        for stage in "${broken[@]}"; do
                echo "  $stage (out/ci/$stage.log)"
                names_of_failed "$stage" || tail -n 3 "out/ci/$stage.log"
        done
        return 1
}

lane() { # [-n] STAGE...: one after the other; -n: nicely
        local stage
        set +m
        [ "$1" != -n ] || { shift; renice -n 10 "$BASHPID" >/dev/null; }
        for stage in "$@"; do
                echo "== stage $stage"
                run_stage "$stage"
        done
}

# run_lanes WAITING [COMPUTING]: two lists of stages. The second gets the processor where the first
# leaves it, so that tests with clocks in them are not disturbed.
run_lanes() {
        local stage live='' lanes=()
        for stage in $1 ${2-}; do
                declare -F "stage_$stage" >/dev/null || die "no stage '$stage'; see the head of ${0##*/}"
        done
        [ -n "${2-}" ] || live=yes
        rm -rf out/ci
        mkdir -p out/ci
        touch out/ci/results
        set -m # lanes in process groups of their own, so that they can be ended whole
        # shellcheck disable=SC2086 # lists of names
        lane $1 </dev/null &
        lanes+=($!)
        # shellcheck disable=SC2086
        [ -z "${2-}" ] || { lane -n $2 </dev/null & lanes+=($!); }
        set +m
        trap 'for l in "${lanes[@]}"; do kill -- -"$l" || true; done 2>/dev/null; exit 130' INT TERM HUP
        wait "${lanes[@]}" || true
        [ "$(wc -l <out/ci/results)" = "$(echo $1 ${2-} | wc -w)" ] || die 'not all stages ended'
        account || exit 1
        printf '\n%s: all stages passed: %s (%d s)\n' "ci/${0##*/}" "$(echo $1 ${2-})" "$SECONDS"
}
