# SPDX-License-Identifier: BSD-3-Clause
# verbs.sh VERBS_PAIR rxe|siw CASE...: the cases of verbs_pair, each a process of its own, on two soft
# devices. What fails doesn't keep the others from running.
set -u
. "$(dirname "$0")/../../../../ci/lab.d/net.sh"
. "$(dirname "$0")/../../../../ci/lab.d/nvmet.sh"
pair=$1 kind=$2
shift 2
wire_up
addresses() { # a link that was down has lost them
        ip -6 addr replace fd00::1/64 dev v0 nodad
        ip -6 addr replace fd00::2/64 dev v1 nodad
}
addresses
rdma_up "$kind" || exit 2
for case; do
        echo "== $case"
        addresses
        timeout 120 "$pair" "$case" || echo "status $?"
done
echo "== links"
sleep 0.2
rdma link show
echo "== end"
dmesg_clean
