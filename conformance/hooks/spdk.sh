#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# For `nvmfspec conform --role host --hook conformance/hooks/spdk.sh`: SPDK's host over TCP, by its bdevperf. SPDK is
# the folder of a built SPDK. It needs no hugepages and no root, cannot be told to be idle, and asks for no discovery.
set -euo pipefail
[ "$NVMF_TRTYPE" = tcp ] || { echo "over TCP only" && exit 77; }
[ "$NVMF_IDLE" = 0 ] || { echo "bdevperf is never idle" && exit 77; }
[ "$NVMF_CONCAT" = 0 ] || { echo "SPDK generates no PSK" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$SPDK/build/lib RUNTIME_DIRECTORY=$work

keys='' names=''
key() { # OPTION NAME VALUE: of bdev_nvme_attach_controller
        [ -n "$3" ] || return 0
        (umask 077 && printf %s "$3" >"$work/$2")
        keys+=${keys:+,}'{"method": "keyring_file_add_key", "params": {"name": "'$2'", "path": "'$work/$2'"}}'
        names+=', "'$1'": "'$2'"'
}
key dhchap_key host "$NVMF_DHCHAP_SECRET"
key dhchap_ctrlr_key controller "$NVMF_DHCHAP_CTRL_SECRET"
key psk tls "$NVMF_TLS_KEY"
flag() { if [ "$1" = 1 ]; then echo true; else echo false; fi; }

cat >"$work/config" <<J
{"subsystems": [{"subsystem": "keyring", "config": [$keys]}, {"subsystem": "bdev", "config": [
 {"method": "bdev_nvme_set_options", "params": {"bdev_retry_count": 0, "transport_retry_count": 0,
  "keep_alive_timeout_ms": $((NVMF_KATO ? NVMF_KATO * 1000 : 10000))}},
 {"method": "bdev_nvme_attach_controller", "params": {"name": "N", "trtype": "TCP", "adrfam": "IPv4",
  "traddr": "$NVMF_TRADDR", "trsvcid": "$NVMF_TRSVCID", "subnqn": "$NVMF_SUBNQN",
  "hdgst": $(flag "$NVMF_HDGST"), "ddgst": $(flag "$NVMF_DDGST")$names}}]}]}
J
timeout -s KILL $((NVMF_SECONDS * 2 / 3)) "$SPDK/build/examples/bdevperf" --json "$work/config" -r "$work/rpc" \
        --no-huge -s 1024 -m 1 --no-pci --disable-cpumask-locks -q 8 -o 16384 -w verify -t 1 2>&1
