/* SPDX-License-Identifier: BSD-3-Clause */
/* The trackers behind a session's findings. Private to the room. */
#ifndef NVMF_PCAP_JUDGE_H
#define NVMF_PCAP_JUDGE_H

#include <string.h>

#include "pcap/nvme/session.h"
#include "pdu/nvme/machine/tls_key.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"

struct judge; /* of one connection */
/* waived: the caller's, outlives it; may be NULL. NULL: out of memory. */
struct judge *judge_new(const struct trace_conn *c, const struct rule_set *waived);
void judge_free(struct judge *j);

/* What an event breaks is added to `found`. cmd as the session knows it, before the event is told to
 * it. */
void judge_event(struct judge *j, const struct trace_event *e, struct rule_set *found);
/* TRACE_CAPSULE: whether what it says was caught: a response, or a command with its descriptors (of its data some may
 * lack). Otherwise it counts as lost. */
bool judge_knows(const struct trace_event *e);
/* What Identify Controller says of I/O queues. */
void judge_identified(struct judge *j, const struct association *a);

static inline void judge_finds(struct rule_set *found, bool broken, enum rule_id rule)
{
        if (broken)
                rule_add(found, rule);
}

/* FNV-1a, 64 bits; never 0. h: HASH_START, or what came before. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t hash_of(uint64_t h, const void *bytes, size_t n)
{
        for (const uint8_t *p = bytes; n > 0; p++, n--)
                h = (h ^ *p) * UINT64_C(0x100000001b3);
        return h ? h : 1;
}

/* The Host Identifier of a host that has not told its own. */
static inline bool is_nobody(const uint8_t hostid[16])
{
        static const uint8_t zero[16];

        return memcmp(hostid, zero, sizeof(zero)) == 0;
}

/* A command, given what kind of controller it goes to; adds to `found`. */
void judge_command(const struct session *s, const union sqe *sqe, struct rule_set *found);
/* Data and results whose meaning the command tells, when it has succeeded; adds to `found`. */
void judge_data(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                struct rule_set *found);
/* The same of a reservation command, on an I/O queue (judge_reservation.c). */
void judge_reservation(const struct session *s, const struct session_cmd *cmd,
                       struct rule_set *found);
/* Whether a command that succeeded moved all that it had to. */
void judge_transfer(const struct session *s, const struct session_cmd *cmd, struct rule_set *found);
/* The data of a Connect; `admin`: what the admin queue of the association said, or NULL. */
void judge_connect(const struct session_cmd *cmd, const struct cqe *cqe,
                   const struct association *admin, struct rule_set *found);
/* What it shows that a command was refused (judge_refusal.c). */
void judge_refusal(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                   struct rule_set *found);

/* --- hosts beyond the fields of a command (judge_host.c) ---------------------------------------- */

enum { HOST_LOST = 64, HOST_KNOWS = 16 };

struct host_memory { /* of the capture; all zero at first */
        struct lost_command {
                struct connect_data connect; /* of its association */
                union sqe sqe;
                int64_t until_ns;              /* the controller may still be busy with it */
        } lost[HOST_LOST];                     /* the latest, round about, as these: */
        struct connect_data known[HOST_KNOWS]; /* associations with any static controller */
        struct restart {
                struct connect_data connect; /* has to discover first; no NQN: none */
                bool watched; /* a discovery service that it had since was caught whole */
        } restarts[HOST_KNOWS];
        unsigned losses, knows, restarted;
};
/* The association is over, of which nothing is missing; a command of one was outstanding when its connection ended. */
void memory_ends(struct host_memory *m, const struct association *a);
void memory_lost(struct host_memory *m, const struct association *a, const struct session_cmd *cmd,
                 int64_t until_ns);
/* A command, and the data of an admin queue's Connect, after that; both add to `found`. */
void judge_again(const struct host_memory *m, const struct association *a, const union sqe *s,
                 int64_t now_ns, struct rule_set *found);
void judge_return(const struct host_memory *m, const struct connect_data *c,
                  struct rule_set *found);
