/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pdu/core/plant.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- words -------------------------------------------------------------------------------------- */

static const char *name_in(const char *const *names, size_t count, uint64_t value)
{
        return value < count && names[value] ? names[value] : "unknown";
}

const char *doca_error_name(uint64_t error)
{
        static const char *const names[] = {
                "SUCCESS",
                "UNKNOWN",
                "NOT_PERMITTED",
                "IN_USE",
                "NOT_SUPPORTED",
                "AGAIN",
                "INVALID_VALUE",
                "NO_MEMORY",
                "INITIALIZATION",
                "TIME_OUT",
                "SHUTDOWN",
                "CONNECTION_RESET",
                "CONNECTION_ABORTED",
                "CONNECTION_INPROGRESS",
                "NOT_CONNECTED",
                "NO_LOCK",
                "NOT_FOUND",
                "IO_FAILED",
                "BAD_STATE",
                "UNSUPPORTED_VERSION",
                "OPERATING_SYSTEM",
                "DRIVER",
                "UNEXPECTED",
                "ALREADY_EXIST",
                "FULL",
                "EMPTY",
                "IN_PROGRESS",
                "TOO_BIG",
                "AUTHENTICATION",
                "BAD_CONFIG",
                "SKIPPED",
                "DEVICE_FATAL_ERROR",
        };

        return name_in(names, COUNT(names), error);
}

const char *doca_role_name(uint64_t role)
{
        static const char *const names[DOCA_ROLES] = { "io_data", "io_control" };

        return name_in(names, COUNT(names), role);
}

const char *doca_io_name(uint64_t type)
{
        static const char *const names[] = { "result", "read", "write", "stop" };

        return name_in(names, COUNT(names), type);
}

/* --- members ------------------------------------------------------------------------------------ */

static uint64_t *number_at(const struct doca_item *i, void *base)
{
        return (uint64_t *)(void *)((char *)base + i->member);
}

static struct doca_bytes *bytes_at(const struct doca_item *i, void *base)
{
        return (struct doca_bytes *)(void *)((char *)base + i->member);
}

static uint64_t number_of(const struct doca_item *i, const void *base)
{
        return *(const uint64_t *)(const void *)((const char *)base + i->member);
}

static const struct doca_bytes *bytes_of(const struct doca_item *i, const void *base)
{
        return (const struct doca_bytes *)(const void *)((const char *)base + i->member);
}

static uint64_t width_mask(unsigned len)
{
        return len < 8 ? (UINT64_C(1) << 8 * len) - 1 : UINT64_MAX;
}

/* --- frames ------------------------------------------------------------------------------------- */

uint64_t doca_frame_len(const struct doca_dialect *d, const void *p, size_t n)
{
        return n < d->frame.size_len ? 0 : d->frame.uncounted + be_get(p, d->frame.size_len);
}

bool doca_frame_sane(const struct doca_dialect *d, uint64_t len)
{
        return len >= d->frame.header && len <= DOCA_FRAME_MAX;
}

const struct doca_shape *doca_shape(const struct doca_dialect *d, uint32_t type)
{
        return type < d->types ? &d->shapes[type] : NULL;
}

const struct doca_shape *doca_shape_of(const struct doca_dialect *d, enum doca_kind kind)
{
        for (unsigned i = 0; i < d->types; i++)
                if (d->shapes[i].kind == kind)
                        return &d->shapes[i];
        return NULL;
}

static const struct doca_shape *shape_of_msg(const struct doca_dialect *d, const struct doca_msg *m)
{
        return m->kind == DOCA_NOTHING ? doca_shape(d, m->type) : doca_shape_of(d, m->kind);
}

const char *doca_msg_name(const struct doca_dialect *d, const struct doca_msg *m)
{
        const struct doca_shape *s = shape_of_msg(d, m);

        return s ? s->name : "unknown";
}

/* --- reading ------------------------------------------------------------------------------------ */

static void read_header(const struct doca_framing *f, const uint8_t *p, struct doca_msg *out)
{
        out->type = (uint32_t)be_get(p + f->type_at, f->type_len);
        if (f->message_at > 0)
                out->message_id = (uint32_t)be_get(p + f->message_at, 4);
        out->correlation_id = (uint32_t)be_get(p + f->correlation_at, 4);
}

/* Takes one field from *p, of which *n bytes are left. False: it is not whole; what there is of a blob is kept. */
static bool read_item(const struct doca_item *i, const uint8_t **p, size_t *n, struct doca_msg *out)
{
        unsigned len = i->len ? i->len : 4;
        uint64_t value;

        if (*n < len)
                return false;
        value = be_get(*p, len);
        *p += len;
        *n -= len;
        if (i->len > 0) {
                *number_at(i, out) = value;
                return true;
        }
        len = (unsigned)(value < *n || PLANTED(DOCA_BLOB_END) ? value : *n);
        *bytes_at(i, out) = (struct doca_bytes) { *p, len };
        *p += len;
        *n -= len;
        return len == value;
}

