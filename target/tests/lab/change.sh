# SPDX-License-Identifier: BSD-3-Clause
# change.sh: the configuration changes under a connected kernel host, which learns of it by AER.
. "$(dirname "$0")/lib.sh"

config() { # config FIRST_NAMESPACE [SECOND_NAMESPACE]
        local second=
        [ $# -lt 2 ] || second=", { \"nsid\": 2, \"enable\": 1, \"device\": { \"path\": \"$2\" } }"
        cat >"$work/target.json" <<J
{ "hosts": [],
  "ports": [ { "portid": 1, "addr": { "trtype": "$trtype", "adrfam": "ipv4", "traddr": "$addr",
               "trsvcid": "4420" }, "subsystems": [ "$nqn" ], "referrals": [] } ],
  "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": "1" }, "allowed_hosts": [],
    "namespaces": [ { "nsid": 1, "enable": 1, "device": { "path": "$1" } }$second ] } ] }
J
}
size_is() { [ "$(blockdev --getsize64 "$1" 2>/dev/null)" = "$2" ]; }
gone() { [ ! -b "$1" ]; }

config mem:16M
target_up --config "$work/target.json"
dev=$(connect)
size_is "$dev" $((16 << 20))
step "a namespace is added"
config mem:16M mem:8M
kill -HUP "$target_pid"
second=${dev%n1}n2
wait_for 60 size_is "$second" $((8 << 20))
verify_io "$dev"
step "a namespace grows"
config mem:32M mem:8M
kill -HUP "$target_pid"
wait_for 60 size_is "$dev" $((32 << 20))
step "a namespace is removed"
config mem:32M
kill -HUP "$target_pid"
wait_for 60 gone "$second"
step "a broken configuration changes nothing"
echo '{ "subsystems": 5 }' >"$work/target.json"
kill -HUP "$target_pid"
sleep 0.5
verify_io "$dev"
disconnect
target_down
dmesg_clean
