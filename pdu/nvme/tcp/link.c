/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <assert.h>
#include <string.h>

#include "pdu/core/asan.h"
#include "pdu/core/crc32c.h"

enum { HAND_EMPTY, HAND_HEADER, HAND_PDU }; /* what of a PDU has been handed out */

const char *link_state_name(enum link_state s)
{
        static const char *const names[] = {
                [LINK_CONNECTING] = "connecting",
                [LINK_LIVE] = "live",
                [LINK_TERMINATING] = "terminating",
                [LINK_CLOSING] = "closing",
                [LINK_DEAD] = "dead",
        };

        return names[s];
}

void link_renew(struct link *l)
{
        const struct rule_policy *policy = l->cfg.policy;

        l->spoils = policy && !rule_set_empty(&policy->violated);
        l->lawful =
            !l->cfg.manual && !l->spoils &&
            (!policy || (rule_set_empty(&policy->waived) && rule_set_empty(&policy->flaws)));
}

int link_init(struct link *l, const struct link_config *cfg, void *user)
{
        const struct rule_set *waived = cfg->policy ? &cfg->policy->waived : NULL;

        *l = (struct link) { .cfg = *cfg, .state = LINK_CONNECTING, .user = user };
        l->tx_last = &l->tx_first;
        link_renew(l);
        l->cfg.limits.findings |= l->spoils; /* some are not to be overlooked */
        framer_init(&l->rx, peer_of(cfg->side), waived);
        l->track = track_new(&l->cfg.limits, waived);
        return l->track ? 0 : -1;
}

void link_fini(struct link *l)
{
        track_free(l->track);
        l->track = NULL;
}

static void enter(struct link *l, enum link_state s)
{
        if (s > l->state)
                l->state = s;
}

static enum party peer(const struct link *l)
{
        return peer_of(l->cfg.side);
}

static void forget_queue(struct link *l)
{
        l->tx_first = NULL;
        l->tx_last = &l->tx_first;
        l->tx_done = 0;
}

static void end(struct link *l, enum link_state s)
{
        forget_queue(l);
        l->deaf = true;
        enter(l, s);
}

void link_close(struct link *l)
{
        end(l, LINK_CLOSING);
}

void link_kill(struct link *l)
{
        end(l, LINK_DEAD);
}

void link_finish(struct link *l, enum tx_end how)
{
        struct tx *last = l->tx_first;

        if (l->state >= LINK_TERMINATING)
                return;
        if (!last) {
                end(l, how == TX_RESETS ? LINK_DEAD : LINK_CLOSING);
                return;
        }
        while (last->next)
                last = last->next;
        if (last->end == TX_GOES_ON) {
                last->end = how;
                last->end_at = TX_WHOLE;
        }
        l->deaf = true;
        enter(l, LINK_TERMINATING);
}

/* --- output ----------------------------------------------------------------------------------- */

static void enqueue(struct link *l, struct tx *tx)
{
        tx->next = NULL;
        *l->tx_last = tx;
        l->tx_last = &tx->next;
}

static size_t tx_len(const struct tx *tx)
{
        return (size_t)tx->head_len + tx->pad + tx->data_len + tx->ddgst_len;
}

static void lay_out(struct link *l, struct tx *tx)
{
        const struct pdu_format *f = track_format(l->track, l->cfg.side);
        union pdu *h = (union pdu *)tx->head;

        pdu_lay_out(h, f, tx->data_len);
        tx->head_len = (uint16_t)pdu_head_len(h, f);
        tx->pad = h->ch.pdo > 0 ? (uint8_t)(h->ch.pdo - tx->head_len) : 0;
        tx->ddgst_len = h->ch.flags & PDU_DDGSTF ? PDU_DIGEST_LEN : 0;
        tx->twice = false;
        tx->end = TX_GOES_ON;
}

static void sum(struct tx *tx, uint8_t hlen, const struct spoil *s)
{
        if (tx->head_len > hlen)
                le_put(tx->head + hlen, PDU_DIGEST_LEN, crc32c(tx->head, hlen) ^ s->hdgst_xor);
        if (tx->ddgst_len > 0)
                le_put(tx->ddgst, PDU_DIGEST_LEN, crc32c(tx->data, tx->data_len) ^ s->ddgst_xor);
}

