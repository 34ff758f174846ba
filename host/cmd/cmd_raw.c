/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host raw: any bytes out, decoded PDUs in. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "pdu/io/stream.h"
#include "pdu/nvme/tcp/framer.h"

enum { BYTES_MAX = 1 << 24, BUFFER = 256 * 1024 };

/* --- what is sent ----------------------------------------------------------------------------- */

struct raw_bytes {
        uint8_t *p;
        size_t len;
        bool half; /* the last byte has only its high digit */
};

/* Hex digits; blanks, ':' and ',' between them are skipped, '#' begins a comment. */
static int add_hex(struct raw_bytes *b, const char *s, size_t n, const char *where,
                   struct host_error *e)
{
        for (size_t i = 0; i < n; i++) {
                int c = (unsigned char)s[i];
                int digit = isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;

                if (c == '#')
                        while (i + 1 < n && s[i + 1] != '\n')
                                i++;
                if (c == '#' || isspace(c) || c == ':' || c == ',')
                        continue;
                if (!isxdigit(c))
                        return host_fail(e, HOST_USAGE, "%s: '%c' is not a hex digit", where, c);
                if (b->len == BYTES_MAX)
                        return host_fail(e, HOST_USAGE, "more than %d bytes", BYTES_MAX);
                if (!b->half)
                        b->p[b->len] = (uint8_t)((unsigned)digit << 4);
                else
                        b->p[b->len++] |= (uint8_t)digit;
                b->half = !b->half;
        }
        return 0;
}

static int add_file(struct raw_bytes *b, const char *path, struct host_error *e)
{
        FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
        char *line = NULL;
        size_t size = 0;
        ssize_t n;
        int result = 0;

        if (!f)
                return host_fail(e, HOST_USAGE, "%s: %s", path, strerror(errno));
        while (result == 0 && (n = getline(&line, &size, f)) >= 0)
                result = add_hex(b, line, (size_t)n, path, e);
        if (ferror(f))
                result = host_fail(e, HOST_USAGE, "%s: %s", path, strerror(errno));
        free(line);
        if (f != stdin)
                fclose(f);
        return result;
}

static int collect(const struct call *call, struct raw_bytes *b, struct host_error *e)
{
        for (int i = 0; i < call->count; i++) {
                const char *w = call->words[i];

                if ((w[0] == '@' ? add_file(b, w + 1, e) : add_hex(b, w, strlen(w), w, e)) < 0)
                        return -1;
        }
        return b->half ? host_fail(e, HOST_USAGE, "an odd number of hex digits") : 0;
}

/* --- what comes back -------------------------------------------------------------------------- */

struct raw {
        const struct args *args;
        struct stream stream;
        struct stream_hand hand;
        struct framer rx;
        uint8_t *buf;
        uint64_t started; /* ns */
        bool over;        /* the controller has closed */
        bool icresp, until_icresp;
};

static void print_line(const struct raw *r, const char *line)
{
        printf("%9.3f ms  %s\n", (double)(loop_now_ns() - r->started) / 1e6, line);
        fflush(stdout);
}

static void print_pdu(const struct raw *r)
{
        char line[512];
        struct text t = text_in(line, sizeof(line));
        const union pdu *h = framer_header(&r->rx);

        pdu_line(&t, h, true);
        if (framer_data_len(&r->rx) > 0 && h->ch.type != PDU_C2H_TERM)
                text_add(&t, " data %u", framer_data_len(&r->rx));
        if (framer_ddgst_bad(&r->rx))
                text_add(&t, " (DDGST is wrong)");
        print_line(r, line);
}

/* What ICResp granted holds for the bytes that follow it. */
static void negotiate(struct raw *r)
{
        const struct pdu_icresp *ic = &framer_header(&r->rx)->icresp;
        struct pdu_format f = { .hdgst = r->args->hdgst && ic->dgst & PDU_DGST_HEADER,
                                .ddgst = r->args->ddgst && ic->dgst & PDU_DGST_DATA,
                                .pda = (uint8_t)r->args->hpda };

        framer_negotiated(&r->rx, &f);
        r->icresp = true;
}

static void print_fault(struct raw *r)
{
        const struct rule *rule = rule_get(framer_fault(&r->rx).rule);
        char line[512];

        snprintf(line, sizeof(line), "not a PDU: %s (%s)", rule->says, rule->id);
        print_line(r, line);
        r->over = true;
}

