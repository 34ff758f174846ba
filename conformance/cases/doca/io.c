/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's I/O messages, over a data path of our own blobs. */
#include <string.h>

#include "conformance/doca/doca_words.h"

enum {
        BLOCK_MOST = 4096,
        SENT_MS = 50, /* in which a target sees that its result is sent */
};

/* It is refused with an error result, and what follows is served. */
static void want_refused(struct t *t, enum doca_rule broken)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, (struct path) { .broken = broken });
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
        struct doca_session *s = data_path(t, (struct path) { 0 });

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
     "A request beyond the end of the storage is refused", .needs = NEEDS_PLACE)
{
        want_refused(t, DOCA_IO_STORAGE);
}

CASE("doca/io/memory-range", MUST, RULES(DOCA_IO_MEMORY),
     "A request beyond the exported memory is refused, and its context works on")
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, (struct path) { .broken = DOCA_IO_MEMORY });

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
        struct doca_session *s = data_path(t, (struct path) { 0 });

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

/* --- requests at the edges ---------------------------------------------------------------------- */

#define CHANGED(name, what)                                                                        \
        static void name(const struct doca_session *s, struct doca_io *io)                         \
        {                                                                                          \
                (void)s;                                                                           \
                what;                                                                              \
        }

CHANGED(as_result, io->type = DOCA_IO_RESULT)
CHANGED(of_no_type, io->type = UINT32_MAX)
CHANGED(of_type_4, io->type = 4)
CHANGED(of_nothing, io->size = 0)
CHANGED(of_4_gib, io->size = UINT32_MAX)
CHANGED(at_the_end, io->storage = s->total_size)
CHANGED(across_the_end, io->storage = s->total_size - s->block_size; io->size = 2 * s->block_size)
CHANGED(around_the_end, io->storage = UINT64_MAX - s->block_size + 1; io->size = 2 * s->block_size)
CHANGED(before_memory, io->memory = (uintptr_t)s->exported - s->block_size)
CHANGED(beyond_memory, io->memory += s->exported_len)
CHANGED(across_memory, io->memory += s->exported_len - s->block_size / 2)
CHANGED(with_user_0, io->user_data = 0)
CHANGED(with_user_max, io->user_data = UINT64_MAX)
CHANGED(unaligned, io->storage += 1)

enum answer { REFUSED, SERVED, EITHER };

static void want_answer(struct t *t, void (*change)(const struct doca_session *, struct doca_io *),
                        enum answer answer)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, (struct path) { .change = change });
        bool ok;

        t->negative = answer != SERVED;
        ok = transfer_block(t, s, false, data);
        pause_ms(t, SENT_MS);
        want(t, !ok || answer != REFUSED, "an error result", "success");
        want(t, ok || answer != SERVED, "success", "%s", doca_error_name(refused_with(s)));
        stop_session(t, s);
}

/* ... and stop_storage, which the reference then waits for forever, is answered. */
CASE("doca/io/type-result", MUST, RULES(DOCA_IO_TYPE_S),
     "A result in place of a request is refused, and stop_storage is answered")
{
        want_answer(t, as_result, REFUSED);
}

CASE("doca/io/type-4", MUST, RULES(DOCA_IO_TYPE_S),
     "A request of type 4 is refused, and stop_storage is answered")
{
        want_answer(t, of_type_4, REFUSED);
}

CASE("doca/io/type-max", MUST, RULES(DOCA_IO_TYPE_S),
     "A request of type 4,294,967,295 is refused, and stop_storage is answered")
{
        want_answer(t, of_no_type, REFUSED);
}

CASE("doca/io/size-0", MUST, NO_RULE,
     "A request of no bytes has a result, and stop_storage is answered")
{
        want_answer(t, of_nothing, EITHER);
}

CASE("doca/io/size-max", MUST, RULES(DOCA_IO_MEMORY), "A request of 4 GiB is refused")
{
        want_answer(t, of_4_gib, REFUSED);
}

CASE("doca/io/storage-end", MUST, RULES(DOCA_IO_STORAGE),
     "A request that begins at the end is refused", .needs = NEEDS_PLACE)
{
        want_answer(t, at_the_end, REFUSED);
}

CASE("doca/io/storage-across", MUST, RULES(DOCA_IO_STORAGE),
     "A request that goes one block beyond the end is refused", .needs = NEEDS_PLACE)
{
        want_answer(t, across_the_end, REFUSED);
}

CASE("doca/io/storage-around", MUST, RULES(DOCA_IO_STORAGE),
     "A request whose end has more than 64 bits is refused", .needs = NEEDS_PLACE)
{
        require(t, !peer_of_case(t)->dialect->by_address,
                "3.0 has 32 bits of place in the storage");
        want_answer(t, around_the_end, REFUSED);
}

CASE("doca/io/unaligned", MUST, NO_RULE,
     "A request between two blocks has a result, and stop_storage is answered",
     .needs = NEEDS_PLACE)
{
        want_answer(t, unaligned, EITHER);
}

CASE("doca/io/memory-end", MUST, RULES(DOCA_IO_MEMORY),
     "A request beyond the end of the exported memory is refused")
{
        want_answer(t, beyond_memory, REFUSED);
}

CASE("doca/io/memory-across", MUST, RULES(DOCA_IO_MEMORY),
     "A request across the end of the exported memory is refused")
{
        want_answer(t, across_memory, REFUSED);
}

CASE("doca/io/memory-before", MUST, RULES(DOCA_IO_MEMORY),
     "A request before the exported memory is refused")
{
        require(t, peer_of_case(t)->dialect->by_address,
                "this dialect has offsets, and none is before");
        want_answer(t, before_memory, REFUSED);
}

