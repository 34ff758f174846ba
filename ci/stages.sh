# SPDX-License-Identifier: BSD-3-Clause
# Shared by ci/test and ci/nightly: stages run in lanes side by side, a second look at tests that
# failed, and the account at the end. Source it after lib.sh. A stage is a function stage_NAME; what
# it prints is kept in out/ci/NAME.log.
#
# A failure has to happen again: a test that failed is run twice more, alone, when the lanes have
# ended. Failed again: the run is red. Passed both times: FLIPPED, named at the end with what it
# failed by at first; at most $second_looks of them in a run. Passed once and failed again: FLIPPED,
# too, and the run is red. There is no second look for builds, lint, reports of sanitizers, and none at
# all with once=yes.
#
# A stage that takes longer than its budget is ended: NO TIME, with the tests that were running, and exit
# status 3 if nothing has failed. No verdict is never green.
#
# out/ci: NAME.log     what a stage has printed
#         NAME.status  its exit status and seconds
#         NAME.times   its CPU time
#         NAME.costs   of each test: CPU seconds, wall seconds, its name
#         NAME.failed  tests that failed: what it is called, first line of why, command (by tabs)
#         NAME.san.*   reports of sanitizers, those of programs whose end nobody looks at, too
#         NAME.late    it had no time: what was running
#         running/     by worker: the test that it runs, and since when
#         again/       what the second looks printed
ci_out=${NVMFSPEC_CI_OUT:-$root/out/ci}
second_looks=3
declare -A floor # by stage: so many tests pass in it, at least
declare -A budget # by stage: seconds on a machine of usual speed, or those of all others:
usual_budget=1500
hard_end=${NVMFSPEC_HARD_END:-4800} # seconds for all of it, however slow the machine
once=''
read -r speed figures <<<"$("$root/ci/speed")"
patience=${NVMFSPEC_PATIENCE:-$((4 * speed))} # limits of tests are for what hangs

export NVMFSPEC_NEEDS=fail # ci/setup has installed what tests compare with
export NVMFSPEC_PATIENCE=$patience
export NVMFSPEC_SPEED=$speed # limits in what the guest's suites judge, too, are for a machine of usual speed
export NVMFSPEC_RUNNING=$ci_out/running
export NVMFSPEC=$root/build/nvmfspec

# check COMMAND...: a step of a stage; where it fails, the stage has failed, and goes on.
check() { "$@" || fail "$*"; }
fail() { echo "ci: FAILED $*"; failed=yes; }

# test_failed NAME WHY COMMAND...: a test that has failed, and how it is run alone.
test_failed() {
        printf '%s\t%s\t%s\n' "$1" "$2" "$(printf '%q ' "${@:3}")" >>"$ci_out/$stage.failed"
}

# What was skipped is said with its reason at the end, never silently; and what cost most.
# A lane runs in the background, where the shell has SIGINT ignored; tests send it.
run_pytest() {
        local status=0 list=$ci_out/$stage.pytest name why
        local pytest=(env --default-signal=INT,QUIT NVMFSPEC="$NVMFSPEC" ${NVMFSPEC_TSAN:+NVMFSPEC_TSAN="$NVMFSPEC_TSAN"}
                NVMFSPEC_SPEED="$NVMFSPEC_SPEED" NVMFSPEC_PATIENCE="$NVMFSPEC_PATIENCE" "$python" -m pytest -p no:cacheprovider)
        rm -f "$list"
        rounds=$((rounds + 1))
        NVMFSPEC_FAILED=$list NVMFSPEC_COSTS=$ci_out/$stage.costs "${pytest[@]}" -rsfE \
                --basetemp="$tests_tmp/$stage$rounds" "$@" || status=$?
        say "what cost most: CPU seconds, wall seconds, test"
        [ ! -e "$ci_out/$stage.costs" ] || sort -rn "$ci_out/$stage.costs" | sed -n 1,15p
        [ $status != 0 ] || return 0
        if [ $status != 1 ] || [ ! -s "$list" ]; then # it did not get to the end
                fail "pytest, exit status $status"
                return
        fi
        while IFS=$'\t' read -r name why; do
                test_failed "$name" "$why" "${pytest[@]}" -rs "$name"
        done <"$list"
}

# The programs' tests wait more than they compute, so each processor has more than one worker; tests
# that share what is dear to make stay in one of them (their xdist_group).
run_workers() {
        local each=$1
        shift
        run_pytest -n $((each * jobs)) --dist loadgroup "$@"
}

