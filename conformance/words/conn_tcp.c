/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn_tcp.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/engine/leaving.h"
#include "pdu/core/crc32c.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/tcp/spoil_tcp.h"
#include "pdu/nvme/wire/text.h"

/* The framer has to get past whatever the target does wrong, the tracker past what we do wrong. */
static void overlook(struct conn_tcp *c)
{
        rule_each (r) {
                if (r != TCP_DDGST_C2H) /* which ends nothing */
                        rule_add(&c->waived, r);
                if (rule_get(r)->bound == PARTY_HOST)
                        rule_add(&c->waived_track, r);
        }
}

static const struct conn_ops tcp;

/* FIN; somebody else watches whether the target does the same. */
static void leave(struct conn_tcp *c)
{
        if (c->base.leaving && stream_is_open(&c->stream) && c->stream.end == STREAM_OPEN)
                leaving_add(c->base.leaving, &c->stream, c->base.log->who);
        else
                stream_close(&c->stream, false);
}

struct suite_conn *conn_tcp_open(const char *traddr, const char *trsvcid, unsigned timeout,
                                 unsigned no, struct exchange *log, char *error, size_t size)
{
        static const struct track_limits limits = { .depth_max = 1024,
                                                    .r2ts_max = 4096,
                                                    .findings = true };
        struct conn_tcp *c = calloc(1, sizeof(*c));

        if (!c) {
                snprintf(error, size, "out of memory");
                return NULL;
        }
        conn_init(&c->base, &tcp, no, log);
        overlook(c);
        framer_init(&c->rx, PARTY_CONTROLLER, &c->waived);
        c->buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&c->rx, c->buf, FRAMER_BUFFER_MIN);
        c->track = track_new(&limits, &c->waived_track);
        if (!c->buf || !c->track)
                snprintf(error, size, "out of memory");
        if (!c->buf || !c->track ||
            stream_connect(&c->stream, traddr, trsvcid, timeout, error, size) < 0) {
                conn_free(&c->base);
                return NULL;
        }
        exchange_event(log, no, "connected");
        return &c->base;
}

int conn_secure(struct conn_tcp *c, const struct nvme_tls *cfg, const char *hostnqn,
                const char *subnqn, char *error, size_t size)
{
        return nvme_tls_connect(&c->stream, cfg, hostnqn, subnqn, error, size);
}

static void free_tcp(struct suite_conn *base)
{
        struct conn_tcp *c = conn_tcp(base);

        conn_free_seen(base);
        leave(c);
        track_free(c->track);
        free(c->buf);
        free(c->sink);
        free(c->held);
        free(c->out);
        free(c);
}

static void ended(struct conn_tcp *c, enum conn_end how, const char *says)
{
        if (c->base.end != CONN_OPEN)
                return;
        conn_over(&c->base, how, says);
        if (how == CONN_FIN || how == CONN_RST)
                exchange_end(c->base.log, c->base.no, false,
                             how == CONN_FIN ? CHUNK_FIN : CHUNK_RST);
}

static void close_tcp(struct suite_conn *base)
{
        struct conn_tcp *c = conn_tcp(base);

        exchange_end(base->log, base->no, true, CHUNK_FIN);
        conn_over(base, CONN_CLOSED, "we close");
        leave(c);
}

static void reset_tcp(struct suite_conn *base)
{
        struct conn_tcp *c = conn_tcp(base);

        exchange_end(base->log, base->no, true, CHUNK_RST);
        conn_over(base, CONN_CLOSED, "we reset");
        stream_close(&c->stream, true);
}

void conn_half_close(struct conn_tcp *c)
{
        exchange_event(c->base.log, c->base.no, "we send no more (FIN)");
        stream_half_close(&c->stream);
}

/* --- what comes ---------------------------------------------------------------------------- */

static void report(struct conn_tcp *c, struct fault f, const union pdu *h)
{
        struct message m = message_of_pdu(h);

        conn_breach(&c->base, f.rule, &m);
}

static void lose_track(struct conn_tcp *c)
{
        track_free(c->track);
        c->track = NULL;
}

