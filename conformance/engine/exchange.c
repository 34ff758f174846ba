/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/loop.h"

uint64_t exchange_now(void)
{
        return (uint64_t)loop_wall_ns() / 1000;
}

void exchange_free(struct exchange *x)
{
        free(x->lines);
        free(x->chunks);
        free(x->bytes);
        *x = (struct exchange) { 0 };
}

/* A fresh line at the end; the oldest makes room. NULL: out of memory. */
static struct exchange_line *add(struct exchange *x, unsigned conn, char way)
{
        struct exchange_line *l;

        if (!x->lines)
                x->lines = calloc(EXCHANGE_LINES, sizeof(*x->lines));
        if (!x->lines)
                return NULL;
        if (x->count == EXCHANGE_LINES) {
                x->first = (x->first + 1) % EXCHANGE_LINES;
                x->dropped++;
        } else {
                x->count++;
        }
        l = &x->lines[(x->first + x->count - 1) % EXCHANGE_LINES];
        *l = (struct exchange_line) { .at = x->now ? x->now : exchange_now(),
                                      .conn = conn,
                                      .way = way };
        return l;
}

static void narrate(const struct exchange *x, const struct exchange_line *l)
{
        char buf[EXCHANGE_LINE + 64];

        if (!x->narrate)
                return;
        exchange_format(l, exchange_line(x, 0)->at, buf, sizeof(buf));
        fprintf(x->narrate, "%s %s\n", x->who, buf);
}

void exchange_header(struct exchange *x, unsigned conn, bool sent, uint8_t kind, const void *header,
                     size_t len, const char *text)
{
        struct exchange_line *l = add(x, conn, sent ? '>' : '<');

        if (!l)
                return;
        l->kind = kind;
        memcpy(l->header, header, len < EXCHANGE_HEADER ? len : EXCHANGE_HEADER);
        snprintf(l->text, sizeof(l->text), "%s", text);
        narrate(x, l);
}

static void add_text(struct exchange *x, unsigned conn, char way, const char *fmt, va_list ap)
{
        struct exchange_line *l = add(x, conn, way);

        if (!l)
                return;
        vsnprintf(l->text, sizeof(l->text), fmt, ap);
        narrate(x, l);
}

void exchange_cm(struct exchange *x, unsigned conn, bool sent, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        add_text(x, conn, sent ? '>' : '<', fmt, ap);
        va_end(ap);
}

void exchange_event(struct exchange *x, unsigned conn, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        add_text(x, conn, ' ', fmt, ap);
        va_end(ap);
}

static bool grow(void **p, size_t *cap, size_t want, size_t size)
{
        size_t bigger = *cap > 0 ? *cap : 64;
        void *q;

        if (want <= *cap)
                return true;
        while (bigger < want)
                bigger *= 2;
        q = realloc(*p, bigger * size);
        if (!q)
                return false;
        *p = q;
        *cap = bigger;
        return true;
}

/* Room for one more chunk; false: nothing more is kept. */
static struct exchange_chunk *add_chunk(struct exchange *x, unsigned conn, bool sent)
{
        struct exchange_chunk *c;

        if (x->cut ||
            !grow((void **)&x->chunks, &x->chunk_cap, x->chunk_count + 1, sizeof(*x->chunks))) {
                x->cut = true;
                return NULL;
        }
        c = &x->chunks[x->chunk_count++];
        *c = (struct exchange_chunk) {
                .at = exchange_now(), .conn = conn, .sent = sent, .offset = x->len
        };
        return c;
}

void exchange_bytes(struct exchange *x, unsigned conn, bool sent, const void *bytes, size_t len)
{
        struct exchange_chunk *c;

        if (len > EXCHANGE_BYTES - x->len || !grow((void **)&x->bytes, &x->cap, x->len + len, 1))
                x->cut = true;
        c = add_chunk(x, conn, sent);
        if (!c)
                return;
        memcpy(x->bytes + x->len, bytes, len);
        c->len = len;
        x->len += len;
}

void exchange_end(struct exchange *x, unsigned conn, bool sent, enum exchange_kind kind)
{
        struct exchange_chunk *c = add_chunk(x, conn, sent);

        if (c)
                c->kind = kind;
}

const struct exchange_line *exchange_line(const struct exchange *x, unsigned i)
{
        return &x->lines[(x->first + i) % EXCHANGE_LINES];
}

void exchange_format(const struct exchange_line *l, uint64_t start, char *buf, size_t size)
{
        static const char *const ways[] = { ['<'] = "<-", ['>'] = "->", [' '] = "--" };

        snprintf(buf, size, "%9.3f ms  #%u %s %s", (double)(l->at - start) / 1000.0, l->conn,
                 ways[(unsigned char)l->way], l->text);
}
