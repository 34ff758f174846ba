# SPDX-License-Identifier: BSD-3-Clause
# spdk_rdma.sh SPDK rxe|siw [CONFORM OPTION...]: the suite against SPDK's nvmf_tgt over soft RDMA, SPDK being the folder
# of a built SPDK (--with-rdma). What is known of it stands in conformance/baseline/spdk-tcp.txt and spdk-rdma.txt. For
# the lab's guest, with --mem 4000 --timeout 1200.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
spdk=$1 device=$2
shift 2
nqn=nqn.2026-01.org.example:spdk
work=$(mktemp -d)

# Pools that fit in a guest; memory without hugepages, which the device locks.
cat >"$work/config" <<END
{"subsystems": [
 {"subsystem": "iobuf", "config": [
  {"method": "iobuf_set_options", "params": {"small_pool_count": 1024, "large_pool_count": 256}}]},
 {"subsystem": "bdev", "config": [
  {"method": "bdev_malloc_create", "params": {"name": "Malloc0", "num_blocks": 65536, "block_size": 512}},
  {"method": "bdev_malloc_create", "params": {"name": "Malloc1", "num_blocks": 65536, "block_size": 512}},
  {"method": "bdev_wait_for_examine"}]},
 {"subsystem": "nvmf", "config": [
  {"method": "nvmf_create_transport", "params": {"trtype": "RDMA", "max_srq_depth": 256, "max_queue_depth": 64}},
  {"method": "nvmf_create_subsystem", "params": {"nqn": "$nqn", "allow_any_host": true}},
  {"method": "nvmf_subsystem_add_ns", "params": {"nqn": "$nqn", "namespace": {"bdev_name": "Malloc0"}}},
  {"method": "nvmf_subsystem_add_ns", "params": {"nqn": "$nqn", "namespace": {"bdev_name": "Malloc1"}}},
  {"method": "nvmf_subsystem_add_listener", "params": {"nqn": "$nqn", "listen_address":
   {"trtype": "RDMA", "adrfam": "IPv4", "traddr": "10.0.0.2", "trsvcid": "4420"}}}]}]}
END
cat >"$work/start" <<END
ulimit -l unlimited
export LD_LIBRARY_PATH=$spdk/build/lib RUNTIME_DIRECTORY=$work
[ ! -e $work/pid ] || kill -9 \$(cat $work/pid) 2>/dev/null || true
: >$work/log
$spdk/build/bin/nvmf_tgt -c $work/config -r $work/sock --no-huge -s 700 -m 1 --no-pci \
        --disable-cpumask-locks >$work/log 2>&1 &
echo \$! >$work/pid
for i in \$(seq 600); do
        ! grep -q 'NVMe/RDMA Target Listening' $work/log || exit 0
        kill -0 \$! 2>/dev/null || break
        sleep 0.1
done
tail -5 $work/log >&2
exit 1
END

wire_up
rdma_up "$device"
# the first address resolution takes its time
timeout 5 bash -c 'echo >/dev/tcp/10.0.0.2/9' 2>/dev/null || true
bash "$work/start"
status=0
"$NVMFSPEC" conform -t rdma -a 10.0.0.2 -s 4420 -n "$nqn" --allow-write 1 --brief --jobs 1 --timeout-scale $((2 * ${NVMFSPEC_SPEED:-1})) \
        --restart "bash $work/start" --baseline "$root/conformance/baseline/spdk-tcp.txt" \
        --baseline "$root/conformance/baseline/spdk-rdma.txt" --baseline-lax "$@" || status=$?
exit $status