static struct spoil spoil(const struct link *l, struct tx *tx)
{
        struct spoil s = {
                .h = (union pdu *)tx->head,
                .data = (uint8_t *)(uintptr_t)tx->data,
                .data_len = tx->data_len,
                .pad = tx->pad,
                .data_writable = tx->data_writable,
                .sqe = tx->sqe,
        };

        if (l->spoils)
                spoil_pdu(&l->cfg.policy->violated, l->cfg.side, &s);
        if (l->sending)
                l->sending(l->user, tx, &s);
        tx->pad = (uint8_t)s.pad;
        tx->data_len = s.data_len;
        if (s.data_len == 0)
                tx->ddgst_len = 0;
        return s;
}

/* ICResp carries the formats that both directions have from here on. */
static void negotiated(struct link *l)
{
        if (!track_live(l->track))
                return;
        framer_negotiated(&l->rx, track_format(l->track, peer(l)));
        enter(l, LINK_LIVE);
}

static void track_own(struct link *l, const union pdu *h)
{
        struct fault fault = track_header(l->track, l->cfg.side, h);

        assert(!is_fault(fault) || !l->lawful);
        (void)fault;
}

/* FLAW_DDGST_PADDED: as though PAD were summed, too. */
static bool sums_pad(const struct link *l, const struct tx *tx, uint8_t hlen)
{
        return tx->pad > 0 && tx->head_len == hlen && flawed(l->cfg.policy, FLAW_DDGST_PADDED);
}

void link_send(struct link *l, struct tx *tx)
{
        struct pdu_ch ch;
        struct spoil s = { 0 };

        if (l->state >= LINK_TERMINATING)
                return;
        lay_out(l, tx);
        memcpy(&ch, tx->head, sizeof(ch)); /* before a violator changes it */
        track_own(l, (const union pdu *)tx->head);
        if (l->spoils || l->sending)
                s = spoil(l, tx);
        s.ddgst_xor ^= sums_pad(l, tx, ch.hlen);
        sum(tx, ch.hlen, &s);
        tx->twice = s.twice;
        enqueue(l, tx);
        if (ch.type == PDU_ICRESP)
                negotiated(l);
}

void link_send_raw(struct link *l, struct tx *tx)
{
        if (l->state < LINK_TERMINATING)
                enqueue(l, tx);
}

static const uint8_t zeroes[PDU_PDO_MAX];

/* The iovecs of a transmission cut to those that are still to go, at most max. */
struct cut {
        struct iovec *iov;
        int n, max;
        size_t skip; /* bytes */
};

static void cut_add(struct cut *c, const void *p, size_t len)
{
        size_t skip = c->skip < len ? c->skip : len;

        c->skip -= skip;
        if (len > skip && c->n < c->max)
                c->iov[c->n++] = (struct iovec) { (uint8_t *)(uintptr_t)p + skip, len - skip };
}

static void pop(struct link *l)
{
        struct tx *tx = l->tx_first;

        l->tx_done = 0;
        if (tx->twice) {
                tx->twice = false;
                return;
        }
        l->tx_first = tx->next;
        if (!l->tx_first)
                l->tx_last = &l->tx_first;
        if (tx == &l->term_tx && l->state == LINK_TERMINATING)
                enter(l, LINK_CLOSING);
        if (tx->sent)
                tx->sent(tx, l->user);
}

static void cut_tx(struct cut *c, const struct tx *tx)
{
        cut_add(c, tx->head, tx->head_len);
        cut_add(c, zeroes, tx->pad);
        cut_add(c, tx->data, tx->data_len);
        cut_add(c, tx->ddgst, tx->ddgst_len);
}

/* Bytes of it that go out before the connection ends. */
static size_t end_of(const struct tx *tx)
{
        size_t len = tx_len(tx);

        if (tx->end_at == TX_HALF)
                return len / 2;
        return tx->end_at < len ? tx->end_at : len;
}

static bool is_at_end(const struct link *l)
{
        return l->tx_first && l->tx_first->end != TX_GOES_ON && l->tx_done >= end_of(l->tx_first);
}

/* So many iovecs are left of n for that many bytes, which are at least 1. */
int link_shorten(struct iovec *iov, int n, size_t bytes)
{
        for (int i = 0; i < n; i++) {
                if (iov[i].iov_len >= bytes) {
                        iov[i].iov_len = bytes;
                        return i + 1;
                }
                bytes -= iov[i].iov_len;
        }
        return n;
}

