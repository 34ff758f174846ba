/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An RDMA connection driven by hand, upon an endpoint (pdu/verbs/rdma_ep.h): any private data, any
 * capsule, any key, and every way to end. All connections of a case share one group of endpoints,
 * which is moved on by whoever waits for one of them.
 *
 * Memory that the target may write is filled with canaries and lies between guard zones; it is
 * looked at in the very moment that the response is seen.
 */
#ifndef NVMF_CONFORMANCE_CONN_RDMA_H
#define NVMF_CONFORMANCE_CONN_RDMA_H

#include "conn.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "pdu/verbs/rdma_ep.h"

enum { RDMA_RECEIVE = 256, RDMA_GUARD = 512, RDMA_SENDS = 160, RDMA_SENDS_MORE = 32 };

/* Memory with a key. */
struct region {
        struct region *next;
        struct verbs_domain *domain;
        struct verbs_mr mr;
        bool registered;
        struct verbs_window window; /* has_window: the key is its own, not that of mr */
        bool has_window;
        uint8_t *base; /* guard, data, guard */
        size_t size;
        uint8_t *data;
        uint32_t len;
        bool canary;     /* filled with them: what is none any more was written */
        uint64_t seed;   /* of the canaries */
        int cid;         /* of the command that it is described by; -1: none, or it has ended */
        uint32_t whole;  /* bytes that a success has to deliver */
        uint8_t *answer; /* as it was when the response came; NULL: none came yet */
};

struct rdma_answer { /* to the connect request */
        uint8_t data[VERBS_PRIVATE_MAX];
        uint8_t len, reads_in, reads_out;
        int reason; /* the CM's, of a rejection */
};

struct conn_rdma {
        struct suite_conn base;
        struct rdma_ep ep;
        struct verbs_domain *domain; /* NULL: not resolved; good as long as the group */
        struct rdma_track *track;    /* NULL once the two have lost each other */
        struct rule_set waived;
        bool established;
        bool disconnected; /* RDMA_CM says so */
        bool mute;         /* a DREQ is not answered */
        struct rdma_answer answer;
        struct work *works;
        unsigned send_wrs;          /* outstanding at most */
        enum verbs_status send_end; /* of the first SEND that failed */
        struct region *regions;
};

/* NULL with error. id is the case's, for who records it (--pcap); it and the provider outlive it. */
struct rdma_group *conn_rdma_group(struct verbs_provider *p, const char *id, char *error,
                                   size_t size);
/* All its connections are freed by then. */
void conn_rdma_group_free(struct rdma_group *g);

/* Resolves the address; NULL: error says why. deadline: loop_now_ms(). */
struct suite_conn *conn_rdma_open(struct rdma_group *g, const char *traddr, const char *trsvcid,
                                  uint64_t deadline, unsigned no, struct exchange *log, char *error,
                                  size_t size);
/* NULL: c is of another kind. */
struct conn_rdma *conn_rdma(struct suite_conn *c);

/* Its queue pair with `receives` posted (0: none ever), and the connect request. -1: errno, error. */
int conn_rdma_connect(struct conn_rdma *c, const struct verbs_conn_param *param, unsigned receives,
                      char *error, size_t size);
/* Waits for the answer to it: c->established, or the end of c. False at the deadline. */
bool conn_rdma_decided(struct conn_rdma *c, uint64_t deadline);
/* Waits for the end as RDMA_CM tells it. */
bool conn_rdma_disconnected(struct conn_rdma *c, uint64_t deadline);
/* Destroys the endpoint, whatever it is doing. */
void conn_rdma_vanish(struct conn_rdma *c);
/* Sees to what has come so far, without waiting. */
void conn_rdma_look(struct conn_rdma *c);

/*
 * Sends n capsules of one length (each `len` bytes, one after the other) in one go. What can't be
 * sent because the connection has ended is dropped. False: no room for it before the deadline.
 */
bool conn_rdma_send(struct conn_rdma *c, const void *capsules, uint32_t len, unsigned n,
                    uint64_t deadline);
/* Posts an RDMA WRITE of 8 bytes, which no host may. -1 with errno. */
int conn_rdma_write(struct conn_rdma *c, uint64_t addr, uint32_t key);
/* The tracker learns of a command that goes out, or (h NULL) that it can't follow any more. */
void conn_rdma_track(struct conn_rdma *c, const void *capsule, uint32_t len);

/* NULL: error says why. canary: filled so, and between guards; else zeroes, and no byte more than
 * len has the key. */
struct region *region_new(struct conn_rdma *c, uint32_t len, unsigned access, bool canary,
                          char *error, size_t size);
/* The key becomes that of a memory window. -1 with errno. */
int region_bind(struct conn_rdma *c, struct region *r, unsigned access);
uint32_t region_key(const struct region *r);
/* Its key is worth nothing from now on. */
void region_revoke(struct region *r);
/* Whether the n bytes from offset are as they were made. */
bool region_untouched(const struct region *r, uint32_t offset, uint32_t n);
/* Reports what has been written since the response, or around it. */
void conn_rdma_check(struct conn_rdma *c);

#endif
