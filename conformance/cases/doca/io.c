/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's I/O messages, over a data path of our own blobs. */
#include <string.h>

#include "conformance/doca/doca_words.h"

enum { BLOCK_MOST = 4096 };

/* It is refused with an error result, and what follows is served. */
static void want_refused(struct t *t, enum doca_rule broken)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, broken);
        const struct rule *r = t_rule(t, broken);

        if (transfer_block(t, s, false, data))
                fail(t, "an error result", "success");
        for (unsigned i = 0; i < RULE_OUTCOMES && r->accept[i].code; i++)
                if (r->accept[i].code == refused_with(s))
                        return;
        lenient(t, "an error result with the usual code", "%s", doca_error_name(refused_with(s)));
}

static void want_served(struct t *t)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, DOCA_RULE_NONE);

        want(t, transfer_block(t, s, false, data), "success", "%s",
             doca_error_name(refused_with(s)));
        stop_session(t, s);
}

CASE("doca/io/length-target", MUST, RULES(DOCA_IO_LEN_T), "A result has 64 bytes")
{
        want_served(t);
}

CASE("doca/io/type-target", MUST, RULES(DOCA_IO_TYPE_T), "The answer to a request is a result")
{
        want_served(t);
}

CASE("doca/io/user-data", MUST, RULES(DOCA_IO_USER), "A result has the user data of its request")
{
        want_served(t);
}

CASE("doca/io/echo", SHOULD, RULES(DOCA_IO_ECHO),
     "A result has the size and offsets of its request")
{
        want_served(t);
}

CASE("doca/io/length-service", MUST, RULES(DOCA_IO_LEN_S), "A request of 63 bytes is refused")
{
        want_refused(t, DOCA_IO_LEN_S);
}

CASE("doca/io/type-service", MUST, RULES(DOCA_IO_TYPE_S), "A request of an unknown type is refused")
{
        want_refused(t, DOCA_IO_TYPE_S);
}

CASE("doca/io/storage-range", MUST, RULES(DOCA_IO_STORAGE),
     "A request beyond the end of the storage is refused")
{
        require(t, !peer_of_case(t)->dialect->storage_by_memory,
                "2.10 has no place in the storage apart from that in the memory");
        want_refused(t, DOCA_IO_STORAGE);
}

CASE("doca/io/memory-range", MUST, RULES(DOCA_IO_MEMORY),
     "A request beyond the exported memory is refused, and its context works on")
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, DOCA_IO_MEMORY);

        if (transfer_block(t, s, false, data))
                fail(t, "an error result", "success");
        rule_remove(&((struct doca_params *)(uintptr_t)s->params)->policy.violated, DOCA_IO_MEMORY);
        want(t, transfer_block(t, s, false, data), "success of the next request", "%s",
             doca_error_name(refused_with(s)));
}

CASE("doca/data/first", MUST, RULES(DOCA_DATA_FIRST),
     "The data of a read is there when its result comes", .writes = true)
{
        uint8_t *written = t_alloc(t, BLOCK_MOST), *read = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, DOCA_RULE_NONE);

        for (unsigned i = 0; i < 4; i++) {
                memset(written, (int)(0x51 + 0x22 * i), BLOCK_MOST);
                want(t, transfer_block(t, s, true, written), "success", "%s",
                     doca_error_name(refused_with(s)));
                memset(s->exported, 0, s->exported_len); /* what is there is not what was written */
                want(t, transfer_block(t, s, false, read), "success", "%s",
                     doca_error_name(refused_with(s)));
                want_data(t, "the block that was written", read, written, s->block_size);
        }
        stop_session(t, s);
}

CASE("doca/io/second-session", MUST, NO_RULE,
     "A second client is served after the first has stopped")
{
        want_served(t);
        want_served(t);
}