int link_send_iov(struct link *l, struct iovec *iov, int max)
{
        struct cut c = { .iov = iov, .max = max, .skip = l->tx_done };
        size_t before = 0;

        if (is_at_end(l))
                end(l, l->tx_first->end == TX_RESETS ? LINK_DEAD : LINK_CLOSING);
        for (const struct tx *tx = l->tx_first; tx && c.n < max; tx = tx->next) {
                cut_tx(&c, tx);
                if (tx->end != TX_GOES_ON) {
                        before += end_of(tx);
                        return before > l->tx_done ? link_shorten(iov, c.n, before - l->tx_done)
                                                   : 0;
                }
                if (tx->twice)
                        cut_tx(&c, tx);
                before += tx_len(tx) * (tx->twice ? 2 : 1);
        }
        return c.n;
}

void link_sent(struct link *l, size_t n)
{
        l->tx_done += n;
        while (l->tx_first && !is_at_end(l) && l->tx_done >= tx_len(l->tx_first)) {
                size_t rest = l->tx_done - tx_len(l->tx_first);

                pop(l);
                l->tx_done = l->tx_first ? rest : 0;
        }
}

/* --- termination ------------------------------------------------------------------------------ */

/* The header at fault, or what is there of it. */
static uint32_t header_len(const struct link *l, enum framer_event ev)
{
        const struct pdu_info *info = pdu_info(framer_header(&l->rx)->ch.type);

        if (ev == FRAMER_FAULT)
                return framer_header_got(&l->rx);
        return l->in_hand != HAND_EMPTY && info ? info->hlen : 0;
}

static void send_term(struct link *l, struct fault fault, uint32_t copied)
{
        struct pdu_term *t = (struct pdu_term *)l->term;

        if (l->term_queued)
                return;
        l->term_queued = true;
        *t = (struct pdu_term) {
                .ch = { .type = l->cfg.side == PARTY_HOST ? PDU_H2C_TERM : PDU_C2H_TERM },
                .fes = le16(fault.code),
                .fei = le32(fault.place),
        };
        memcpy(l->term + sizeof(*t), framer_header(&l->rx)->bytes, copied);
        l->term_tx = (struct tx) {
                .head = l->term,
                .data = l->term + sizeof(*t),
                .data_len = copied,
                .data_writable = true,
        };
        link_send(l, &l->term_tx);
}

static void terminate(struct link *l, struct fault fault, uint32_t copied)
{
        l->fault = fault;
        send_term(l, fault, copied);
        if (l->cfg.manual)
                return;
        if ((link_violates(l, TCP_TERM_QUIET) || link_violates(l, TCP_TERM_STOPS)) && !l->deaf) {
                l->skip = true;
                return;
        }
        l->deaf = true;
        enter(l, LINK_TERMINATING);
}

void link_terminate(struct link *l, struct fault fault)
{
        if (l->state < LINK_TERMINATING)
                terminate(l, fault, header_len(l, FRAMER_HEADER));
}

static bool is_term(const union pdu *h)
{
        return h->ch.type == PDU_H2C_TERM || h->ch.type == PDU_C2H_TERM;
}

/* A malformed TermReq, an overrun: no word about it. */
static void hang_up(struct link *l, struct fault fault, uint32_t copied)
{
        bool term = is_term(framer_header(&l->rx));

        l->fault = fault;
        if (term && link_violates(l, TCP_TERM_SILENCE))
                terminate(l, (struct fault) { fault.rule, FES_INVALID_HEADER_FIELD, 4 }, copied);
        else if (term && link_violates(l, TCP_TERM_CLOSE))
                l->deaf = true;
        else
                link_close(l);
}

static bool ends_connection(struct fault f)
{
        switch (rule_get(f.rule)->reaction) {
        case REACT_TERM:
        case REACT_CLOSE:
        case REACT_ANY:
                return true;
        case REACT_STATUS:
        case REACT_REFUSE:
        case REACT_REJECT:
        case REACT_AUTH:
        case REACT_TOLERATE:
        case REACT_NONE:
                break;
        }
        return false;
}

static enum framer_event condemn(struct link *l, enum framer_event ev, struct fault fault)
{
        uint32_t copied = header_len(l, ev);

        if (rule_get(fault.rule)->reaction == REACT_CLOSE)
                hang_up(l, fault, copied);
        else
                terminate(l, fault, copied);
        return FRAMER_FAULT;
}

/* --- input ------------------------------------------------------------------------------------ */