/* After a breach that a peer would end the connection for, the model says nothing of use. */
static void tracked(struct conn_tcp *c, struct fault f, const union pdu *h)
{
        struct message m = message_of_pdu(h);

        conn_breach(&c->base, f.rule, &m);
        conn_breaches(&c->base, track_findings(c->track), &m);
        if (is_fault(f) && rule_get(f.rule)->reaction == REACT_TERM)
                lose_track(c);
}

static void check_hdgst(struct conn_tcp *c, const union pdu *h)
{
        const struct pdu_info *info = pdu_info(h->ch.type);

        if (!info || !info->has_hdgst || !c->c2h.hdgst ||
            crc32c(h->bytes, info->hlen) == c->rx.hdgst)
                return;
        report(c, rule_fault(TCP_HDGST_C2H), h);
}

/* An odd length is fine where the command counts bytes. */
static bool counts_bytes(const struct conn_tcp *c, const union pdu *h)
{
        const struct track_cmd *cmd =
            c->track ? track_cmd(c->track, le16_get(h->data.cccid)) : NULL;

        return cmd && cmd->counts_bytes;
}

/* False: after this the model is of no use. */
static bool stateless(struct conn_tcp *c, const union pdu *h)
{
        struct fault f = pdu_check_common(&h->ch, PARTY_CONTROLLER, &c->c2h, NULL);

        if (!is_fault(f))
                f = pdu_check_header(h, &c->c2h, NULL);
        if (f.rule == TCP_C2H_DWORD_LENGTH && counts_bytes(c, h))
                f = (struct fault) { 0 };
        report(c, f, h);
        report(c, pdu_check_overlooked(h, PARTY_CONTROLLER, &c->c2h), h);
        check_hdgst(c, h);
        return f.rule == RULE_NONE || rule_get(f.rule)->level != LEVEL_MUST;
}

static void on_header(struct conn_tcp *c)
{
        const union pdu *h = framer_header(&c->rx);
        struct seen *s;

        if (c->term_seen)
                report(c, rule_fault(TCP_TERM_QUIET), h);
        if (framer_data_len(&c->rx) > CONN_DATA_MAX) {
                report(c, rule_fault(TCP_PLEN_C2H), h);
                ended(c, CONN_UNREADABLE, "a PDU of more than 64 MiB; the rest is not read");
                return;
        }
        if (!stateless(c, h))
                lose_track(c);
        if (c->track)
                tracked(c, track_header(c->track, PARTY_CONTROLLER, h), h);
        c->sink = s = conn_room(&c->base, framer_data_len(&c->rx));
        if (s)
                framer_sink(&c->rx, s->data);
}

static void on_icresp(struct conn_tcp *c, const struct pdu_icresp *r)
{
        unsigned on = c->asked & r->dgst;

        c->h2c.hdgst = c->c2h.hdgst = on & PDU_DGST_HEADER;
        c->h2c.ddgst = c->c2h.ddgst = on & PDU_DGST_DATA;
        c->h2c.pda = r->cpda <= PDU_PDA_MAX ? r->cpda : 0;
        c->c2h.pda = c->hpda <= PDU_PDA_MAX ? c->hpda : 0;
        c->maxh2cdata = le32_get(r->maxh2cdata);
        framer_negotiated(&c->rx, &c->c2h);
}

int conn_last_sent(const struct conn_tcp *c)
{
        return c->sent_count ? c->sent[(c->sent_count - 1) % CONN_SENT].ch.type : -1;
}

/* C2HTermReq hands back the header of a PDU of ours (as much of it as it carries). */
static void check_copy(struct conn_tcp *c, const struct seen *s)
{
        unsigned n = c->sent_count < CONN_SENT ? c->sent_count : CONN_SENT;

        for (unsigned i = 0; i < n && s->len >= sizeof(struct pdu_ch); i++) {
                const union pdu *h = &c->sent[i];
                const struct pdu_info *info = pdu_info(h->ch.type);
                size_t len = info && info->hlen ? info->hlen : sizeof(struct pdu_ch);

                if (memcmp(h, s->data, len < s->len ? len : s->len) == 0)
                        return;
        }
        if (n > 0 && !c->raw &&
            c->sent_count <= CONN_SENT) /* else it may be one that is forgotten */
                report(c, rule_fault(TCP_TERM_COPY_C2H), &s->m.pdu);
}