/* The names in Connect's data; a Discovery Information Management command with its data. */
void judge_names(const struct connect_data *c, struct rule_set *found);
void judge_registration(const struct session_cmd *cmd, struct rule_set *found);
/* Each entry of a Host Discovery log page names its host. */
bool hosts_are_named(const uint8_t *log, size_t len);
/* The data that the host has sent with a command that is over. */
void judge_description(const struct session *s, const struct session_cmd *cmd,
                       struct rule_set *found);

/* --- authentication (judge_auth.c) -------------------------------------------------------------- */

struct auth_past {                /* of a queue; all zero at first */
        bool begun, mutual, lost; /* lost: a message is not in the capture */
        bool returned;            /* C2 was C1 */
        bool null_group;          /* it is offered beside a secure channel, which it cannot serve */
        bool asked; /* the Reply has a challenge by which the controller is to prove itself (S2); */
        bool unclear;   /* it has one that is for nothing: S2 is 0, and no PSK is generated */
        unsigned wrong; /* a rule that the host's last message breaks */
        enum auth_message last;
        uint16_t t_id;
        uint8_t sc_c, hash, group, challenge[AUTH_HASH_MAX];
        struct auth_protocol offered;
        int64_t failed_ns; /* the host has sent AUTH_Failure2; 0: it has not */
        int64_t keyed_ns;  /* a PSK was generated; 0: none was */
};
struct auth_memory { /* of the capture: the challenges seen last, by who sent them */
        struct auth_value {
                uint8_t hl, value[AUTH_HASH_MAX];
                uint64_t message; /* hash of that which had it */
        } seen[2];
};
/* An Authentication Send or Receive that is over. */
void judge_auth(struct auth_past *a, struct auth_memory *memory, const struct session_cmd *cmd,
                bool success, struct rule_set *found);

/* --- TLS (judge_tls.c) --------------------------------------------------------------------------- */

enum { TLS_SHARES = 64, TLS_ENTRIES = 64, TLS_KEYED = 8, TLS_PAIRS = 16 };

struct tls_past {                 /* of a connection; all zero at first: it is without TLS */
        bool secured;             /* its ClientHello was seen */
        bool retained, generated; /* the kinds of keys that it offered */
        bool mixed;               /* they are not all for the same names, which are those of: */
        struct tls_identity id;
        bool keyed; /* a PSK that it has generated has been noted */
};
struct tls_memory { /* of the capture; all zero at first */
        bool shown; /* it shows ClientHellos: who has none is without TLS */
        struct tls_share {
                uint64_t share, random; /* hashes: of what was sent, of who sent it */
        } shares[TLS_SHARES];
        struct tls_entry {     /* of the discovery log */
                uint64_t name; /* hash of its NQN; 0: none */
                bool required, doubtful;
        } entries[TLS_ENTRIES];
        struct tls_keyed {
                struct connect_data names; /* whose host has a generated PSK to come back with */
                int64_t since_ns;          /* 0: none */
        } keyed[TLS_KEYED];
        uint64_t retained[TLS_PAIRS]; /* hashes of the names of those that have a retained PSK */
        unsigned next_share, next_entry, next_keyed, next_retained;
};
/* A ClientHello. */
void judge_hello(struct tls_past *p, struct tls_memory *m, const struct trace_hello *hello,
                 struct rule_set *found);
/* A Connect on a connection over TCP that was seen from its beginning; admin: that of its association's
 * admin queue, NULL: it is one, or not known. */
void judge_channel(const struct tls_past *p, struct tls_memory *m, const struct tls_past *admin,
                   const struct session_cmd *cmd, struct rule_set *found);
/* An authentication message that is over, after judge_auth(). */
void judge_keys(struct tls_past *p, struct tls_memory *m, const struct connect_data *names,
                const struct auth_past *a, const struct session_cmd *cmd, struct rule_set *found);
/* A Get Log Page of the discovery service that has succeeded. */
void remember_entries(struct tls_memory *m, const struct session_cmd *cmd);

