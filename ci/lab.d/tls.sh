# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced in the guest, after nvmet.sh: TLS of the kernel's NVMe/TCP host and target. What it runs
# ci/lab --tls has brought (LAB_TOOLS).

# tool PROGRAM [ARGUMENT...]: tlshd, nvme or keyctl, with the libraries of its release.
tool() {
    local program=$1
    shift
    "$LAB_TOOLS/lib/ld-linux-x86-64.so.2" --library-path "$LAB_TOOLS/lib" "$LAB_TOOLS/bin/$program" "$@"
}

# tlshd_up DIR [KEYLOG]: starts tlshd for keys of the keyring .nvme; its words are in DIR/tlshd.log, the
# secrets of its connections in KEYLOG.
tlshd_up() {
    local i
    printf '%s\n' '[debug]' loglevel=1 '[authenticate]' keyrings=.nvme >"$1/tlshd.conf"
    [ -z "${2-}" ] || export SSLKEYLOGFILE=$2
    LD_PRELOAD=$LAB_TOOLS/tlshd_shim.so tool tlshd -s -c "$1/tlshd.conf" >"$1/tlshd.log" 2>&1 &
    unset SSLKEYLOGFILE
    for i in $(seq 600); do
        grep -q "Keyring '.nvme' linked" "$1/tlshd.log" && return
        sleep 0.1
    done
    cat "$1/tlshd.log" >&2
    return 1
}

# tls_key HASH: a new configured PSK, for SHA-256 (1) or SHA-384 (2).
tls_key() { tool nvme gen-tls-key -m "$1" -n nqn.2026-01.lab:any -c nqn.2026-01.lab:any; }

# tls_insert KEY HOSTNQN SUBNQN VERSION [-C]: what becomes of it for these two, as libnvme derives it, with an
# identity of this version, into the keyring; -C: derived as libnvme once did.
tls_insert() {
    tool nvme check-tls-key -i -d "$1" -n "$2" -c "$3" -I "$4" "${@:5}" >/dev/null
}

tls_forget() { tool keyctl clear %:.nvme; } # all of them

# tls_tell DIR: to stderr, after a failure: what the kernel says, what it has counted (TlsDecryptError: records that it
# could not decrypt), and what the tlshd of DIR says.
tls_tell() {
    kernel_log | tail -n 30 >&2
    grep -v '\b0$' /proc/net/tls_stat >&2 || :
    tail -n 30 "$1/tlshd.log" >&2
}

# nvmet_tls TRADDR SUBNQN BACKING required|"not required": as nvmet_up, over TLS.
nvmet_tls() {
    local port=$nvmet/ports/1
    load nvmet nvmet-tcp brd
    nvmet_port "$port" tcp "$1" 4420 &&
        echo tls1.3 >"$port/addr_tsas" &&
        echo "$4" >"$port/addr_treq" &&
        nvmet_up tcp "$1" "$2" "$3"
}
