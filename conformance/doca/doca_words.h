/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of cases about DOCA targets. A channel is a control channel, whose responses are judged as they come; a data
 * path is a whole session of our requester. Waits are as long as the reference's service has.
 */
#ifndef NVMF_CONFORMANCE_DOCA_WORDS_H
#define NVMF_CONFORMANCE_DOCA_WORDS_H

#include "conformance/engine/suite.h"
#include "conformance/engine/test_case.h"
#include "doca_peer.h"
#include "host/doca/session.h"

#define CASE_FAMILY doca_conform

/* test_case.needs: what 2.10 does not have. */
enum {
        NEEDS_QUERY = 1,    /* query_storage */
        NEEDS_IDS = 2,      /* message ids */
        NEEDS_ERRORS = 4,   /* error_response, apart from response */
        NEEDS_CONTEXTS = 8, /* a number of cores, and the context of a connection */
        NEEDS_STOP = 16,    /* stop_storage */
        NEEDS_PLACE = 32    /* a place in the storage apart from that in the memory */
};

struct channel;

static inline const struct doca_peer *peer_of_case(const struct t *t)
{
        return t->suite->peer;
}

/* --- control channels --------------------------------------------------------------------------- */

/* Closed when the case ends. */
struct channel *connect_channel(struct t *t);
/* Sends a request with ids of its own. */
void say_message(struct channel *c, struct doca_msg m);
/* The same bytes, spoilt by this rule of services. */
void say_broken(struct channel *c, struct doca_msg m, enum doca_rule rule);
void say_bytes(struct channel *c, const void *p, size_t n);
/* The n bytes that say_message() would send, which are the case's. */
uint8_t *frame_of(struct channel *c, struct doca_msg m, size_t *n);
/* The next message; its bytes are good until the next word. */
struct doca_msg expect_response(struct channel *c);
/* An error response, with one of the codes that the case's rule accepts. */
void expect_refused(struct channel *c);
/* The same, or the end of the channel. */
void expect_refused_or_gone(struct channel *c);
void expect_gone(struct channel *c);
/* The next requests have these ids. */
void use_ids(struct channel *c, uint32_t message, uint32_t correlation);
/* No more is said, and all is heard; the channel ends, with a reset. */
void say_no_more(struct channel *c);
void reset_channel(struct channel *c);
/* What the client sends is at an end: advised who keeps the channel. */
void advise_gone(struct channel *c, const char *because);
/* Sends all of it and reads late: no response may end before its frame does, however many there are until nothing comes for
 * so long; advised who ends the channel. */
void want_whole_responses(struct channel *c, const void *requests, size_t n, unsigned ms);
/* Somebody else's first request is answered. */
void want_others_served(struct t *t);
/* Nothing comes for so long. */
void expect_no_more(struct channel *c, unsigned ms);

/* A request and its response, which is no error; else the case ends in words of the setup. */
struct doca_msg ask_for(struct channel *c, struct doca_msg m);
/* Nothing in 2.10. */
void query_storage(struct channel *c);
/* For so many cores, with a memory blob of ours; in 2.10 configure_data_path, which has no number of them. */
struct doca_msg init_request(struct channel *c, unsigned cores);
void init_storage(struct channel *c, unsigned cores);
/* Both. */
void initialise(struct channel *c, unsigned cores);
/* That with which the dialect begins. */
struct doca_msg first_request(struct channel *c);
void ask_first(struct channel *c);
/* A request for a connection of ours, whose peer exists in words only. */
struct doca_msg connection_request(struct channel *c, uint64_t context, uint64_t role);
/* It is made; skips the case where the target does not connect our blobs. */
struct doca_msg create_connection(struct channel *c, uint64_t context, uint64_t role);

/* --- the data path ------------------------------------------------------------------------------ */

struct path {
        unsigned cores, depth; /* 0: one context; 4 requests */
        uint32_t io_bytes;     /* of a request at most; 0: 4096 */
        enum doca_rule broken; /* by each of our I/O messages; DOCA_RULE_NONE: none */
        void (*change)(const struct doca_session *s,
                       struct doca_io *io); /* of each; see struct doca_params */
};

/* A session with its connections. Skips the case where the target, or this machine, cannot connect us. */
struct doca_session *data_path(struct t *t, struct path p);
/* The first block of the case's range. */
uint64_t first_block(const struct t *t);
/* A request of a context; false: it was refused, and t->result has nothing yet. What the results break is noticed. */
bool transfer(struct t *t, struct doca_session *s, unsigned context, bool write, uint64_t block,
              uint32_t blocks, void *data);
/* ... of the first block, over context 0. */
bool transfer_block(struct t *t, struct doca_session *s, bool write, void *data);
/* As many reads as the session has requests, at once; between their sending and their results `meanwhile` is done (NULL:
 * nothing). Each has its result. */
void read_at_once(struct t *t, struct doca_session *s,
                  void (*meanwhile)(struct t *, struct doca_session *));
/* A request on the control channel of a session that runs is refused, and its data path works on. */
void want_request_refused(struct t *t, struct doca_session *s, enum doca_kind kind);
/* ... is answered. */
void ask_session(struct t *t, struct doca_session *s, enum doca_kind kind);
/* It ends, with nothing said: control channel and queue pairs. */
void abandon_session(struct t *t);
/* The code of the refusal. */
uint16_t refused_with(const struct doca_session *s);
/* stop_storage and shutdown are answered. */
void stop_session(struct t *t, struct doca_session *s);

/* --- services (doca_services.c) ------------------------------------------------------------------ */

/* A whole session with a good target. */
extern const struct test_case doca_service_session;
/* family.host_cases(). */
const struct test_case **doca_service_cases(size_t *count);

/* family.fields(). */
void doca_words_fields(const struct exchange_line *l, char *buf, size_t size);
/* family.begin() and end(). */
void doca_world_begin(struct t *t);
void doca_world_end(struct t *t);
enum { DOCA_RANGE_BYTES = 64 << 10 };
/* family.ranges(): pieces of DOCA_RANGE_BYTES of the storage. */
unsigned doca_ranges(const struct suite *s);

#endif
