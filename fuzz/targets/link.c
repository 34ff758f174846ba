/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a connection with nothing behind it: what comes in and what it is told to send, in any
 * order, also by hand and with rules broken on purpose. The stream is taken in pieces; states only
 * move on.
 *
 * Input: bits (2 bytes), the rules that are broken (a count, 2 bytes each), the allocation that
 * fails (1); then steps: what (1), a PDU.
 */
#include "pdu/nvme/tcp/link.h"
#include "fuzz/fuzz.h"
#include "fuzz/stream.h"

enum {
        BIT_CONTROLLER = 1,
        BIT_MANUAL = 2,
        BIT_WAIVED = 4,
        BIT_FINDINGS = 8,
        BIT_FEW = 16,
        BIT_FREE = 32,
        BIT_WIDE = 64
};
enum {
        STEP_SEND = 1,
        STEP_RAW_HEADER = 2,
        STEP_DATA = 4,
        STEP_BY_HAND = 8,
        STEP_BAD_SUM = 16,
        STEP_CUT = 32,
        STEP_OUT = 64,
        STEP_END = 128
};
enum { TXS = 24, DATA = 600, PDU_ROOM = 256 + DATA };

struct rig {
        struct fuzz_input in;
        struct link l;
        struct rule_policy policy;
        struct tx tx[TXS];
        uint8_t head[TXS][PDU_HEADER_MAX + PDU_DIGEST_LEN], data[TXS][DATA];
        unsigned sent, told;
        union sqe sqe;
        enum link_state last;
};

static void on_sent(struct tx *tx, void *user)
{
        struct rig *rig = user;

        must(tx >= rig->tx && tx < rig->tx + TXS);
        rig->told++;
        must(rig->told <= rig->sent);
}

static void check_state(struct rig *rig)
{
        must(rig->l.state >= rig->last);
        rig->last = rig->l.state;
        must(*link_state_name(rig->l.state));
        must(!link_term_sent(&rig->l) || rig->l.state == LINK_CLOSING);
}

/* A header of any type, laid out for so much data unless it is to stay as it is. */
static union pdu next_header(struct rig *rig, unsigned how, enum party sender)
{
        const struct pdu_format *f = track_format(rig->l.track, sender);
        union pdu h = { .ch.type = bytes_u8(&rig->in) % (PDU_TYPES + 1) };
        const struct pdu_info *info = pdu_info(h.ch.type);

        if (!info || !info->hlen || (how & STEP_RAW_HEADER)) {
                bytes_copy(&rig->in, h.bytes + 1, sizeof(struct pdu_ch) + 16);
                return h;
        }
        h.ch.flags = bytes_u8(&rig->in) & info->flags;
        bytes_copy(&rig->in, h.bytes + sizeof(h.ch), info->hlen - sizeof(h.ch));
        if (h.ch.type == PDU_C2H_DATA || h.ch.type == PDU_H2C_DATA)
                h.data.length = le32(le32_get(h.data.length) % DATA);
        pdu_lay_out(&h, f, how & STEP_DATA ? le32_get(h.data.length) % DATA : 0);
        return h;
}

/* --- out ---------------------------------------------------------------------------------------- */

static void out(struct rig *rig, size_t most)
{
        struct iovec iov[3];
        int n = link_send_iov(&rig->l, iov, 3);
        size_t bytes = 0;

        must(n == 0 || link_wants_send(&rig->l));
        for (int i = 0; i < n; i++) {
                uint32_t digest = FUZZ_DIGEST_START;

                must(iov[i].iov_len > 0);
                fuzz_digest(&digest, iov[i].iov_base, iov[i].iov_len);
                bytes += iov[i].iov_len;
        }
        link_sent(&rig->l, bytes < most ? bytes : most);
}

/* Who departs from no rule may not send just anything: that is an assertion. */
static void send(struct rig *rig, unsigned how)
{
        enum party side = rig->l.cfg.side;
        struct tx *tx = &rig->tx[rig->sent % TXS];
        uint8_t *head = rig->head[rig->sent % TXS];
        union pdu h = next_header(rig, how, side);
        const struct pdu_info *info = pdu_info(h.ch.type);

        if (rig->sent - rig->told >= TXS || rig->sent >= TXS)
                return; /* all are on their way */
        *tx = (struct tx) { .head = head, .sent = on_sent, .data_writable = how & STEP_CUT };
        memcpy(head, &h, sizeof(h));
        if (how & STEP_DATA && info && info->has_data) {
                tx->data = rig->data[rig->sent % TXS];
                tx->data_len = pdu_data_len(&h, track_format(rig->l.track, side)) % DATA;
        }
        if (how & STEP_CUT)
                tx->sqe = &rig->sqe;
        if (how & STEP_BAD_SUM) {
                uint8_t at = bytes_u8(&rig->in);

                tx->end = at & 1 ? TX_RESETS : TX_CLOSES;
                tx->end_at = at < 4 ? TX_HALF : at < 8 ? TX_WHOLE : at;
        }
        if (how & STEP_BY_HAND) {
                tx->head_len = h.ch.hlen % PDU_HEADER_MAX + 1u;
                link_send_raw(&rig->l, tx);
        } else if (info && info->sender == side && info->hlen && !rig->l.lawful) {
                link_send(&rig->l, tx);
        } else {
                return;
        }
        rig->sent++;
}

