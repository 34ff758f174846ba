/* SPDX-License-Identifier: BSD-3-Clause */
#include "spoil.h"

#include <string.h>

enum op { PUT, ADD, FLIP };

static uint64_t changed(uint64_t old, enum op op, uint64_t value)
{
        return op == PUT ? value : op == ADD ? old + value : old ^ value;
}

/* --- what a message says ------------------------------------------------------------------------ */

#define M(member) offsetof(struct doca_msg, member)

static const struct {
        enum doca_rule rule;
        enum doca_kind kind; /* DOCA_NOTHING: all responses */
        uint16_t member;
        uint8_t size; /* of the member: bytes */
        enum op op;
        uint64_t value;
} changes[] = {
        /* clang-format off */
        { DOCA_ORDER, DOCA_INIT, M(kind), 4, PUT, DOCA_SHUTDOWN },
        { DOCA_INIT_COUNTS, DOCA_INIT, M(transactions), 8, PUT, 0 },
        { DOCA_CONTEXT, DOCA_CREATE, M(context), 8, PUT, 0x7fffffff },
        { DOCA_ROLE, DOCA_CREATE, M(role), 8, PUT, 7 },
        { DOCA_ANSWER_TYPE, DOCA_INIT_RSP, M(kind), 4, PUT, DOCA_START_RSP },
        { DOCA_ANSWER_TYPE, DOCA_CREATE_RSP, M(kind), 4, PUT, DOCA_RESPONSE },
        { DOCA_ANSWER_TYPE, DOCA_RESPONSE, M(kind), 4, PUT, DOCA_CREATE_RSP },
        { DOCA_ANSWER_ID, DOCA_NOTHING, M(message_id), 4, FLIP, 0x40000000 },
        { DOCA_ANSWER_CORRELATION, DOCA_NOTHING, M(correlation_id), 4, FLIP, 0x40000000 },
        { DOCA_ERROR_CODE, DOCA_ERROR_RSP, M(result), 8, PUT, DOCA_SUCCESS },
        { DOCA_QUERY_SIZE, DOCA_QUERY_RSP, M(total_size), 8, ADD, 1 },
        { DOCA_CREATE_ECHO, DOCA_CREATE_RSP, M(role), 8, FLIP, 1 },
        /* clang-format on */
};
enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };

static bool change_member(struct doca_msg *m, unsigned i)
{
        char *at = (char *)m + changes[i].member;
        uint64_t wide = 0;
        uint32_t narrow;

        if (changes[i].size == sizeof(wide)) {
                memcpy(&wide, at, sizeof(wide));
                wide = changed(wide, changes[i].op, changes[i].value);
                memcpy(at, &wide, sizeof(wide));
                return true;
        }
        memcpy(&narrow, at, sizeof(narrow));
        narrow = (uint32_t)changed(narrow, changes[i].op, changes[i].value);
        memcpy(at, &narrow, sizeof(narrow));
        return true;
}

/* A kind that the dialect does not have is not sent. */
static bool fits(const struct doca_dialect *d, const struct doca_shape *s, unsigned i)
{
        if (changes[i].member == M(kind) && !doca_shape_of(d, (enum doca_kind)changes[i].value))
                return false;
        if (changes[i].member == M(message_id) && d->frame.message_at == 0)
                return false;
        return changes[i].kind == s->kind ||
               (changes[i].kind == DOCA_NOTHING && s->sender == PARTY_CONTROLLER);
}

bool doca_spoil_msg(const struct rule_set *violated, const struct doca_dialect *d,
                    struct doca_msg *m)
{
        const struct doca_shape *s = doca_shape_of(d, m->kind);
        bool any = false;

        for (unsigned i = 0; s && i < CHANGES; i++)
                if (rule_in(violated, changes[i].rule) && fits(d, s, i))
                        any |= change_member(m, i);
        return any;
}

/* --- frames ------------------------------------------------------------------------------------- */

static bool spoil_size(const struct doca_dialect *d, uint8_t *p, size_t *n)
{
        (void)n;
        be_put(p, d->frame.size_len, d->frame.header - d->frame.uncounted - 1u);
        return true;
}

static bool spoil_type(const struct doca_dialect *d, uint8_t *p, size_t *n)
{
        (void)n;
        be_put(p + d->frame.type_at, d->frame.type_len, 0x63);
        return true;
}

static void resize(const struct doca_dialect *d, uint8_t *p, size_t n)
{
        be_put(p, d->frame.size_len, n - d->frame.uncounted);
}

static bool spoil_payload(const struct doca_dialect *d, uint8_t *p, size_t *n)
{
        if (*n == d->frame.header)
                return false;
        resize(d, p, --*n);
        return true;
}