bool doca_msg_read(const struct doca_dialect *d, const void *frame, size_t n, enum party sender,
                   struct doca_msg *out, struct rule_set *found)
{
        bool service = sender == PARTY_HOST;
        const uint8_t *p = frame;
        const struct doca_shape *s;

        *out = (struct doca_msg) { 0 };
        read_header(&d->frame, p, out);
        s = doca_shape(d, out->type);
        if (!s || s->sender != sender)
                rule_add(found, service ? DOCA_TYPE_S : DOCA_TYPE_T);
        if (!s)
                return false;
        out->kind = s->kind;
        p += d->frame.header;
        n -= d->frame.header;
        for (const struct doca_item *i = s->items; i && i->name; i++)
                if (!read_item(i, &p, &n, out)) {
                        rule_add(found, service ? DOCA_PAYLOAD_S : DOCA_PAYLOAD_T);
                        return false;
                }
        if (n > 0)
                rule_add(found, service ? DOCA_TRAILING_S : DOCA_TRAILING_T);
        return true;
}

/* --- writing ------------------------------------------------------------------------------------ */

static size_t payload_len(const struct doca_shape *s, const struct doca_msg *m)
{
        size_t len = 0;

        for (const struct doca_item *i = s->items; i && i->name; i++)
                len += i->len ? i->len : 4 + bytes_of(i, m)->len;
        return len;
}

static uint8_t *write_item(const struct doca_item *i, const struct doca_msg *m, uint8_t *p)
{
        const struct doca_bytes *b = bytes_of(i, m);

        if (i->len > 0) {
                be_put(p, i->len, number_of(i, m));
                return p + i->len;
        }
        be_put(p, 4, b->len);
        if (b->len > 0)
                memcpy(p + 4, b->p, b->len);
        return p + 4 + b->len;
}

static void write_header(const struct doca_framing *f, const struct doca_msg *m, uint32_t type,
                         size_t len, uint8_t *p)
{
        be_put(p, f->size_len, len - f->uncounted);
        be_put(p + f->type_at, f->type_len, type);
        if (f->message_at > 0)
                be_put(p + f->message_at, 4, m->message_id);
        be_put(p + f->correlation_at, 4, m->correlation_id);
}

size_t doca_msg_write(const struct doca_dialect *d, const struct doca_msg *m, void *to, size_t cap)
{
        const struct doca_shape *s = shape_of_msg(d, m);
        size_t len = s ? d->frame.header + payload_len(s, m) : 0;
        uint8_t *p = to;

        if (len == 0 || len > DOCA_FRAME_MAX ||
            len - d->frame.uncounted > width_mask(d->frame.size_len))
                return 0;
        if (len > cap)
                return len;
        write_header(&d->frame, m, (uint32_t)(s - d->shapes), len, p);
        p += d->frame.header;
        for (const struct doca_item *i = s->items; i && i->name; i++)
                p = write_item(i, m, p);
        return len;
}

/* --- description -------------------------------------------------------------------------------- */

enum { HEX_MAX = 256 }; /* bytes of a blob that are shown */

static void describe_bytes(const struct describe *to, const struct doca_item *i,
                           const struct doca_bytes *b)
{
        char buf[4 * HEX_MAX + 8];
        struct text t = text_in(buf, sizeof(buf));
        uint32_t shown = b->len < HEX_MAX ? b->len : HEX_MAX;
        char name[64];

        if (i->text && shown > 0)
                text_printable(&t, (const char *)b->p, shown);
        for (uint32_t k = 0; !i->text && k < shown; k++)
                text_add(&t, "%02x", b->p[k]);
        if (shown < b->len)
                text_add(&t, "...");
        to->string(to->arg, i->name, buf, t.len);
        snprintf(name, sizeof(name), "%s_len", i->name);
        to->number(to->arg, name, b->len, 32, NULL);
}

static void describe_item(const struct describe *to, const struct doca_item *i, const void *base)
{
        uint64_t value;

        if (i->len == 0) {
                describe_bytes(to, i, bytes_of(i, base));
                return;
        }
        value = number_of(i, base);
        to->number(to->arg, i->name, value, 8u * i->len, i->say ? i->say(value) : NULL);
}