/* --- in ----------------------------------------------------------------------------------------- */

static void drain(struct rig *rig)
{
        enum framer_event e;
        unsigned events = 0;

        while ((e = link_next(&rig->l)) != FRAMER_MORE) {
                must(events++ < 2 * PDU_ROOM);
                check_state(rig);
                if (e == FRAMER_FAULT && !rig->l.cfg.manual)
                        must(is_fault(rig->l.fault));
                if (e == FRAMER_FAULT)
                        return;
        }
}

static void feed_link(struct rig *rig, const uint8_t *p, size_t n)
{
        while (n > 0 && rig->l.state < LINK_DEAD) {
                struct iovec iov[2];
                int iovs = link_recv_iov(&rig->l, iov);
                size_t len = iov[0].iov_len < n ? iov[0].iov_len : n;

                must(iovs >= 1 && len > 0);
                memcpy(iov[0].iov_base, p, len);
                link_received(&rig->l, len);
                drain(rig);
                check_state(rig);
                p += len;
                n -= len;
        }
}

static void receive(struct rig *rig, unsigned how)
{
        static uint8_t wire[PDU_ROOM];
        enum party sender = peer_of(rig->l.cfg.side);
        union pdu h = next_header(rig, how, sender);
        size_t n = le32_get(h.ch.plen), cut = how & STEP_CUT ? bytes_u8(&rig->in) : 0, head;

        n = n < sizeof(h.ch) ? sizeof(h.ch) : n < sizeof(wire) ? n : sizeof(wire);
        memset(wire, 0x22, n);
        head = h.ch.hlen < sizeof(h) ? h.ch.hlen : sizeof(h);
        memcpy(wire, &h, head < n ? head : n);
        if (!(how & STEP_BAD_SUM))
                stream_sum(wire, n, track_format(rig->l.track, sender));
        cut = cut < n ? cut : 0;
        feed_link(rig, wire, cut);
        feed_link(rig, wire + cut, n - cut);
}

static void attach(struct rig *rig, bool wide)
{
        static uint8_t room[FRAMER_BUFFER_MIN + 8];

        framer_attach(&rig->l.rx, room, wide ? sizeof(room) : FRAMER_BUFFER_MIN);
}

/* Between two PDUs the buffer may go. */
static void detach(struct rig *rig)
{
        if (rig->l.deaf || !framer_detach(&rig->l.rx))
                return;
        must(framer_next(&rig->l.rx) != FRAMER_PDU);
        attach(rig, false);
}

static void one_step(struct rig *rig)
{
        unsigned how = bytes_u8(&rig->in);

        if (how & STEP_END && how & STEP_BY_HAND) {
                if (how & STEP_BAD_SUM)
                        link_finish(&rig->l, how & STEP_DATA ? TX_RESETS : TX_CLOSES);
                else if (how & STEP_DATA)
                        link_close(&rig->l);
                else if (how & STEP_CUT)
                        link_kill(&rig->l);
                else
                        link_terminate(&rig->l, rule_fault(fuzz_rule(bytes_u16(&rig->in))));
        } else if (how & STEP_OUT && how & STEP_SEND) {
                detach(rig);
        } else if (how & STEP_OUT) {
                out(rig, how & STEP_DATA ? bytes_u8(&rig->in) : SIZE_MAX);
        } else if (how & STEP_SEND) {
                send(rig, how);
        } else {
                receive(rig, how);
        }
        check_state(rig);
}

static bool start_rig(struct rig *rig)
{
        unsigned bits = bytes_u16(&rig->in);
        struct link_config cfg = { .side = bits & BIT_CONTROLLER ? PARTY_CONTROLLER : PARTY_HOST,
                                   .policy = &rig->policy,
                                   .manual = bits & BIT_MANUAL,
                                   .limits = { .depth_max = bits & BIT_FEW ? 2 : 0,
                                               .r2ts_max = bits & BIT_FEW ? 1 : 0,
                                               .findings = bits & BIT_FINDINGS } };

        for (unsigned n = bytes_u8(&rig->in) % 5; n > 0; n--)
                rule_add(&rig->policy.violated, fuzz_rule(bytes_u16(&rig->in)));
        if (bits & BIT_FREE)
                cfg.policy = NULL;
        if (bits & BIT_WAIVED)
                rig->policy.waived = *fuzz_all_rules();
        rig->sqe.opc = (uint8_t)(bits >> 8);
        fuzz_scarce(bytes_u8(&rig->in) % 16);
        if (link_init(&rig->l, &cfg, rig) != 0)
                return false;
        attach(rig, bits & BIT_WIDE);
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct rig rig;

        memset(&rig, 0, sizeof(rig));
        rig.in = bytes_of(input, size);
        if (start_rig(&rig)) {
                while (rig.in.left > 0)
                        one_step(&rig);
                for (unsigned i = 0; i < 2 * TXS; i++)
                        out(&rig, SIZE_MAX);
                link_fini(&rig.l);
        }
        fuzz_scarce(0);
        return 0;
}
