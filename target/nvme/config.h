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
#include "target/nvme/subsystem.h"

struct bdev;

struct config_ns {
        uint32_t nsid;
        struct bdev
            *bdev; /* on this, and path is its name to others; NULL: path is a specification.
                            * Not referenced: the owner of both sees to it. */
        bool enable;
        bool has_uuid, has_nguid;
        uint8_t uuid[16], nguid[16];
        uint32_t anagrpid; /* 0: not said */
        bool masked;       /* attached to these hosts alone, else to every one */
        char **hosts;      /* NQNs */
        unsigned n_hosts;
        char *path;
};

enum { CONFIG_KEY_NAME = 63 };

struct config_host {
        char nqn[NQN_MAX + 1];
        struct auth_keys keys; /* without a key: those of the subsystem */
        /* of the keys, where they have names */
        char key_name[CONFIG_KEY_NAME + 1], ctrl_key_name[CONFIG_KEY_NAME + 1],
            psk_name[CONFIG_KEY_NAME + 1];
};

struct config_subsystem {
        char nqn[NQN_MAX + 1], serial[21], model[41], firmware[9]; /* "": the default */
        bool allow_any_host;
        bool fixed;          /* the static controller model */
        bool administrative; /* its controllers have neither I/O queues nor namespaces */
        bool whole;          /* hosts may reset it and shut it down as a whole */
        bool ana;            /* reports Asymmetric Namespace Access */
        bool limited;        /* commands without data have limits of size; not from JSON */
        uint16_t cntlid_min, cntlid_max, qid_max; /* 0: the default */
        uint32_t max_namespaces;                  /* who adds them sees to it; 0: no bound */
        char **hosts;                             /* NQNs */
        unsigned n_hosts;
        struct config_host *own; /* of its hosts, those with keys for this subsystem alone */
        unsigned n_own;
        struct auth_keys keys; /* with a key: its hosts have to authenticate themselves */
        struct config_ns *ns;
        unsigned n_ns;
};

struct config_referral {
        uint16_t port_id;
        uint8_t trtype, adrfam, treq;
        bool enable;
        char traddr[256], trsvcid[32];
        char subnqn[NQN_MAX + 1]; /* "": a discovery service */
};

struct config_ana {            /* the state of a group through a port */
        char nqn[NQN_MAX + 1]; /* of this subsystem, whatever is said of all; "": of every one */
        uint32_t grpid;        /* 0: of every group that nothing else is said of */
        uint8_t state;         /* ANA_OPTIMIZED ... */
        uint16_t transition;   /* ms in the change state, where it was another one before */
};

struct config_port {
        uint16_t id;
        uint8_t trtype, treq; /* treq: TREQ_SECURE_REQUIRED, and nobody is served without TLS */
        uint8_t sectype;      /* SECTYPE_TLS13: hosts are served with TLS */
        bool discovery;       /* stays without subsystems, for its discovery service */
        char traddr[256], trsvcid[32];
        char **subsystems; /* NQNs, each of them in config.subsystems */
        unsigned n_subsystems;
        struct config_referral *referrals;
        unsigned n_referrals;
        struct config_ana *ana;
        unsigned n_ana;
};

struct config_trace {   /* of commands: see command_trace.h */
        char *file;     /* NULL: there is none */
        uint64_t size;  /* bytes of a file; 0: no limit */
        uint64_t files; /* of a ring */
};

struct config {
        struct config_host *hosts; /* that allowed_hosts may name */
        unsigned n_hosts;
        struct config_subsystem *subsystems;
        unsigned n_subsystems;
        struct config_port *ports;
        unsigned n_ports;
        struct discovery_scope discovery; /* none: each port's log has its own subsystems */
        char **faults;                    /* with a trigger: see trigger.h */
        unsigned n_faults;
        struct config_trace trace;
};

/*
 * Reads a file into *c (overwritten; free it with config_free() also after a failure). false: error
 * has one line, "FILE: subsystems[0].namespaces[1].nsid: 0 is not from 1 to ...".
 */
bool config_load(struct config *c, const char *file, char *error, size_t size);
void config_free(struct config *c);

/* Building one by hand: the new element, zeroed but for the defaults; NULL: out of memory. The
 * pointer holds until the next element is added to the same array. */
