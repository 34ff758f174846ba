/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration that a target is asked for, as plain data: nothing is opened, nothing listens.
 * It comes from the command line or from a file in the format of the kernel's nvmetcli, so that one
 * file drives both targets. In the file values may be strings ("16384", as nvmetcli writes them) or
 * numbers; a key that neither we nor nvmetcli know is an error, unless it begins with "x-".
 *
 * device.path of a namespace is what ns_open() takes: a file or block device, mem:64M, null:1G ...
 */
#ifndef NVMF_TARGET_CONFIG_H
#define NVMF_TARGET_CONFIG_H

#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"

struct config_ns {
        uint32_t nsid;
        bool enable;
        bool has_uuid, has_nguid;
        uint8_t uuid[16], nguid[16];
        char *path;
};

struct config_host {
        char nqn[NQN_MAX + 1];
        struct auth_keys keys; /* without a key: those of the subsystem */
};

struct config_subsystem {
        char nqn[NQN_MAX + 1], serial[21], model[41], firmware[9]; /* "": the default */
        bool allow_any_host;
        uint16_t cntlid_min, cntlid_max, qid_max; /* 0: the default */
        char **hosts;                             /* NQNs */
        unsigned n_hosts;
        struct auth_keys keys; /* with a key: its hosts have to authenticate themselves */
        struct config_ns *ns;
        unsigned n_ns;
};

struct config_referral {
        uint16_t port_id;
        uint8_t trtype, adrfam, treq;
        bool enable;
        char traddr[256], trsvcid[32];
};

struct config_port {
        uint16_t id;
        uint8_t trtype, treq;
        char traddr[256], trsvcid[32];
        char **subsystems; /* NQNs, each of them in config.subsystems */
        unsigned n_subsystems;
        struct config_referral *referrals;
        unsigned n_referrals;
};

struct config {
        struct config_host *hosts; /* that allowed_hosts may name */
        unsigned n_hosts;
        struct config_subsystem *subsystems;
        unsigned n_subsystems;
        struct config_port *ports;
        unsigned n_ports;
};

/*
 * Reads a file into *c (overwritten; free it with config_free() also after a failure). false: error
 * has one line, "FILE: subsystems[0].namespaces[1].nsid: 0 is not from 1 to ...".
 */
bool config_load(struct config *c, const char *file, char *error, size_t size);
void config_free(struct config *c);

/* Building one by hand: the new element, zeroed but for the defaults; NULL without memory. The
 * pointer holds until the next element is added to the same array. */
struct config_subsystem *config_add_subsystem(struct config *c, const char *nqn);
struct config_ns *config_add_ns(struct config_subsystem *s, uint32_t nsid, const char *path);
struct config_port *config_add_port(struct config *c, uint16_t id, const char *traddr,
                                    const char *trsvcid);
struct config_host *config_add_host(struct config *c, const char *nqn);
bool config_add_string(char ***array, unsigned *n, const char *s);

/*
 * What one element alone does not show: duplicate NQNs, NSIDs and port ids, ports that name
 * subsystems which are not there, hosts that are not in hosts[]. config_load() has done it. `what`
 * begins the error line.
 */
bool config_check(const struct config *c, const char *what, char *error, size_t size);

/* What a host of `s` and the subsystem authenticate each other with. */
const struct auth_keys *config_keys(const struct config *c, const struct config_subsystem *s,
                                    const char *hostnqn);

/* Hash function and DH group by name, as nvmetcli ("hmac(sha256)") or by themselves ("sha256",
 * "null", "ffdhe2048"), into a mask of that one; false: no such name. */
bool config_hash(const char *name, uint8_t *hashes);
bool config_group(const char *name, uint8_t *groups);

#endif