int link_recv_iov(struct link *l, struct iovec iov[2])
{
        if (!l->deaf)
                return framer_recv_iov(&l->rx, iov);
        ASAN_UNPOISON_MEMORY_REGION(l->rx.buf, l->rx.cap);
        iov[0] = (struct iovec) { l->rx.buf, l->rx.cap };
        return 1;
}

void link_received(struct link *l, size_t n)
{
        if (!l->deaf)
                framer_received(&l->rx, n);
}

/* What a tracked fault makes of an event. */
static enum framer_event judge(struct link *l, enum framer_event ev, struct fault fault)
{
        if (!is_fault(fault))
                return ev;
        if (l->cfg.manual) {
                l->fault = fault;
                return ev;
        }
        return ends_connection(fault) ? condemn(l, ev, fault) : ev;
}

/* With the check of its length waived a malformed one is passed over, not obeyed. */
static bool obeyed(const struct link *l, const struct pdu_term *t)
{
        uint32_t plen = le32_get(t->ch.plen);
        bool waived = link_waives(l, TCP_TERM_LEN_H2C) || link_waives(l, TCP_TERM_LEN_C2H);

        return !waived || (plen >= sizeof(*t) && plen <= PDU_TERM_MAX);
}

static void peer_gave_up(struct link *l)
{
        const struct pdu_term *t = &framer_header(&l->rx)->term;

        l->peer_term.fes = le16_get(t->fes);
        l->peer_term.fei = le32_get(t->fei);
        l->peer_term.seen = true;
        if (l->cfg.manual || !obeyed(l, t) || link_violates(l, TCP_TERM_CLOSE))
                return;
        link_close(l);
}

/* A slip of the peer that is to be overlooked, and on request is not. */
static struct fault not_tolerated(const struct link *l)
{
        struct fault f = track_warning(l->track);
        bool intolerant =
            is_fault(f) && link_violates(l, f.rule) && rule_get(f.rule)->bound == peer(l);

        if (!intolerant)
                return (struct fault) { RULE_NONE, 0, 0 };
        return (struct fault) { f.rule, FES_INVALID_HEADER_FIELD, offsetof(struct pdu_ch, flags) };
}

static enum framer_event on_header(struct link *l)
{
        struct fault fault = track_header(l->track, peer(l), framer_header(&l->rx));

        l->in_hand = HAND_HEADER;
        l->skip = false;
        if (!is_fault(fault) && l->spoils)
                fault = not_tolerated(l);
        if (is_fault(fault) && !l->cfg.manual && rule_get(fault.rule)->reaction == REACT_TOLERATE) {
                terminate(l, fault, header_len(l, FRAMER_HEADER));
                return FRAMER_FAULT;
        }
        return judge(l, FRAMER_HEADER, fault);
}

static enum framer_event on_pdu(struct link *l)
{
        const union pdu *h = framer_header(&l->rx);
        enum framer_event ev;

        l->in_hand = HAND_PDU;
        if (l->skip)
                return FRAMER_PDU;
        ev = judge(l, FRAMER_PDU, track_pdu(l->track, peer(l), h, framer_ddgst_bad(&l->rx)));
        if (ev == FRAMER_FAULT)
                return ev;
        if (h->ch.type == PDU_ICRESP)
                negotiated(l);
        else if (is_term(h))
                peer_gave_up(l);
        return ev;
}

/* The stream can't be read on. */
static enum framer_event on_fault(struct link *l)
{
        struct fault fault = framer_fault(&l->rx);

        l->deaf = true;
        if (!l->cfg.manual)
                return condemn(l, FRAMER_FAULT, fault);
        l->fault = fault;
        return FRAMER_FAULT;
}

static enum framer_event step(struct link *l)
{
        if (l->in_hand == HAND_PDU)
                l->in_hand = HAND_EMPTY;
        switch (framer_next(&l->rx)) {
        case FRAMER_HEADER:
                return on_header(l);
        case FRAMER_PDU:
                return on_pdu(l);
        case FRAMER_FAULT:
                return on_fault(l);
        case FRAMER_MORE:
                break;
        }
        return FRAMER_MORE;
}

enum framer_event link_next(struct link *l)
{
        enum framer_event ev;

        if (l->deaf)
                return l->cfg.manual && is_fault(l->fault) && l->state < LINK_CLOSING ? FRAMER_FAULT
                                                                                      : FRAMER_MORE;
        do
                ev = step(l);
        while (l->skip && !l->deaf && ev != FRAMER_MORE);
        return ev;
}
