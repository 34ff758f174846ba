# SPDX-License-Identifier: BSD-3-Clause
# kernel_authentication.sh DIR: the kernel's host authenticates itself to the kernel's target, mutually, then
# alone, then with a wrong key; DIR/authentication.pcap has what they said. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
key=$(nvme gen-dhchap-key -m 1 -n "$host")
ctrl_key=$(nvme gen-dhchap-key -m 0 -n "$nqn")
connect() { nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q "$host" "$@"; }

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
nvmet_host "$nqn" "$host" "$key" "$ctrl_key" 'hmac(sha256)' ffdhe2048
capture_wire "$1/authentication.pcap" lo
dump=$!
for keys in "--dhchap-secret=$key --dhchap-ctrl-secret=$ctrl_key" "--dhchap-secret=$key"; do
        connect $keys
        nvdev "$nqn" >/dev/null
        nvme disconnect -n "$nqn"
done
if connect --dhchap-secret="$ctrl_key"; then exit 1; fi
sleep 1
kill "$dump"
wait "$dump" || true
nvmet_down