static void decode(struct raw *r)
{
        enum framer_event ev;

        while ((ev = framer_next(&r->rx)) == FRAMER_HEADER || ev == FRAMER_PDU) {
                if (ev == FRAMER_HEADER)
                        continue;
                print_pdu(r);
                if (framer_header(&r->rx)->ch.type == PDU_ICRESP)
                        negotiate(r);
        }
        if (ev == FRAMER_FAULT)
                print_fault(r);
}

/* False: it is over, or what was waited for is here. */
static bool receive(void *user)
{
        struct raw *r = user;
        struct iovec iov[2];
        ssize_t n = stream_read(&r->stream, iov, framer_recv_iov(&r->rx, iov));

        if (n > 0) {
                framer_received(&r->rx, (size_t)n);
                decode(r);
        } else if (n < 0) {
                print_line(r, r->stream.end == STREAM_FIN ? "closed" : strerror(r->stream.error));
                r->over = true;
        }
        return !r->over && !(r->until_icresp && r->icresp);
}

/* The controller has time again for what is left. */
static void on_sent(void *user, const void *p, size_t n)
{
        struct raw *r = user;

        (void)p;
        (void)n;
        r->hand.deadline = loop_now_ms() + r->args->timeout;
}

/* Prints what comes for up to ms, or until ICResp has come. */
static void listen_for(struct raw *r, uint64_t ms, bool until_icresp)
{
        r->until_icresp = until_icresp;
        if (!r->over && !(until_icresp && r->icresp))
                stream_serve(&r->stream, loop_now_ms() + ms, &r->hand);
        r->until_icresp = false;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static int send_bytes(struct raw *r, const void *p, size_t n, struct host_error *e)
{
        int rc;

        on_sent(r, p, 0);
        rc = r->over ? 1 : stream_send(&r->stream, p, n, &r->hand);
        if (rc == 0)
                return host_fail(e, HOST_BROKEN, "the controller reads no more bytes");
        return rc > 0 || r->over ? 0 : host_fail(e, HOST_BROKEN, "send: %s", strerror(errno));
}

static int exchange_ic(struct raw *r, struct host_error *e)
{
        union pdu h = { .icreq = { .ch = { .type = PDU_ICREQ },
                                   .hpda = (uint8_t)r->args->hpda,
                                   .dgst = (uint8_t)((r->args->hdgst ? PDU_DGST_HEADER : 0) |
                                                     (r->args->ddgst ? PDU_DGST_DATA : 0)) } };
        struct pdu_format none = { 0 };

        pdu_lay_out(&h, &none, 0);
        if (send_bytes(r, h.bytes, sizeof(h.icreq), e) < 0)
                return -1;
        listen_for(r, r->args->timeout, true);
        return r->icresp ? 0 : host_fail(e, HOST_BROKEN, "no ICResp");
}

static int converse(struct raw *r, const struct raw_bytes *b, struct host_error *e)
{
        char error[NET_ERROR];
        struct host_params p;

        if (args_params(r->args, "4420", "", &p, e) < 0)
                return -1;
        if (stream_connect(&r->stream, p.traddr, p.trsvcid, p.timeout, error, sizeof(error)) < 0)
                return host_fail(e, HOST_BROKEN, "%s", error);
        r->started = loop_now_ns();
        if (r->args->ic && exchange_ic(r, e) < 0)
                return -1;
        r->hand.piece = r->args->split;
        r->hand.pause = r->args->delay;
        if (send_bytes(r, b->p, b->len, e) < 0)
                return -1;
        listen_for(r, r->args->wait, false);
        if (!r->over)
                print_line(r, "still connected");
        return 0;
}

int call_raw(struct call *call, struct host_error *e)
{
        struct raw r = { .args = call->args };
        struct raw_bytes b = { .p = malloc(BYTES_MAX) };
        int result = -1;

        r.hand = (struct stream_hand) { .readable = receive, .sent = on_sent, .user = &r };
        r.buf = malloc(BUFFER);
        framer_init(&r.rx, PARTY_CONTROLLER, NULL);
        framer_attach(&r.rx, r.buf, BUFFER);
        if (!b.p || !r.buf)
                host_error_set(e, HOST_BROKEN, "no memory");
        else if (args_transport(call->args) != HOST_TCP)
                host_error_set(e, HOST_USAGE, "raw bytes can be sent over TCP only");
        else if (collect(call, &b, e) == 0)
                result = converse(&r, &b, e);
        stream_close(&r.stream, false);
        free(r.buf);
        free(b.p);
        return result;
}