# run_ctest PRESET [OPTION]...
run_ctest() {
        local dir=build name
        [ "$1" = release ] || dir=build-$1
        ! ctest --preset "$@" || return 0
        local list=$dir/Testing/Temporary/LastTestsFailed.log
        [ -s "$list" ] || { fail ctest; return; }
        while IFS=: read -r _ name; do
                test_failed "$name" "$(why_ctest "$name" "$dir")" ctest --preset "$1" -R "^$name\$"
        done <"$list"
}

# The first assertion that failed in a test of ctest.
why_ctest() { # NAME BUILD
        awk -v test="Test: $1" 'index($0, test) && !in_it { in_it = 1 }
                in_it && /\[  ERROR   \]|Assert|error:|imeout/ { print; exit }' \
                "$2/Testing/Temporary/LastTest.log" | tr '\t' ' ' | cut -c1-200
}

# Whether the lab runs here; where it does not, the stage has failed, unless that is known.
has_lab() {
        if ci/lab --probe; then return 0; fi
        printf '%s\n' '' '!! THE LAB DOES NOT RUN ON THIS MACHINE (reason above):' \
                '!! no test against the Linux kernel host and target.' ''
        [ "${NVMFSPEC_LAB-}" = no ] || fail 'no lab (NVMFSPEC_LAB=no where that is known)'
        return 1
}

# Nor has a guest the machine's speed: what is waited for in it has its own.
as_fast_as_the_guest() {
        local slower told
        read -r slower told <<<"$("$root/ci/speed" --guest)"
        printf ' %s' "$told" >"$ci_out/guest.speed"
        [ "${slower:-1}" -gt "$speed" ] || return 0
        NVMFSPEC_PATIENCE=$((NVMFSPEC_PATIENCE / speed * slower)) NVMFSPEC_SPEED=$slower
}

# sanitized COMMAND...: reports of sanitizers go to files of the stage, and fail it, whoever ran the
# program and looked at its end. 99 is no exit status of ours.
sanitized() {
        local common=exitcode=99:log_path=$ci_out/$stage.san
        ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:quarantine_size_mb=32:$common \
                UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:$common \
                TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:$common "$@"
}

sanitizer_reports() { # STAGE
        local file
        for file in "$ci_out/$1".san.*; do
                [ -s "$file" ] && echo "$file"
        done
        return 0
}

# How many tests pytest and ctest have passed, as a stage's log says.
count_passed() { # STAGE
        { grep -oE '(^|[ =])[0-9]+ passed|failed out of [0-9]+' "$ci_out/$1.log" || true; } |
                awk '{ n += /passed/ ? $(NF - 1) : $NF } END { print n + 0 }'
}

# --- running them -----------------------------------------------------------------

# In a subshell, so that a build that fails ends the stage, and no more. Its status: 0 passed, 4 tests
# failed that are to be looked at again, 1 failed.
run_stage() { # NAME
        local stage=$1 log=$ci_out/$1.log began=$SECONDS status=0 pid
        : >"$log"
        set -m # in a process group of its own, so that it can be ended whole
        (
                set +m
                [ -z "$nicely" ] || renice -n 10 "$BASHPID" >/dev/null
                trap 'times >"$ci_out/$stage.times"' EXIT
                failed=''
                "stage_$1"
                for file in $(sanitizer_reports "$1"); do
                        fail "a sanitizer has reported ($file):"
                        cat "$file"
                done
                passed=$(count_passed "$stage")
                [ "$passed" -ge "${floor[$stage]:-0}" ] || fail "$passed passed, of at least ${floor[$stage]}"
                [ -z "$failed" ] || exit 1
                [ ! -e "$ci_out/$stage.failed" ] || exit 4
        ) >"$log" 2>&1 &
        pid=$!
        set +m
        echo "$pid" >"$ci_out/$1.pid"
        keep_budget "$1" "$pid" &
        [ -z "$live" ] || tail -n +1 -s 0.1 --pid="$pid" -f "$log"
        wait "$pid" || status=$?
        rm "$ci_out/$1.pid"
        [ ! -e "$ci_out/$1.late" ] || status=3
        [ $status != 4 ] || [ -s "$ci_out/$1.failed" ] || status=1
        [ -n "$live" ] || flock "$ci_out" cat "$log"
        echo "$status $((SECONDS - began))" >"$ci_out/$1.status"
}