static void file_pdu(struct conn_tcp *c, struct seen *s)
{
        conn_file(&c->base, s);
        conn_log(&c->base, false, &s->m, s->len, s->ddgst_bad ? "wrong DDGST" : NULL);
}

static bool ddgst_bad(const struct conn_tcp *c)
{
        return framer_ddgst_bad(&c->rx);
}

static void on_pdu(struct conn_tcp *c)
{
        struct seen *s = c->sink;
        const uint8_t *data = framer_data(&c->rx);

        c->sink = NULL;
        s->m = message_of_pdu(framer_header(&c->rx));
        s->len = data ? framer_data_len(&c->rx) : 0;
        s->ddgst_bad = ddgst_bad(c);
        if (data && data != s->data)
                memcpy(s->data, data, s->len);
        if (c->track)
                tracked(c, track_pdu(c->track, PARTY_CONTROLLER, &s->m.pdu, s->ddgst_bad),
                        &s->m.pdu);
        else if (s->ddgst_bad)
                report(c, rule_fault(TCP_DDGST_C2H), &s->m.pdu);
        if (framer_pad_set(&c->rx))
                report(c, rule_fault(TCP_RSVD_C2H), &s->m.pdu);
        file_pdu(c, s);
        if (s->m.pdu.ch.type == PDU_ICRESP)
                on_icresp(c, &s->m.pdu.icresp);
        if (s->m.pdu.ch.type == PDU_C2H_TERM) {
                c->term_seen = true;
                check_copy(c, s);
        }
}

static void take_events(struct conn_tcp *c)
{
        enum framer_event e;

        while (c->base.end == CONN_OPEN && (e = framer_next(&c->rx)) != FRAMER_MORE) {
                if (e == FRAMER_HEADER) {
                        on_header(c);
                } else if (e == FRAMER_PDU) {
                        on_pdu(c);
                } else {
                        report(c, framer_fault(&c->rx), framer_header(&c->rx));
                        ended(c, CONN_UNREADABLE,
                              "the bytes received are not a PDU; the rest "
                              "is not read");
                }
        }
}

static void log_received(struct conn_tcp *c, const struct iovec *iov, int n, size_t got)
{
        for (int i = 0; i < n && got > 0; i++) {
                size_t len = got < iov[i].iov_len ? got : iov[i].iov_len;

                exchange_bytes(c->base.log, c->base.no, false, iov[i].iov_base, len);
                got -= len;
        }
}

/* Reads what is there; false: it has ended. */
static void see_end(struct conn_tcp *c)
{
        bool fin = c->stream.end == STREAM_FIN;

        ended(c, fin ? CONN_FIN : CONN_RST,
              fin ? "the target closes (FIN)" : "the target resets (RST)");
}

static bool read_some(void *user)
{
        struct conn_tcp *c = user;
        struct iovec iov[2];
        int n = framer_recv_iov(&c->rx, iov);
        ssize_t got = stream_read(&c->stream, iov, n);

        if (got > 0) {
                log_received(c, iov, n, (size_t)got);
                if (!c->foreign) {
                        framer_received(&c->rx, (size_t)got);
                        take_events(c);
                }
        } else if (got < 0) {
                see_end(c);
        }
        return c->base.end == CONN_OPEN;
}

static bool wait_tcp(struct suite_conn *base, uint64_t deadline)
{
        struct conn_tcp *c = conn_tcp(base);
        struct seen **end = base->inbox_end;

        while (base->end == CONN_OPEN && base->inbox_end == end) {
                int left = loop_left(deadline);

                if (stream_wait(&c->stream, EPOLLIN, left) > 0)
                        read_some(c);
                if (left == 0) /* also for a peer whose PDU never ends */
                        break;
        }
        return base->end != CONN_OPEN || base->inbox_end != end;
}

