# SPDX-License-Identifier: BSD-3-Clause
# kernel_target.sh [HOST OPTION...]: our host's commands against the kernel's nvmet-tcp.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../../ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel
work=$(mktemp -d)
where=(-t tcp -a 127.0.0.1 -s 4420)
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        "$NVMFSPEC" host "$sub" "${where[@]}" "$@"
}
step() { echo "-- $*"; }

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
where+=("$@")
step discover
ours discover | tee "$work/disc"
grep -q "$nqn" "$work/disc"
where+=(-n "$nqn")
step identify
ours identify -o json >"$work/id.json"
grep -q "$nqn" "$work/id.json"
ours list
ours get-log smart >/dev/null
step "write, read back, compare"
dd if=/dev/urandom of="$work/pat" bs=4k count=8 status=none
ours write -N 1 --slba 0 --blocks 64 --file "$work/pat"
ours read -N 1 --slba 0 --blocks 64 --file "$work/back"
cmp "$work/pat" "$work/back"
cmp -n 32768 "$work/pat" /dev/ram0
ours flush -N 1
ours zeroes -N 1 --slba 0 --blocks 8
step verify
ours verify -N 1 --range 8M --passes 1 -i 2
nvmet_down
dmesg_clean