# keep_budget STAGE PID: ends it when its time is up.
keep_budget() {
        local end=$((SECONDS + ${budget[$1]:-$usual_budget} * speed)) now=$SECONDS file
        [ "$end" -lt "$hard_end" ] || end=$hard_end
        while kill -0 "$2" 2>/dev/null; do
                [ "$SECONDS" -ge "$end" ] || { sleep 0.5; continue; }
                for file in "$NVMFSPEC_RUNNING"/*; do
                        [ ! -e "$file" ] || sed "s/$/ (for $((EPOCHSECONDS - $(stat -c %Y "$file"))) s)/" "$file"
                done >"$ci_out/$1.late"
                echo "ci: NO TIME after $((SECONDS - now)) s" | cat - "$ci_out/$1.late" >>"$ci_out/$1.log"
                kill -- "-$2"
                return
        done
}

lane() { # [-n] STAGE...: one after the other; -n: nicely
        local stage nicely=''
        set +m
        [ "$1" != -n ] || { shift; nicely=yes; }
        for stage in "$@"; do
                echo "== stage $stage"
                run_stage "$stage"
        done
}

# In a process group of its own, so that it can be ended whole.
start_lane() {
        set -m
        lane "$@" </dev/null &
        lanes+=($!)
        set +m
}

# --- the second look -----------------------------------------------------------------

# Tests that failed in stages that failed by nothing else: "STAGE TAB NAME TAB WHY TAB COMMAND".
to_look_at() {
        local stage
        for stage in "${stages[@]}"; do
                [ "$(status_of "$stage")" = 4 ] && sed "s/^/$stage\t/" "$ci_out/$stage.failed"
        done
        return 0
}

status_of() { [ ! -e "$ci_out/$1.status" ] || cut -d' ' -f1 "$ci_out/$1.status"; }

# twice COMMAND: whether it passes two times; else the number of the try that failed.
twice() { # LOG STAGE COMMAND
        local try stage=$2
        for try in 1 2; do
                sanitized timeout $((patience * 300)) bash -c "$3" </dev/null >"$1.$try.log" 2>&1 || return $try
                [ -z "$(sanitizer_reports "$2")" ] || return 1
        done
}

second_look() {
        local stage name why command n=0 list failed_in
        list=$(to_look_at)
        [ -n "$list" ] && [ -z "$once" ] || return 0
        if [ "$(echo "$list" | wc -l)" -gt $second_looks ]; then
                echo "more than $second_looks tests failed: no second look"
                return 0
        fi
        say "a second look at what failed, alone"
        mkdir -p "$ci_out/again"
        while IFS=$'\t' read -r stage name why command; do
                n=$((n + 1)) failed_in=0
                twice "$ci_out/again/$n" "$stage" "$command" || failed_in=$?
                if [ $failed_in = 0 ]; then
                        printf '%s\t%s\n' "$name" "$why" >>"$ci_out/$stage.flipped"
                        continue
                fi
                tail -n 60 "$ci_out/again/$n".*.log
                printf '%s\n' "$name" >>"$ci_out/$stage.red"
                [ $failed_in = 1 ] || printf '%s\t%s\n' "$name" "$why" >>"$ci_out/$stage.unsteady"
        done <<<"$list"
        for stage in "${stages[@]}"; do
                [ ! -e "$ci_out/$stage.flipped" ] || [ -e "$ci_out/$stage.red" ] ||
                        sed -i 's/^4 /0 /' "$ci_out/$stage.status"
        done
}

# --- the account -----------------------------------------------------------------------

# What has failed in a stage for good: tests, steps, findings of lint, plants.
names_of_failed() { # NAME
        local flipped=$ci_out/$1.flipped
        touch "$ci_out/$1.failed" "$flipped"
        {
                awk -F'\t' 'FILENAME == ARGV[1] { passed[$1]; next } !($1 in passed) { print $1 ": " $2 }' \
                        "$flipped" "$ci_out/$1.failed"
                grep -hE '^(ci: FAILED|lint:) .|^ERROR |: NOT FOUND' "$ci_out/$1.log" || true
        } | sed 's/^[[:space:]]*/    /' | awk '!seen[$0]++' | grep .
}