struct config_subsystem *config_add_subsystem(struct config *c, const char *nqn);
struct config_ns *config_add_ns(struct config_subsystem *s, uint32_t nsid, const char *path);
struct config_port *config_add_port(struct config *c, uint16_t id, const char *traddr,
                                    const char *trsvcid);
struct config_host *config_add_host(struct config *c, const char *nqn);
const struct config_host *config_find_host(const struct config *c, const char *nqn); /* or NULL */
/* s is copied. False: out of memory. */
bool config_add_string(char ***array, unsigned *n, const char *s);
/* A fault with a trigger. False: error has one line. */
bool config_add_fault(struct config *c, const char *text, char *error, size_t size);
/* The trace of commands, which is copied; file NULL: none any more. False: error has one line, and it is as it was. */
bool config_set_trace(struct config *c, const struct config_trace *t, char *error, size_t size);
bool config_same_trace(const struct config_trace *a, const struct config_trace *b);
/* As config_add_subsystem(). own: keys that a host has for this subsystem alone. */
struct config_referral *config_add_referral(struct config_port *p);
struct config_host *config_add_own(struct config_subsystem *s, const char *nqn);

/* Looking for one: NULL, or -1, if it is not there. */
struct config_subsystem *config_find_subsystem(const struct config *c, const char *nqn);
struct config_ns *config_find_ns(const struct config_subsystem *s, uint32_t nsid);
int config_find_string(char *const *array, unsigned n, const char *s);

/* Taking one out; ports no longer name the subsystem. What stands after it moves. */
void config_remove_subsystem(struct config *c, struct config_subsystem *s);
void config_remove_ns(struct config_subsystem *s, struct config_ns *ns);
void config_remove_port(struct config *c, struct config_port *p);
void config_remove_string(char **array, unsigned *n, unsigned at);
void config_remove_referral(struct config_port *p, unsigned at);
/* A host that a subsystem allows, and its own keys. False: it does not. */
bool config_remove_host(struct config_subsystem *s, const char *nqn);
/* The keys alone, if it has some. */
void config_remove_keys(struct config_subsystem *s, const char *nqn);

enum { CONFIG_ANA_TRANSITION_MAX = 10000 }; /* ms: ANATT */
/* ANA (config_ana.c). The group of a namespace; the states of a subsystem's groups through a port; one of
 * these, or of all of them (grpid 0), from here on: false: out of memory; the same, after so many ms in the change
 * state; none of them any more. */
uint32_t config_ana_group(const struct config_ns *ns);
void config_ana_states(const struct config_port *p, const char *nqn, struct ana_states *states);
bool config_ana_set(struct config_port *p, const char *nqn, uint32_t grpid, uint8_t state);
bool config_ana_pass(struct config_port *p, const char *nqn, uint32_t grpid, uint8_t state,
                     uint16_t transition);
void config_ana_remove(struct config_port *p, const char *nqn);
/* Of a file: ANA is reported by subsystems of which groups are said, in their namespaces or a port. */
void config_ana_report(struct config *c);

/* Another one like it, in *to (overwritten; to be freed also after a failure). False: out of memory. */
bool config_copy(struct config *to, const struct config *from);

/*
 * What one element alone does not show: duplicate NQNs, NSIDs and port ids, ports that name
 * subsystems which are not there, hosts that are not in hosts[]. config_load() has done it. `what`
 * begins the error line.
 */
bool config_check(const struct config *c, const char *what, char *error, size_t size);

/* What a host of `s` and the subsystem authenticate each other with. */
const struct auth_keys *config_keys(const struct config *c, const struct config_subsystem *s,
                                    const char *hostnqn);

#define CONFIG_HASHES "sha256, sha384, sha512, sha384+ (at least that) or several with commas"
#define CONFIG_GROUPS                                                                              \
        "null, ffdhe2048, 3072, 4096, 6144, 8192, ffdhe3072+ (at least that) or several with "     \
        "commas"
/*
 * Which hash functions or DH groups may be used, as a mask of ids: by name as here or in nvmetcli
 * ("hmac(sha256)"); "sha384+" is that one or a stronger one, "sha256,sha512" either. false: no such name.
 */
bool config_hash(const char *text, uint8_t *hashes);
bool config_group(const char *text, uint8_t *groups);

#endif