CASE("doca/io/user-0", MUST, RULES(DOCA_IO_USER), "User data of 0 is echoed")
{
        want_answer(t, with_user_0, SERVED);
}

CASE("doca/io/user-max", MUST, RULES(DOCA_IO_USER), "User data of 64 ones is echoed")
{
        want_answer(t, with_user_max, SERVED);
}

CASE("doca/io/last-block", MUST, NO_RULE, "The last block of the storage can be read")
{
        uint8_t *data = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, (struct path) { 0 });

        want(t, transfer(t, s, 0, false, s->total_size / s->block_size - 1, 1, data), "success",
             "%s", doca_error_name(refused_with(s)));
        stop_session(t, s);
}

/* --- many requests ------------------------------------------------------------------------------ */

CASE("doca/io/answered", MUST, RULES(DOCA_IO_ANSWERED),
     "As many requests as were agreed on have a result each")
{
        struct doca_session *s = data_path(t, (struct path) { .depth = 16 });

        for (unsigned i = 0; i < 4; i++)
                read_at_once(t, s, NULL);
        stop_session(t, s);
}

static void ask_to_stop(struct t *t, struct doca_session *s)
{
        ask_session(t, s, DOCA_STOP);
}

CASE("doca/stop/in-flight", MUST, RULES(DOCA_IO_ANSWERED),
     "Requests that are in hand when stop_storage comes have a result each", .needs = NEEDS_STOP)
{
        struct doca_session *s = data_path(t, (struct path) { .depth = 16 });

        read_at_once(t, s, ask_to_stop);
        ask_session(t, s, DOCA_SHUTDOWN);
        abandon_session(t);
}

CASE("doca/stop/twice", MUST, RULES(DOCA_ORDER), "A second stop_storage is refused",
     .needs = NEEDS_STOP)
{
        struct doca_session *s = data_path(t, (struct path) { 0 });
        struct host_error e = { 0 };
        struct doca_msg m;

        ask_session(t, s, DOCA_STOP);
        if (doca_session_ask(s, (struct doca_msg) { .kind = DOCA_STOP }, &m, &e) == 0)
                fail(t, "an error response", "stop_storage_response");
}

CASE("doca/contexts/each", MUST, NO_RULE,
     "What is written through one context is read through the other", .writes = true)
{
        uint8_t *written = t_alloc(t, BLOCK_MOST), *read = t_alloc(t, BLOCK_MOST);
        struct doca_session *s = data_path(t, (struct path) { .cores = 2 });

        for (unsigned i = 0; i < 4; i++) {
                memset(written, (int)(0x11 + 0x2f * i), s->block_size);
                want(t, transfer(t, s, i % 2, true, first_block(t), 1, written), "success", "%s",
                     doca_error_name(refused_with(s)));
                memset(s->exported, 0, s->exported_len);
                want(t, transfer(t, s, 1 - i % 2, false, first_block(t), 1, read), "success", "%s",
                     doca_error_name(refused_with(s)));
                want_data(t, "what was written", read, written, s->block_size);
        }
        stop_session(t, s);
}

/* --- data --------------------------------------------------------------------------------------- */

CASE("doca/data/large", MUST, NO_RULE, "A request of 64 KiB moves all of it", .writes = true)
{
        uint8_t *written = t_alloc(t, DOCA_RANGE_BYTES), *read = t_alloc(t, DOCA_RANGE_BYTES);
        struct doca_session *s = data_path(t, (struct path) { .io_bytes = DOCA_RANGE_BYTES });
        uint32_t blocks = DOCA_RANGE_BYTES / s->block_size;

        for (unsigned i = 0; i < DOCA_RANGE_BYTES; i++)
                written[i] = (uint8_t)(i * 7 + i / 256);
        want(t, transfer(t, s, 0, true, first_block(t), blocks, written), "success", "%s",
             doca_error_name(refused_with(s)));
        memset(s->exported, 0, s->exported_len);
        want(t, transfer(t, s, 0, false, first_block(t), blocks, read), "success", "%s",
             doca_error_name(refused_with(s)));
        want_data(t, "what was written", read, written, DOCA_RANGE_BYTES);
        stop_session(t, s);
}

CASE("doca/data/beside", MUST, NO_RULE, "A read changes no byte of the memory beside its own",
     .needs = NEEDS_PLACE)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST), *before;
        struct doca_session *s = data_path(t, (struct path) { 0 });
        uint64_t changed = 0;

        before = t_alloc(t, s->exported_len);
        memset(s->exported, 0xa7, s->exported_len);
        memcpy(before, s->exported, s->exported_len);
        want(t, transfer_block(t, s, false, data), "success", "%s",
             doca_error_name(refused_with(s)));
        for (uint64_t at = 0; at < s->exported_len; at++)
                changed += s->exported[at] != before[at];
        if (changed > s->block_size)
                harm(t, "at most a block of changed memory", "%llu bytes",
                     (unsigned long long)changed);
        stop_session(t, s);
}

CASE("doca/data/write-leaves-memory", MUST, NO_RULE, "A write changes nothing of the memory",
     .writes = true)
{
        uint8_t *data = t_alloc(t, BLOCK_MOST), *before;
        struct doca_session *s = data_path(t, (struct path) { 0 });

        before = t_alloc(t, s->exported_len);
        memset(data, 0x5c, BLOCK_MOST);
        memset(s->exported, 0x5c, s->exported_len);
        memcpy(before, s->exported, s->exported_len);
        want(t, transfer_block(t, s, true, data), "success", "%s",
             doca_error_name(refused_with(s)));
        want_data(t, "the memory as it was", s->exported, before, s->exported_len);
        stop_session(t, s);
}