size_t conn_read_bytes(struct conn_tcp *c, void *bytes, size_t size, uint64_t deadline)
{
        const struct iovec iov = { bytes, size };

        c->foreign = true;
        while (c->base.end == CONN_OPEN) {
                int left = loop_left(deadline);
                ssize_t got = stream_wait(&c->stream, EPOLLIN, left) > 0
                                  ? stream_read(&c->stream, &iov, 1)
                                  : 0;

                if (got > 0) {
                        exchange_bytes(c->base.log, c->base.no, false, bytes, (size_t)got);
                        return (size_t)got;
                }
                if (got < 0)
                        see_end(c);
                else if (left == 0)
                        break;
        }
        return 0;
}

static const struct conn_ops tcp = {
        .free = free_tcp, .close = close_tcp, .reset = reset_tcp, .wait = wait_tcp
};

struct conn_tcp *conn_tcp(struct suite_conn *c)
{
        return c->kind == &tcp ? (struct conn_tcp *)(void *)c : NULL;
}

/* --- what goes ----------------------------------------------------------------------------- */

static void log_sent(void *user, const void *p, size_t n)
{
        struct conn_tcp *c = user;

        exchange_bytes(c->base.log, c->base.no, true, p, n);
}

bool conn_send_bytes(struct conn_tcp *c, const void *bytes, uint32_t n, uint64_t deadline)
{
        struct stream_hand hand = { .piece = c->segment,
                                    .deadline = deadline,
                                    .readable = read_some,
                                    .sent = log_sent,
                                    .user = c };

        return c->base.end != CONN_OPEN || stream_send(&c->stream, bytes, n, &hand) != 0;
}

static bool make_room(struct conn_tcp *c, uint32_t n)
{
        if (n <= c->out_cap)
                return true;
        free(c->out);
        c->out = conn_alloc(&c->base, n);
        c->out_cap = c->out ? n : 0;
        return c->out;
}

/* The PDU that is put together: its parts as they were laid out. */
struct layout {
        uint32_t head, pad, len, ddgst;
};

static struct layout lay_out(struct conn_tcp *c, union pdu *h, uint32_t len)
{
        struct layout l = { .len = len };
        uint32_t more = c->pad_steps * (c->h2c.pda + 1u) * 4;
        bool at_pdo;

        pdu_lay_out(h, &c->h2c, len);
        l.head = pdu_head_len(h, &c->h2c);
        at_pdo = len > 0 && h->ch.pdo > 0;
        if (at_pdo && h->ch.pdo + more <= UINT8_MAX) {
                h->ch.plen = le32(le32_get(h->ch.plen) + more);
                h->ch.pdo = (uint8_t)(h->ch.pdo + more);
        }
        l.pad = at_pdo && h->ch.pdo > l.head ? h->ch.pdo - l.head : 0;
        l.ddgst = at_pdo && c->h2c.ddgst ? PDU_DIGEST_LEN : 0;
        return l;
}

static void add_remark(struct text *t, const char *what)
{
        text_add(t, "%s%s", t->len > 0 ? ", " : "", what);
}

/* A violator may also change how much padding and data there is. */
static void apply_violation(struct conn_tcp *c, union pdu *h, uint8_t *data, struct layout *l,
                            struct spoil *s, struct text *remark)
{
        *s = (struct spoil) { .h = h,
                              .data = data,
                              .data_len = l->len,
                              .pad = l->pad,
                              .data_writable = true,
                              .hdgst_xor = c->hdgst_xor,
                              .ddgst_xor = c->ddgst_xor };
        if (c->hdgst_xor | c->ddgst_xor)
                add_remark(remark, c->hdgst_xor ? "wrong HDGST" : "wrong DDGST");
        c->hdgst_xor = c->ddgst_xor = 0;
        if (!c->base.violate_armed || !spoil_pdu(&c->violate, PARTY_HOST, s))
                return;
        l->len = s->data_len;
        l->pad = s->pad;
        l->ddgst = l->len > 0 ? l->ddgst : 0;
        rule_each (r)
                if (rule_in(&c->violate, r))
                        add_remark(remark, rule_get(r)->id);
        c->violate = (struct rule_set) { 0 };
        c->base.violate_armed = false;
        c->maimed = true;
}