void doca_msg_describe(const struct describe *to, const struct doca_dialect *d,
                       const struct doca_msg *m)
{
        const struct doca_shape *s = shape_of_msg(d, m);

        to->number(to->arg, "type", s ? (uint64_t)(s - d->shapes) : m->type, 8u * d->frame.type_len,
                   doca_msg_name(d, m));
        if (d->frame.message_at > 0)
                to->number(to->arg, "message_id", m->message_id, 32, NULL);
        to->number(to->arg, "correlation_id", m->correlation_id, 32, NULL);
        for (const struct doca_item *i = s ? s->items : NULL; i && i->name; i++)
                describe_item(to, i, m);
}

static void line_bytes(struct text *t, const struct doca_item *i, const struct doca_bytes *b)
{
        if (!i->text) {
                text_add(t, " %s of %" PRIu32 " bytes", i->name, b->len);
                return;
        }
        text_add(t, " \"");
        text_printable(t, (const char *)b->p, b->len);
        text_add(t, "\"");
}

static void line_item(struct text *t, const struct doca_item *i, const void *base)
{
        if (i->len == 0)
                line_bytes(t, i, bytes_of(i, base));
        else if (i->say)
                text_add(t, " %s %s", i->name, i->say(number_of(i, base)));
        else
                text_add(t, " %s %" PRIu64, i->name, number_of(i, base));
}

void doca_msg_line(struct text *t, const struct doca_dialect *d, const struct doca_msg *m)
{
        const struct doca_shape *s = shape_of_msg(d, m);

        text_add(t, "%s", doca_msg_name(d, m));
        if (!s)
                text_add(t, " type %" PRIu32, m->type);
        if (d->frame.message_at > 0)
                text_add(t, " id %" PRIu32, m->message_id);
        text_add(t, " correlation %" PRIu32, m->correlation_id);
        for (const struct doca_item *i = s ? s->items : NULL; i && i->name; i++)
                line_item(t, i, m);
}

/* --- I/O messages ------------------------------------------------------------------------------- */

bool doca_io_read(const struct doca_dialect *d, const void *p, size_t n, enum party sender,
                  struct doca_io *out, struct rule_set *found)
{
        bool service = sender == PARTY_HOST, ok = n == DOCA_IO_LEN, known;
        uint8_t whole[DOCA_IO_LEN] = { 0 };

        if (n > 0)
                memcpy(whole, p, n < sizeof(whole) ? n : sizeof(whole));
        *out = (struct doca_io) { 0 };
        for (const struct doca_item *i = d->io; i->name; i++)
                *number_at(i, out) = be_get(whole + i->at, i->len);
        if (!ok)
                rule_add(found, service ? DOCA_IO_LEN_S : DOCA_IO_LEN_T);
        known = out->type < d->io_types && service == (out->type != DOCA_IO_RESULT);
        if (!known)
                rule_add(found, service ? DOCA_IO_TYPE_S : DOCA_IO_TYPE_T);
        return ok && known;
}

void doca_io_write(const struct doca_dialect *d, const struct doca_io *io, uint8_t p[DOCA_IO_LEN])
{
        memset(p, 0, DOCA_IO_LEN);
        for (const struct doca_item *i = d->io; i->name; i++)
                be_put(p + i->at, i->len, number_of(i, io));
}

void doca_io_answer(const struct doca_dialect *d, uint8_t p[DOCA_IO_LEN], uint32_t result)
{
        struct doca_io io = { .type = DOCA_IO_RESULT, .result = result };

        for (const struct doca_item *i = d->io; i->name; i++)
                if (i->member == offsetof(struct doca_io, type) ||
                    i->member == offsetof(struct doca_io, result))
                        be_put(p + i->at, i->len, number_of(i, &io));
}

void doca_io_describe(const struct describe *to, const struct doca_dialect *d,
                      const struct doca_io *io)
{
        for (const struct doca_item *i = d->io; i->name; i++)
                describe_item(to, i, io);
}

void doca_io_line(struct text *t, const struct doca_dialect *d, const struct doca_io *io)
{
        text_add(t, "%s user_data %" PRIx64 "h", doca_io_name(io->type), io->user_data);
        if (io->type == DOCA_IO_RESULT)
                text_add(t, " %s", doca_error_name(io->result));
        text_add(t, " %" PRIu64 " bytes %s %" PRIx64 "h", io->size,
                 d->by_address ? "address" : "memory", io->memory);
        if (!d->storage_by_memory)
                text_add(t, " storage %" PRIx64 "h", io->storage);
}

struct doca_place doca_io_place(const struct doca_dialect *d, const struct doca_io *io,
                                uint64_t base)
{
        uint64_t memory = d->by_address ? io->memory - base : io->memory;

        return (struct doca_place) { memory, d->storage_by_memory ? memory : io->storage };
}

void doca_io_put_place(const struct doca_dialect *d, struct doca_io *io, uint64_t base,
                       struct doca_place place)
{
        io->memory = place.memory + (d->by_address ? base : 0);
        io->storage = d->storage_by_memory ? 0 : place.storage;
}