/* --- what namespaces are told apart by (judge_unique.c) ------------------------------------------- */

enum { IDS_KNOWN = 64 };

/* Of an association, since its namespaces may have changed last; all zero at first. */
struct ids_past {
        struct known_id {
                uint32_t nsid; /* 0: none */
                uint8_t type;  /* NIDT_* */
                uint8_t bytes[16];
        } known[IDS_KNOWN]; /* those that were told last */
        unsigned next;
};
/* The descriptors of this namespace were read: `len` bytes. */
void judge_ids(struct ids_past *p, uint32_t nsid, const uint8_t *list, size_t len,
               struct rule_set *found);

/* --- namespaces, while a controller would tell of changes (judge_ns.c) ----------------------------- */

enum { NS_LISTED = 64, NS_GROUPS = 16 };

/* Of an association, as long as the notice of changed namespaces is enabled, and was not sent; all zero at first. */
struct ns_past {
        struct ns_list {
                bool known;
                uint32_t nsids[NS_LISTED], count;
                uint64_t frame; /* by which it was there */
        } list;                 /* of active namespaces: the one that was read last */
        uint32_t stranger; /* a namespace that served an I/O command and is not in it; 0: none */
        uint64_t stranger_frame;
        struct ns_group {
                uint32_t nsid, group; /* nsid 0: none */
                uint8_t nguid[16], eui64[8];
        } groups[NS_GROUPS]; /* those that were told last */
        unsigned next_group;
};
/* Identify with CNS 02h, from NSID 0 on, has ended, by this frame; an I/O command that has succeeded; Identify
 * Namespace of an active namespace whose ANAGRPID is fixed. */
void ns_lists(struct ns_past *p, const struct session_cmd *cmd, uint64_t frame,
              struct rule_set *found);
void ns_serves(struct ns_past *p, const struct session_cmd *cmd, uint64_t frame);
void ns_is_in_group(struct ns_past *p, uint32_t nsid, const struct id_ns *ns,
                    struct rule_set *found);

/* --- commands that a host sends again (judge_retry.c) --------------------------------------------- */

enum { RETRIES = 16 };

struct retry_past { /* of an association; all zero at first */
        struct failed {
                union sqe sqe;
                uint64_t data;    /* hash of what it sent, of Copy */
                int64_t until_ns; /* it is not sent again before; */
                unsigned rule;    /* ... else that is broken. RULE_NONE: there is none */
        } failed[RETRIES];
        unsigned next;
};
/* An I/O command has failed; id: of its controller, NULL: not known. */
void retry_fails(struct retry_past *p, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct id_ctrl *id, int64_t now_ns);
/* One is sent; one with data of the host is over. */
void judge_retry(const struct retry_past *p, const union sqe *s, int64_t now_ns,
                 struct rule_set *found);
void judge_copied_again(const struct retry_past *p, const struct session_cmd *cmd,
                        struct rule_set *found);
/* The states of namespaces may be others now. */
void retry_forgets_states(struct retry_past *p);
/* An admin queue's Connect was refused for that; the discovery log was read; an association with the discovery service
 * is over, of which nothing is missing; a Connect is sent, once judged: all by this host. watched: there is such an
 * association. */
void memory_restarts(struct host_memory *m, const struct connect_data *c);
void memory_discovers(struct host_memory *m, const struct connect_data *c);
void memory_watched(struct host_memory *m, const struct connect_data *c);
void judge_restart(struct host_memory *m, const struct connect_data *c, bool watched,
                   struct rule_set *found);

/* --- Asymmetric Namespace Access (judge_ana.c) --------------------------------------------------- */