/* Bytes of the PDU from the parts; they end after ddgst. */
static uint32_t assemble(struct conn_tcp *c, const union pdu *h, struct layout l,
                         const struct spoil *s)
{
        uint8_t *data = c->out + sizeof(*h) + PDU_DIGEST_LEN + UINT8_MAX;
        uint8_t *p = data - l.pad - l.head;
        uint32_t hlen = l.head, plen = l.head + l.pad + l.len + l.ddgst;
        const struct pdu_info *info = pdu_info(h->ch.type);

        if (info && info->has_hdgst && c->h2c.hdgst)
                hlen -= PDU_DIGEST_LEN;
        memcpy(p, h, hlen);
        if (l.head > hlen) {
                c->hdgst_sent = crc32c(p, hlen) ^ s->hdgst_xor;
                le_put(p + hlen, PDU_DIGEST_LEN, c->hdgst_sent);
        }
        memset(p + l.head, c->pad_value, l.pad);
        if (l.ddgst > 0)
                le_put(data + l.len, PDU_DIGEST_LEN, crc32c(data, l.len) ^ s->ddgst_xor);
        memmove(c->out, p, plen);
        return plen;
}

static void remember(struct conn_tcp *c, const union pdu *h)
{
        c->sent[c->sent_count++ % CONN_SENT] = *h;
        if (h->ch.type == PDU_ICREQ) {
                c->asked = h->icreq.dgst;
                c->hpda = h->icreq.hpda;
        }
        if (c->maimed || c->raw)
                lose_track(c);
        if (c->track)
                (void)track_header(c->track, PARTY_HOST, h);
        if (c->track)
                (void)track_pdu(c->track, PARTY_HOST, h, false);
}

static bool send_held(struct conn_tcp *c, uint32_t n, uint64_t deadline)
{
        uint32_t hold = c->hold < n ? c->hold : n;

        c->hold = 0;
        if (hold > 0) {
                free(c->held);
                c->held = conn_alloc(&c->base, hold);
                if (!c->held)
                        return true;
                memcpy(c->held, c->out + n - hold, hold);
                c->held_len = hold;
        }
        return conn_send_bytes(c, c->out, n - hold, deadline);
}

bool conn_send(struct conn_tcp *c, union pdu *h, const void *data, uint32_t len, uint64_t deadline)
{
        char remark[128];
        struct text t = text_in(remark, sizeof(remark));
        struct layout l = lay_out(c, h, len);
        struct message m;
        struct spoil s;
        uint32_t n;
        bool sent = true;

        if (!make_room(c, (uint32_t)sizeof(*h) + UINT8_MAX + len + 2 * PDU_DIGEST_LEN))
                return true;
        if (len > 0)
                memcpy(c->out + sizeof(*h) + PDU_DIGEST_LEN + UINT8_MAX, data, len);
        apply_violation(c, h, c->out + sizeof(*h) + PDU_DIGEST_LEN + UINT8_MAX, &l, &s, &t);
        m = message_of_pdu(h);
        c->maimed |= conn_apply_changes(&c->base, &m, &t);
        *h = m.pdu;
        n = assemble(c, h, l, &s);
        conn_log(&c->base, true, &m, len, remark);
        remember(c, h);
        if (c->base.end == CONN_OPEN)
                sent = send_held(c, n, deadline);
        if (c->base.end == CONN_OPEN && s.twice && sent)
                sent = conn_send_bytes(c, c->out, n, deadline);
        c->pad_steps = 0;
        c->pad_value = 0;
        return sent;
}

bool conn_release(struct conn_tcp *c, uint64_t deadline)
{
        bool sent = conn_send_bytes(c, c->held, c->held_len, deadline);

        c->held_len = 0;
        return sent;
}