static bool spoil_trailing(const struct doca_dialect *d, uint8_t *p, size_t *n)
{
        memset(p + *n, 0, DOCA_SPOIL_ROOM);
        *n += DOCA_SPOIL_ROOM;
        resize(d, p, *n);
        return true;
}

static const struct {
        enum doca_rule rule[2]; /* of a service, of a target: by enum party */
        bool (*spoil)(const struct doca_dialect *d, uint8_t *p, size_t *n);
} frames[] = {
        { { DOCA_PAYLOAD_S, DOCA_PAYLOAD_T }, spoil_payload },
        { { DOCA_TRAILING_S, DOCA_TRAILING_T }, spoil_trailing },
        { { DOCA_TYPE_S, DOCA_TYPE_T }, spoil_type },
        { { DOCA_SIZE_S, DOCA_SIZE_T }, spoil_size },
};
enum { FRAMES = sizeof(frames) / sizeof(frames[0]) };

bool doca_spoil_frame(const struct rule_set *violated, const struct doca_dialect *d, uint8_t *p,
                      size_t *n)
{
        uint32_t type = (uint32_t)be_get(p + d->frame.type_at, d->frame.type_len);
        const struct doca_shape *s = doca_shape(d, type);
        bool any = false;

        for (unsigned i = 0; s && i < FRAMES; i++)
                if (rule_in(violated, frames[i].rule[s->sender]))
                        any |= frames[i].spoil(d, p, n);
        return any;
}

/* --- I/O messages ------------------------------------------------------------------------------- */

#define IO(member) offsetof(struct doca_io, member)
enum { LENGTH = 0xffff }; /* not a field, but how much is sent */

static const struct {
        enum doca_rule rule;
        enum party sender;
        uint16_t member;
        enum op op;
        uint64_t value;
} io_changes[] = {
        /* clang-format off */
        { DOCA_IO_LEN_S, PARTY_HOST, LENGTH, PUT, DOCA_IO_LEN - 1 },
        { DOCA_IO_LEN_T, PARTY_CONTROLLER, LENGTH, PUT, DOCA_IO_LEN - 1 },
        { DOCA_IO_TYPE_S, PARTY_HOST, IO(type), PUT, 7 },
        { DOCA_IO_TYPE_T, PARTY_CONTROLLER, IO(type), PUT, 7 },
        { DOCA_IO_USER, PARTY_CONTROLLER, IO(user_data), FLIP, UINT64_C(1) << 62 },
        { DOCA_IO_ECHO, PARTY_CONTROLLER, IO(size), FLIP, 1 },
        { DOCA_IO_STORAGE, PARTY_HOST, IO(storage), FLIP, UINT64_C(0x80000000) },
        { DOCA_IO_MEMORY, PARTY_HOST, IO(memory), FLIP, UINT64_C(1) << 62 },
        { DOCA_IO_BLOCKS, PARTY_HOST, IO(size), FLIP, 1 },
        /* clang-format on */
};
enum { IO_CHANGES = sizeof(io_changes) / sizeof(io_changes[0]) };

/* The field in the dialect's table; NULL: it does not have it. */
static const struct doca_item *io_item(const struct doca_dialect *d, unsigned i)
{
        const struct doca_item *item = d->io;

        while (item->name && item->member != io_changes[i].member)
                item++;
        return item->name ? item : NULL;
}

static bool change_io(const struct doca_dialect *d, unsigned i, uint8_t *p, uint32_t *n)
{
        const struct doca_item *item = io_item(d, i);

        if (io_changes[i].member == LENGTH) {
                *n = (uint32_t)io_changes[i].value;
                return true;
        }
        if (!item)
                return false;
        be_put(p + item->at, item->len,
               changed(be_get(p + item->at, item->len), io_changes[i].op, io_changes[i].value));
        return true;
}

bool doca_spoil_io(const struct rule_set *violated, const struct doca_dialect *d, enum party sender,
                   uint8_t p[DOCA_IO_LEN], uint32_t *n)
{
        bool any = false;

        for (unsigned i = 0; i < IO_CHANGES; i++)
                if (rule_in(violated, io_changes[i].rule) && io_changes[i].sender == sender)
                        any |= change_io(d, i, p, n);
        return any;
}

unsigned doca_spoil_kinds(enum doca_rule rule)
{
        unsigned kinds = 0;

        for (unsigned i = 0; i < CHANGES; i++)
                kinds |= changes[i].rule == rule ? DOCA_V_CONTROL : 0;
        for (unsigned i = 0; i < FRAMES; i++)
                kinds |=
                    frames[i].rule[0] == rule || frames[i].rule[1] == rule ? DOCA_V_CONTROL : 0;
        for (unsigned i = 0; i < IO_CHANGES; i++)
                kinds |= io_changes[i].rule == rule ? DOCA_V_IO : 0;
        return kinds;
}