struct keep;
struct ana_past; /* of an association */
/* NULL if out of memory; all that follows accepts NULL. logs: room for the log that it keeps; outlives it. */
struct ana_past *ana_past_new(struct keep *logs);
void ana_past_free(struct ana_past *p);
/* A Controller Level Reset: what was known is over. */
void ana_past_reset(struct ana_past *p);
/* Log page 0Ch is asked for; it has been read, by this frame. */
void ana_asks(struct ana_past *p, const struct session_cmd *cmd);
void ana_reads(struct ana_past *p, const struct session_cmd *cmd, uint64_t frame,
               struct rule_set *found);
/* An I/O command, Set or Get Features has ended; Identify Namespace was read. */
void ana_io(struct ana_past *p, const struct session_cmd *cmd, uint16_t status);
void ana_feature(struct ana_past *p, const struct session_cmd *cmd, uint16_t status);
/* The controller has told of a change. */
void ana_told(struct ana_past *p);
/* The state of a namespace's group as the log that was read last has it; 0: not known, or perhaps no longer. */
uint8_t ana_shown(const struct ana_past *p, uint32_t nsid, int64_t now_ns);
void ana_identifies(struct ana_past *p, const struct session_cmd *cmd, const struct id_ns *ns);

/* --- below the capsules of NVMe/RDMA (judge_rdma.c) --------------------------------------------- */

struct rdma_watch;                       /* of one connection; free() */
struct rdma_watch *rdma_watch_new(void); /* NULL: out of memory */
/* Something is missing before what comes next. */
void rdma_watch_gap(struct rdma_watch *w);
/* After the tracker, which has been told the same and has `found` something. */
void rdma_watch_event(struct rdma_watch *w, const struct trace_event *e, struct rdma_track *t,
                      struct rule_set *found);

/* --- what an association has been through (judge_past.c) ---------------------------------------- */

/* NULL: out of memory. connect: that of the admin queue; logs: room for the logs that it keeps, which outlives it.
 * past_free() accepts NULL. */
struct past *past_new(const struct session_cmd *connect, struct keep *logs);
void past_free(struct past *p);
/* A command of one of its queues, whose capsule is whole; and its completion. */
void past_command(const struct session *s, struct session_cmd *cmd, struct rule_set *found);
void past_answer(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct trace_event *e, struct rule_set *found);
/* Not all that went over its queues is in the capture. */
bool past_gapped(const struct association *a);
/* Its namespaces have no NSID above; 0: it is not known, or may have grown. */
uint32_t past_nn(const struct association *a);
/* See ana_shown(). */
uint8_t past_ana_shown(const struct association *a, uint32_t nsid, int64_t now_ns);
/* The host ends the connection of an I/O queue, and has not sent Disconnect. */
void past_leaves(const struct session *s, int64_t time_ns);
/* Whether it may still have commands: its controller has answered lately. */
bool past_lives(const struct association *a, int64_t now_ns);
/* How names begin in an anonymous capture, whose blocks are made up. */
#define ANONYMOUS_NQN "nqn.2026-01.io.nvmfspec:anonymous-"

struct ns_format;
/* The format of a namespace, as Identify Namespace has told it; NULL: not known. */
const struct ns_format *past_format(const struct association *a, uint32_t nsid);
/* VS, or VER, as it was read; 0: not known. a may be NULL. */
uint32_t past_version(const struct association *a);
struct command_view;
/* Adds what is known of it; a may be NULL. v->sqe is set, or NULL: then the format is not known. */
void past_view(const struct association *a, struct command_view *v);
/* Once after each Connect of an I/O queue: what was known then, and what that Connect broke. False: there was none. */
bool past_joined(const struct association *a, struct command_view *v, struct rule_set *found);
/* Its admin queue is disconnected. */
void past_disconnects(struct past *p, int64_t time_ns);
/* The connection of one of its queues has ended. */
void past_closed(const struct session *s, int64_t time_ns);
/* Until when a controller may still be busy with what was outstanding then; 0: not known. */
int64_t past_busy_until(const struct past *p, int64_t time_ns);
/* A Connect of an I/O queue to it, and how that was answered. */
void past_joins(const struct association *a, const struct session *s, const struct session_cmd *cmd,
                uint16_t status, struct rule_set *found);

#endif