verdict_of() { # NAME
        local status flipped=0
        status=$(status_of "$1")
        [ ! -e "$ci_out/$1.flipped" ] || flipped=$(wc -l <"$ci_out/$1.flipped")
        if [ -z "$status" ]; then
                echo 'DID NOT END'
        elif [ "$status" = 3 ]; then
                echo "NO TIME: $(sed 's/^/in /' "$ci_out/$1.late" | paste -sd,)"
        elif [ "$status" != 0 ]; then
                echo FAILED
        else
                echo "passed$([ "$flipped" = 0 ] || echo ", $flipped FLIPPED")"
        fi
}

account() {
        local stage cpu verdict broken=() late=()
        printf '\n%-12s %8s %8s\n' stage 'wall s' 'CPU s'
        for stage in "${stages[@]}"; do
                cpu=$(sed -n '2s/[ms]/ /gp' "$ci_out/$stage.times" 2>/dev/null |
                        awk '{ printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }')
                verdict=$(verdict_of "$stage")
                case $verdict in
                passed*) ;;
                'NO TIME'*) late+=("$stage") ;;
                *) broken+=("$stage") ;;
                esac
                printf '%-12s %8d %8s  %s\n' "$stage" "$(cut -d' ' -f2 "$ci_out/$stage.status" 2>/dev/null || echo 0)" \
                        "$cpu" "$verdict"
        done
        printf '%-12s %8d\n' all "$SECONDS"
        printf 'speed: 1/%d of a usual machine (times its: %s); kernel %s\n' "$speed" \
                "$figures$(cat "$ci_out/guest.speed" 2>/dev/null || true)" "$(uname -r)"
        cat "$ci_out/machine" 2>/dev/null || true
        grep -hm1 '^uml: ready' "$ci_out"/*.log 2>/dev/null | head -n 1 | sed 's/^uml: ready.*-\([0-9][0-9.]*\)-.*/guest: kernel \1/' || true
        told_of flipped "FLIPPED: failed once, passed twice alone (at most $second_looks are let pass)"
        told_of unsteady 'FLIPPED, and not let pass: failed, passed, failed again'
        [ ${#late[@]} = 0 ] || printf '\nci/%s: NO TIME: %s\n' "${0##*/}" "${late[*]}"
        [ ${#broken[@]} != 0 ] || return $((${#late[@]} ? 3 : 0))
        printf '\nci/%s: FAILED:\n' "${0##*/}"
        for stage in "${broken[@]}"; do
                echo "  $stage (${ci_out#"$root"/}/$stage.log)"
                names_of_failed "$stage" || tail -n 3 "$ci_out/$stage.log"
        done
        return 1
}

told_of() { # KIND OF WHAT
        local files=("$ci_out"/*."$1")
        cat "${files[@]}" 2>/dev/null | grep -q . || return 0
        printf '\n%s:\n' "$2"
        sed 's/^/    /; s/\t/: /' "${files[@]}"
}

end_lanes() {
        local group
        for group in "${lanes[@]}" $(cat "$ci_out"/*.pid 2>/dev/null); do
                kill -- "-$group" || true
        done 2>/dev/null
        kill "$watch" || true
        exit 130
}

# run_lanes PHASE...: one after the other. A phase is lists of stages with `|` between them: lanes, side by side. A lane
# that begins with -n gets the processor where the others leave it, so that tests with clocks in them are not disturbed.
run_lanes() {
        local phase lane stage live='' lanes=() stages=() tests_tmp rounds=0 watch status=0
        for stage in $(tr "|" " " <<<"$*"); do
                [ "$stage" != -n ] || continue
                declare -F "stage_$stage" >/dev/null || die "no stage '$stage'; see the head of ${0##*/}"
                stages+=("$stage")
        done
        [[ $# -gt 1 || $1 == *'|'* ]] || live=yes
        rm -rf "$ci_out"
        mkdir -p "$ci_out/running"
        "$root/ci/speed" --watch >"$ci_out/machine" </dev/null &
        watch=$!
        tests_tmp=$(mktemp -d) # short, for names of sockets
        trap end_lanes INT TERM HUP
        for phase in "$@"; do
                while read -r lane; do
                        # shellcheck disable=SC2086 # a list of names
                        start_lane $lane
                done <<<"${phase//|/$'\n'}"
                wait "${lanes[@]}" || true
                lanes=()
        done
        second_look
        kill "$watch" && wait "$watch" || true
        account || status=$?
        [ $status = 0 ] || { echo "what tests wrote: $tests_tmp"; exit $status; }
        rm -rf "$tests_tmp"
        printf '\n%s: all stages passed: %s (%d s)\n' "ci/${0##*/}" "${stages[*]}" "$SECONDS"
}
