# SPDX-License-Identifier: BSD-3-Clause
# kernel_target.sh tcp|rxe|siw SECONDS [OPTION...]: fuzz remote against the kernel's target, with its
# log as the oracle. Exit: that of fuzz remote, which is not 2 or 3.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
kind=$1 seconds=$2 nqn=nqn.2026-01.lab:kernel
shift 2
transport=tcp
wire_up || exit 2
if [ "$kind" != tcp ]; then
        transport=rdma
        rdma_up "$kind" || exit 2
fi
nvmet_up $transport 10.0.0.2 $nqn /dev/ram0 || exit 2
dmesg -C
# What the kernel says once is said once: the log is emptied as it is read.
bad='BUG|WARNING|KASAN|UBSAN|Oops|general protection|circular|inconsistent lock|hung task|refcount_t'
oracle="! dmesg -c | sed 's/^\[[^]]*\] //' | grep -m1 -E '$bad'"
"$NVMFSPEC" fuzz remote -t $transport -a 10.0.0.2 -n $nqn --time "$seconds" --allow-write \
        --settle 30 --oracle "$oracle" "$@"
