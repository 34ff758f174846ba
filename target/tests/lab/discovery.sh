# SPDX-License-Identifier: BSD-3-Clause
# discovery.sh: a persistent discovery controller stays alive by Keep Alive and reports a change.
. "$(dirname "$0")/lib.sh"

config() { # config SUBSYSTEM...: behind the port
        local behind subsystems
        behind=$(printf ', "%s"' "$@")
        subsystems=$(printf ', { "nqn": "%s", "attr": { "allow_any_host": "1" }, "allowed_hosts": [],
    "namespaces": [] }' "$nqn" "${nqn}2")
        cat >"$work/target.json" <<J
{ "hosts": [],
  "ports": [ { "portid": 1, "addr": { "trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1",
               "trsvcid": "4420" }, "subsystems": [ ${behind#, } ], "referrals": [] } ],
  "subsystems": [ ${subsystems#, } ] }
J
}
reported() { grep -q "Asynchronous Event Request: completed" "$work/target.log"; }
listed() { nvme discover -d "$1" | grep -c "subnqn: *$nqn"; }

config "$nqn"
target_up --trace --config "$work/target.json"
step "a persistent discovery controller outlives its KATO"
outlives() {
        nvme disconnect-all
        nvme discover -t tcp -a 127.0.0.1 -s 4420 --persistent --keep-alive-tmo=2 >/dev/null || return
        ctrl=$(basename /sys/class/nvme/nvme*)
        sleep 6
        [ "$(cat "/sys/class/nvme/$ctrl/state")" = live ] && [ "$(listed "$ctrl")" = 1 ]
}
three_tries outlives
step "what changes for nobody is not reported"
kill -HUP "$target_pid"
sleep 1
if reported; then echo "reported a change that is none" >&2; exit 1; fi
step "a new subsystem is reported"
config "$nqn" "${nqn}2"
kill -HUP "$target_pid"
wait_for 60 reported
[ "$(listed "$ctrl")" = 2 ]
nvme disconnect -d "$ctrl"
target_down
dmesg_clean
