/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's side against a host that writes its PDUs by hand, right and wrong. */
#include "pair.h"
#include "pdu/core/tests/scarce.h"
#include "stream.h"

enum { BIG = 8192, TRANSFER = 4096 };

/* --- the host's hand -------------------------------------------------------------------------- */

struct bench {
        struct owner owner;
        struct stream in; /* what the host says */
        size_t fed;
        size_t most; /* at once; 0: any number */
        uint64_t seed;
        uint8_t *buf;
        struct framer rx; /* reads what the controller says */
        uint8_t *rx_buf;
        union pdu last; /* of its PDUs */
        uint8_t term[PDU_TERM_MAX];
        uint32_t term_len, pdus, responses, c2h_bytes, r2ts;
        struct pdu_data r2t; /* the last one */
        struct cqe cqe;      /* of the last response */
        uint16_t cid;
        uint8_t digests;
};

static struct tcp_controller_config config(void)
{
        struct tcp_controller_config cfg = pair_defaults().controller;

        return cfg;
}

static struct link *link_of(struct bench *b)
{
        return tcp_controller_link(b->owner.c);
}

static void bench_init(struct bench *b, const struct tcp_controller_config *cfg)
{
        memset(b, 0, sizeof(*b));
        b->seed = 7;
        owner_init(&b->owner, cfg);
        b->buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&link_of(b)->rx, b->buf, FRAMER_BUFFER_MIN);
        framer_init(&b->rx, PARTY_CONTROLLER, NULL);
        b->rx_buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&b->rx, b->rx_buf, FRAMER_BUFFER_MIN);
}

static void bench_fini(struct bench *b)
{
        owner_fini(&b->owner);
        free(b->buf);
        free(b->rx_buf);
}

static void note_pdu(struct bench *b)
{
        const union pdu *h = framer_header(&b->rx);

        b->last = *h;
        b->pdus++;
        assert_false(framer_ddgst_bad(&b->rx));
        if (h->ch.type == PDU_C2H_TERM) {
                memcpy(b->term, h, sizeof(h->term));
                b->term_len = le32_get(h->ch.plen);
        } else if (h->ch.type == PDU_CAPSULE_RESP) {
                b->responses++;
                b->cqe = h->resp.cqe;
        } else if (h->ch.type == PDU_R2T) {
                b->r2ts++;
                b->r2t = h->data;
        } else if (h->ch.type == PDU_C2H_DATA) {
                b->c2h_bytes += framer_data_len(&b->rx);
        } else if (h->ch.type == PDU_ICRESP) {
                struct pdu_format f = { .hdgst = h->icresp.dgst & PDU_DGST_HEADER,
                                        .ddgst = h->icresp.dgst & PDU_DGST_DATA };

                framer_negotiated(&b->rx, &f);
                f.pda = h->icresp.cpda;
                b->in.format = f;
        }
}

/* What the controller has to say; the copy in a TermReq is data that the framer hands out. */
static void drain(struct bench *b)
{
        struct iovec out[8];
        enum framer_event ev;

        while (link_send_iov(link_of(b), out, 8) > 0) {
                size_t n = framer_feed(&b->rx, out[0].iov_base, out[0].iov_len);

                link_sent(link_of(b), n);
                while ((ev = framer_next(&b->rx)) != FRAMER_MORE) {
                        assert_int_not_equal(ev, FRAMER_FAULT);
                        if (ev == FRAMER_PDU)
                                note_pdu(b);
                        if (ev == FRAMER_PDU && b->last.ch.type == PDU_C2H_TERM)
                                memcpy(b->term + 24, framer_data(&b->rx), b->term_len - 24);
                }
        }
}

/* Without draining: what the controller says stays queued. */
static void feed_only(struct bench *b)
{
        while (b->fed < b->in.len) {
                size_t left = b->in.len - b->fed, most = left, n = 0;
                struct iovec iov[2];

                if (b->most > 0)
                        most = b->most > 1 ? pair_rand(&b->seed) % b->most + 1 : 1;
                link_recv_iov(link_of(b), iov);
                n = most < left ? most : left;
                n = n < iov[0].iov_len ? n : iov[0].iov_len;
                memcpy(iov[0].iov_base, b->in.bytes + b->fed, n);
                b->fed += n;
                if (tcp_controller_received(b->owner.c, n, 0))
                        return; /* it can't take any more before something was sent */
        }
}

static void feed(struct bench *b)
{
        feed_only(b);
        drain(b);
}

/* --- PDUs of the host ------------------------------------------------------------------------- */

static void add_icreq(struct bench *b)
{
        union pdu h = { .icreq = { .ch.type = PDU_ICREQ, .dgst = b->digests } };

        stream_add(&b->in, &h, NULL, 0);
}

static void add_capsule(struct bench *b, const struct host_cmd *cmd, uint8_t sgl_id,
                        uint32_t in_capsule)
{
        union pdu h = { .cmd = { .ch.type = PDU_CAPSULE_CMD, .sqe = cmd->sqe } };

        h.cmd.sqe.cid = le16(++b->cid);
        h.cmd.sqe.sgl.id = sgl_id;
        if (le32_get(h.cmd.sqe.sgl.len) == 0)
                h.cmd.sqe.sgl.len = le32(cmd->len);
        stream_add(&b->in, &h, in_capsule > 0 ? cmd->data : NULL, in_capsule);
}

static void add_connect(struct bench *b, uint16_t qid, bool no_flow_control)
{
        struct host_cmd cmd = connect_command(qid, 32, no_flow_control);

        add_capsule(b, &cmd, SGL_IN_CAPSULE, cmd.len);
}

static uint8_t pattern[65536];

static void add_io(struct bench *b, uint8_t opc, uint32_t len)
{
        struct host_cmd cmd = io_command(opc, 0, pattern, len);

        add_capsule(b, &cmd, SGL_TRANSPORT, 0);
}

static void add_h2c(struct bench *b, uint16_t ttag, uint32_t offset, uint32_t len, bool last)
{
        union pdu h = { .data = { .ch = { .type = PDU_H2C_DATA, .flags = last ? PDU_LAST : 0 },
                                  .cccid = le16(b->cid),
                                  .ttag = le16(ttag),
                                  .offset = le32(offset),
                                  .length = le32(len) } };

        stream_add(&b->in, &h, pattern + offset, len);
}

static uint16_t ttag(const struct bench *b)
{
        return le16_get(b->r2t.ttag);
}

/* A queue that is connected. */
static void bench_open(struct bench *b, const struct tcp_controller_config *cfg, uint16_t qid,
                       bool no_flow_control)
{
        for (size_t i = 0; i < sizeof(pattern); i++)
                pattern[i] = (uint8_t)(i * 7 + i / 512);
        add_icreq(b);
        feed(b);
        assert_int_equal(b->last.ch.type, PDU_ICRESP);
        assert_int_equal(le32_get(b->last.icresp.maxh2cdata), cfg->maxh2cdata);
        add_connect(b, qid, no_flow_control);
        feed(b);
        assert_int_equal(b->responses, 1);
        assert_int_equal(cqe_status(&b->cqe), 0);
}

static void open_default(struct bench *b)
{
        struct tcp_controller_config cfg = config();

        bench_init(b, &cfg);
        bench_open(b, &cfg, 1, false);
}

/* --- faults of the host: TermReq, byte by byte ------------------------------------------------ */

/* Each puts one PDU that is wrong last into the stream of a connected queue with a write that has
 * an R2T open, and says where it is wrong. */
static void corrupt(struct bench *b, size_t offset, uint8_t value)
{
        b->in.bytes[b->in.last + offset] = value;
}

static void unknown_type(struct bench *b)
{
        add_io(b, NVME_READ, BLOCK);
        corrupt(b, 0, 0x08);
}

static void wrong_direction(struct bench *b)
{
        add_io(b, NVME_READ, BLOCK);
        corrupt(b, 0, PDU_CAPSULE_RESP);
}

static void wrong_hlen(struct bench *b)
{
        add_io(b, NVME_READ, BLOCK);
        corrupt(b, 2, 71);
}

static void wrong_plen(struct bench *b)
{
        add_io(b, NVME_READ, BLOCK);
        corrupt(b, 4, 71);
}

static void icreq_again(struct bench *b)
{
        add_icreq(b);
}

static void cid_again(struct bench *b)
{
        b->cid--;
        add_io(b, NVME_READ, BLOCK);
}

static void in_capsule_too_long(struct bench *b)
{
        struct host_cmd cmd = io_command(NVME_WRITE, 0, pattern, 8704);

        add_capsule(b, &cmd, SGL_IN_CAPSULE, cmd.len);
}

static void in_capsule_not_as_described(struct bench *b)
{
        struct host_cmd cmd = io_command(NVME_WRITE, 0, pattern, 2 * BLOCK);

        add_capsule(b, &cmd, SGL_IN_CAPSULE, BLOCK);
}

static void ttag_unknown(struct bench *b)
{
        add_h2c(b, (uint16_t)(ttag(b) + 1), 0, TRANSFER, false);
}

static void h2c_cid(struct bench *b)
{
        add_h2c(b, ttag(b), 0, TRANSFER, false);
        corrupt(b, 8, 0x77);
}

static void h2c_offset(struct bench *b)
{
        add_h2c(b, ttag(b), 4, BLOCK, false);
}

static void h2c_range(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BIG + 4, true);
}

static void h2c_too_long(struct bench *b)
{
        add_h2c(b, ttag(b), 0, 16384 + 4, false);
}

static void h2c_last_early(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BLOCK, true);
}

static void h2c_last_missing(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BIG, false);
}

static void h2c_not_dwords(struct bench *b)
{
        add_h2c(b, ttag(b), 0, 510, false);
}

static void h2c_datal_lies(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BLOCK, false);
        corrupt(b, 17, 3);
}

static void wrong_digest_flag(struct bench *b)
{
        add_io(b, NVME_READ, BLOCK);
        corrupt(b, 1, PDU_HDGSTF);
}

static void wrong_pdo(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BLOCK, false);
        corrupt(b, 3, 26);
}

static void h2c_offset_not_dwords(struct bench *b)
{
        add_h2c(b, ttag(b), 2, BLOCK, false);
}

static void h2c_empty(struct bench *b)
{
        add_h2c(b, ttag(b), 0, 0, false);
}

static void h2c_unsolicited(struct bench *b)
{
        add_h2c(b, ttag(b), 0, BIG, true);
        add_h2c(b, ttag(b), 0, BIG, true);
}

static const struct fault_case {
        enum rule_id rule;
        void (*send)(struct bench *b);
        bool common; /* seen in the common header: how much of the rest is copied depends on the cut
                      */
} fault_cases[] = {
        { TCP_TYPE_H2C, unknown_type, true },
        { TCP_DIR_H2C, wrong_direction, true },
        { TCP_HLEN_H2C, wrong_hlen, true },
        { TCP_PLEN_H2C, wrong_plen, true },
        { TCP_DGSTF_H2C, wrong_digest_flag, true },
        { TCP_PDO_H2C, wrong_pdo, true },
        { TCP_ICREQ_ONCE, icreq_again, false },
        { TCP_ICD_LIMIT, in_capsule_too_long, false },
        { TCP_ICD_LEN, in_capsule_not_as_described, false },
        { TCP_H2C_TTAG, ttag_unknown, false },
        { TCP_H2C_CID, h2c_cid, false },
        { TCP_H2C_CONTIG, h2c_offset, false },
        { TCP_H2C_RANGE, h2c_range, false },
        { TCP_H2C_LIMIT_RANGE, h2c_too_long, false },
        { TCP_H2C_LAST_EARLY, h2c_last_early, false },
        { TCP_H2C_LAST_MISSING, h2c_last_missing, false },
        { TCP_H2C_DWORD_LENGTH, h2c_not_dwords, false },
        { TCP_H2C_DWORD_OFFSET, h2c_offset_not_dwords, false },
        { TCP_H2C_EMPTY, h2c_empty, false },
        { TCP_H2C_DATAL, h2c_datal_lies, false },
        { TCP_H2C_UNSOLICITED, h2c_unsolicited, false },
};
enum { FAULT_CASES = sizeof(fault_cases) / sizeof(fault_cases[0]) };

/* A queue with a write of 8 KiB whose first R2T is open. */
static void bench_with_r2t(struct bench *b, const struct rule_policy *policy, uint8_t digests)
{
        struct tcp_controller_config cfg = config();

        cfg.maxh2cdata = 16384;
        cfg.policy = policy;
        bench_init(b, &cfg);
        b->digests = digests;
        bench_open(b, &cfg, 1, false);
        add_io(b, NVME_WRITE, BIG);
        feed(b);
        assert_int_equal(b->r2ts, 1);
        assert_int_equal(le32_get(b->r2t.length), BIG);
}

/* The TermReq that the rule prescribes for a PDU of which `copied` bytes of header are there. */
static struct pdu_term prescribed(enum rule_id rule, uint32_t copied, uint32_t digest)
{
        const struct outcome *o = &rule_get(rule)->accept[0];
        uint32_t place = o->place == PLACE_DIGEST ? digest : rule_fault(rule).place;

        return (struct pdu_term) { .ch = { PDU_C2H_TERM, 0, 24, 0, le32(24 + copied) },
                                   .fes = le16(o->code),
                                   .fei = le32(place) };
}

static void expect_term(struct bench *b, enum rule_id rule, bool common, uint32_t digest)
{
        const uint8_t *pdu = b->in.bytes + b->in.last;
        const struct pdu_info *info = pdu_info(pdu[0]);
        uint32_t hlen = info ? info->hlen : pdu[2];
        struct link *l = link_of(b);
        struct pdu_term t;

        assert_int_equal(l->fault.rule, rule);
        assert_int_equal(l->state, LINK_CLOSING);
        assert_true(link_term_sent(l));
        assert_int_equal(b->last.ch.type, PDU_C2H_TERM);
        assert_in_range(b->term_len, 24 + 8, 24 + hlen);
        if (common)
                hlen = b->term_len - 24;
        t = prescribed(rule, hlen, digest);
        assert_memory_equal(b->term, &t, sizeof(t));
        assert_memory_equal(b->term + 24, pdu, hlen);
}

static void fault(const struct fault_case *f, size_t most, uint8_t digests)
{
        static struct bench b;

        bench_with_r2t(&b, NULL, digests);
        b.most = most;
        f->send(&b);
        if (digests) { /* the header was changed after its digest */
                uint8_t *h = b.in.bytes + b.in.last;

                le_put(h + h[2], 4, crc32c(h, h[2]));
        }
        feed(&b);
        expect_term(&b, f->rule, f->common, 0);
        bench_fini(&b);
}

static void each_fault_of_the_host(void **state)
{
        (void)state;
        for (unsigned i = 0; i < FAULT_CASES; i++) {
                fault(&fault_cases[i], 0, 0);
                fault(&fault_cases[i], 1, 0);
                for (unsigned j = 0; j < 8; j++)
                        fault(&fault_cases[i], 5 + 40 * j, 0);
                if (!fault_cases[i].common)
                        fault(&fault_cases[i], 0, PDU_DGST_HEADER);
        }
}

static void icreq_fault(size_t offset, uint8_t value, enum rule_id rule)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        for (size_t most = 0; most < 3; most++) {
                bench_init(&b, &cfg);
                b.most = most;
                add_icreq(&b);
                corrupt(&b, offset, value);
                feed(&b);
                expect_term(&b, rule, false, 0);
                assert_int_equal(b.pdus, 1);
                bench_fini(&b);
        }
}

static void each_fault_of_icreq(void **state)
{
        (void)state;
        icreq_fault(offsetof(struct pdu_icreq, pfv), 1, TCP_ICREQ_PFV);
        icreq_fault(offsetof(struct pdu_icreq, pfv) + 1, 1, TCP_ICREQ_PFV);
        icreq_fault(offsetof(struct pdu_icreq, hpda), 32, TCP_ICREQ_HPDA);
}

static void nothing_but_icreq_is_first(void **state)
{
        struct tcp_controller_config cfg = config();
        struct bench *b = calloc(1, sizeof(*b));

        (void)state;
        bench_init(b, &cfg);
        add_connect(b, 1, false);
        feed(b);
        expect_term(b, TCP_ICREQ_FIRST, false, 0);
        bench_fini(b);
        free(b);
}

static void header_digest_is_its_own_fei(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, PDU_DGST_HEADER | PDU_DGST_DATA);
        add_io(&b, NVME_READ, BLOCK);
        corrupt(&b, 74, 0x5a);
        feed(&b);
        expect_term(&b, TCP_HDGST_H2C, false, (uint32_t)le_get(b.in.bytes + b.in.last + 72, 4));
        bench_fini(&b);
}

static void half_a_pdu_goes_out_before_the_termreq(void **state)
{
        static struct bench b;
        struct iovec out, in[2];

        (void)state;
        open_default(&b);
        add_io(&b, NVME_READ, TRANSFER);
        feed_only(&b);
        assert_int_equal(link_send_iov(link_of(&b), &out, 1), 1);
        framer_recv_iov(&b.rx, in);
        memcpy(in[0].iov_base, out.iov_base, 10);
        framer_received(&b.rx, 10);
        link_sent(link_of(&b), 10);
        add_icreq(&b);
        feed_only(&b);
        assert_int_equal(link_of(&b)->state, LINK_TERMINATING);
        assert_false(link_term_sent(link_of(&b)));
        drain(&b);
        assert_int_equal(b.c2h_bytes, TRANSFER);
        expect_term(&b, TCP_ICREQ_ONCE, false, 0);
        bench_fini(&b);
}

static void nothing_is_processed_after_a_fault(void **state)
{
        static struct bench b;

        (void)state;
        open_default(&b);
        add_icreq(&b);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(b.owner.toy.executed, 1);
        assert_int_equal(b.last.ch.type, PDU_C2H_TERM);
        assert_false(link_wants_send(link_of(&b)));
        bench_fini(&b);
}

/* --- TermReq of the host ---------------------------------------------------------------------- */

static void add_term(struct bench *b, uint32_t plen)
{
        union pdu h = { .term = { .ch = { .type = PDU_H2C_TERM, .hlen = 24, .plen = le32(plen) },
                                  .fes = le16(FES_SEQUENCE_ERROR),
                                  .fei = le32(0x12345678) } };

        stream_laid(&b->in, &h, pattern, plen > 24 && plen < 1000 ? plen - 24 : 0);
}

static void termreq_closes_without_an_answer(void **state)
{
        static const uint32_t plens[] = { 24, 48, 152 };
        static struct bench b;

        (void)state;
        for (unsigned i = 0; i < 3; i++) {
                uint32_t pdus;

                open_default(&b);
                pdus = b.pdus;
                add_term(&b, plens[i]);
                feed(&b);
                assert_int_equal(link_of(&b)->state, LINK_CLOSING);
                assert_false(link_term_sent(link_of(&b)));
                assert_true(link_of(&b)->peer_term.seen);
                assert_int_equal(link_of(&b)->peer_term.fes, FES_SEQUENCE_ERROR);
                assert_int_equal(link_of(&b)->peer_term.fei, 0x12345678);
                assert_int_equal(b.pdus, pdus);
                bench_fini(&b);
        }
}

static void malformed_termreq_is_not_obeyed_but_closes(void **state)
{
        static const uint32_t plens[] = { 23, 153, 0x40000000 };
        static struct bench b;

        (void)state;
        for (unsigned i = 0; i < 3; i++) {
                uint32_t pdus;

                open_default(&b);
                pdus = b.pdus;
                add_term(&b, plens[i]);
                feed(&b);
                assert_int_equal(link_of(&b)->state, LINK_CLOSING);
                assert_int_equal(link_of(&b)->fault.rule, TCP_TERM_LEN_H2C);
                assert_false(link_of(&b)->peer_term.seen);
                assert_int_equal(b.pdus, pdus);
                bench_fini(&b);
        }
}

/* --- commands that fail, and nothing else does ------------------------------------------------ */

static void expect_status(struct bench *b, uint16_t status)
{
        assert_int_equal(link_of(b)->state, LINK_LIVE);
        assert_int_equal(b->last.ch.type, PDU_CAPSULE_RESP);
        assert_int_equal(le16_get(b->cqe.cid), b->cid);
        assert_int_equal(cqe_status(&b->cqe), status);
        assert_int_equal(b->owner.toy.buffers, 0);
}

static void sgl_types(void **state)
{
        static const struct {
                uint8_t opc, id;
                uint16_t status;
        } cases[] = {
                { NVME_READ, 0x00, NVME_SGL_TYPE },  { NVME_READ, 0x01, NVME_SGL_TYPE },
                { NVME_READ, 0x40, NVME_SGL_TYPE },  { NVME_READ, 0x51, NVME_SGL_TYPE },
                { NVME_READ, 0x0a, NVME_SGL_TYPE },  { NVME_WRITE, 0x00, NVME_SGL_TYPE },
                { NVME_WRITE, 0x4f, NVME_SGL_TYPE }, { NVME_WRITE, 0xff, NVME_SGL_TYPE },
                { NVME_FLUSH, 0xff, NVME_SUCCESS },  { NVME_READ, 0x5a, NVME_SUCCESS },
        };
        static struct bench b;

        (void)state;
        open_default(&b);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct host_cmd cmd = io_command(cases[i].opc, 0, NULL, BLOCK);

                if (cases[i].opc == NVME_FLUSH || cases[i].id == SGL_IN_CAPSULE)
                        cmd.len = 0;
                add_capsule(&b, &cmd, cases[i].id, 0);
                feed(&b);
                expect_status(&b, cases[i].status);
        }
        bench_fini(&b);
}

static void in_capsule_bytes_of_an_unknown_sgl_are_skipped(void **state)
{
        static struct bench b;
        struct host_cmd cmd = io_command(NVME_WRITE, 0, pattern, 2 * BLOCK);

        (void)state;
        open_default(&b);
        add_capsule(&b, &cmd, SGL_DATA_BLOCK, 2 * BLOCK);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        expect_status(&b, NVME_SUCCESS);
        assert_int_equal(b.responses, 3);
        bench_fini(&b);
}

static uint16_t status_of_sgl_len(uint8_t opc, uint32_t len, uint32_t sgl_len,
                                  const struct rule_policy *policy)
{
        static struct bench b;
        struct tcp_controller_config cfg = config();
        struct host_cmd cmd = io_command(opc, 0, NULL, len);

        cfg.policy = policy;
        cfg.max_transfer = 65536;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, true);
        b.owner.toy.success_ok = true;
        cmd.sqe.sgl.len = le32(sgl_len);
        add_capsule(&b, &cmd, SGL_TRANSPORT, 0);
        feed(&b);
        if (b.r2ts > 0) {
                add_h2c(&b, ttag(&b), 0, le32_get(b.r2t.length), true);
                feed(&b);
        }
        assert_int_equal(link_of(&b)->state, LINK_LIVE);
        assert_int_equal(b.c2h_bytes, opc == NVME_READ && !cqe_status(&b.cqe)
                                          ? (len < sgl_len ? len : sgl_len)
                                          : 0);
        bench_fini(&b);
        return cqe_status(&b.cqe);
}

static void lengths(void **state)
{
        (void)state;
        assert_int_equal(status_of_sgl_len(NVME_READ, TRANSFER, TRANSFER - 512, NULL),
                         NVME_SGL_LENGTH);
        assert_int_equal(status_of_sgl_len(NVME_WRITE, TRANSFER, TRANSFER - 4, NULL),
                         NVME_SGL_LENGTH);
        assert_int_equal(status_of_sgl_len(NVME_READ, TRANSFER, TRANSFER + 512, NULL), 0);
        assert_int_equal(status_of_sgl_len(NVME_WRITE, TRANSFER, TRANSFER + 512, NULL), 0);
        assert_int_equal(status_of_sgl_len(NVME_READ, 65536, 65536, NULL), 0);
        assert_int_equal(status_of_sgl_len(NVME_READ, 65536 + 512, 1 << 20, NULL),
                         NVME_INVALID_FIELD);
        assert_int_equal(status_of_sgl_len(NVME_WRITE, 65536 + 512, 1 << 20, NULL),
                         NVME_INVALID_FIELD);
}

static void short_sgl_let_pass(void **state)
{
        struct rule_policy policy = { 0 };

        (void)state;
        rule_add(&policy.waived, FAB_SGL_SHORT);
        assert_int_equal(status_of_sgl_len(NVME_READ, TRANSFER, 512, &policy), 0);
        assert_int_equal(status_of_sgl_len(NVME_WRITE, TRANSFER, 512, &policy), 0);
        assert_int_equal(status_of_sgl_len(NVME_WRITE, TRANSFER, 510, &policy),
                         NVME_SGL_GRANULARITY);
}

/* Set Features of the fixture writes as many bytes as CDW12 says. */
static void bytes_that_are_no_dwords(void **state)
{
        static struct bench b;
        struct tcp_controller_config cfg = config();
        struct host_cmd cmd = { .data = pattern, .len = 102 };

        (void)state;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 0, false);
        cmd.sqe.opc = NVME_SET_FEATURES;
        cmd.sqe.cdw12 = le32(102);
        add_capsule(&b, &cmd, SGL_IN_CAPSULE, 102);
        feed(&b);
        expect_status(&b, 0);
        assert_memory_equal(b.owner.toy.disk, pattern, 102);
        add_capsule(&b, &cmd, SGL_TRANSPORT, 0);
        feed(&b);
        expect_status(&b, NVME_SGL_GRANULARITY);
        cmd.len = 104;
        cmd.sqe.cdw12 = le32(103);
        add_capsule(&b, &cmd, SGL_TRANSPORT, 0);
        feed(&b);
        assert_int_equal(le32_get(b.r2t.length), 104);
        add_h2c(&b, ttag(&b), 0, 104, true);
        feed(&b);
        expect_status(&b, 0);
        assert_memory_equal(b.owner.toy.disk, pattern, 103);
        bench_fini(&b);
}

static void admin_in_capsule_is_8192_whatever_io_takes(void **state)
{
        static struct bench b;
        struct tcp_controller_config cfg = config();
        struct host_cmd cmd = { .data = pattern, .len = 8192 };

        (void)state;
        cfg.io_in_capsule = 0;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 0, false);
        cmd.sqe.opc = NVME_SET_FEATURES;
        cmd.sqe.cdw12 = le32(8192);
        add_capsule(&b, &cmd, SGL_IN_CAPSULE, 8192);
        feed(&b);
        expect_status(&b, 0);
        assert_memory_equal(b.owner.toy.disk, pattern, 8192);
        assert_int_equal(b.owner.toy.in_place, 2);
        bench_fini(&b);
}

static void owner_refuses(void **state)
{
        static struct bench b;

        (void)state;
        open_default(&b);
        b.owner.toy.refuse = NVME_INVALID_NS | STATUS_DNR;
        add_io(&b, NVME_WRITE, BLOCK);
        feed(&b);
        expect_status(&b, NVME_INVALID_NS);
        assert_true(cqe_dnr(&b.cqe));
        assert_int_equal(b.r2ts, 0);
        assert_int_equal(b.owner.toy.completing, 2);
        bench_fini(&b);
}

/* --- data digests ----------------------------------------------------------------------------- */

static void spoil_last_byte(struct bench *b)
{
        b->in.bytes[b->in.len - 1] ^= 1;
}

static void bad_ddgst_fails_the_command_alone(void **state)
{
        struct host_cmd cmd = io_command(NVME_WRITE, 0, pattern, BLOCK);
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, PDU_DGST_HEADER | PDU_DGST_DATA);
        add_h2c(&b, ttag(&b), 0, BLOCK, false);
        spoil_last_byte(&b);
        feed(&b);
        assert_int_equal(b.responses, 1);
        add_h2c(&b, ttag(&b), BLOCK, BIG - BLOCK, true);
        feed(&b);
        expect_status(&b, NVME_TRANSIENT_TRANSPORT);
        assert_false(cqe_dnr(&b.cqe));
        add_capsule(&b, &cmd, SGL_IN_CAPSULE, BLOCK);
        spoil_last_byte(&b);
        feed(&b);
        expect_status(&b, NVME_TRANSIENT_TRANSPORT);
        assert_int_equal(b.owner.toy.executed, 1);
        add_capsule(&b, &cmd, SGL_IN_CAPSULE, BLOCK);
        feed(&b);
        expect_status(&b, NVME_SUCCESS);
        bench_fini(&b);
}

static void after_a_bad_ddgst_no_more_is_asked_for(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        (void)state;
        cfg.r2t_max = 4096;
        bench_init(&b, &cfg);
        b.digests = PDU_DGST_DATA;
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_WRITE, BIG);
        feed(&b);
        add_h2c(&b, ttag(&b), 0, 4096, true);
        spoil_last_byte(&b);
        feed(&b);
        expect_status(&b, NVME_TRANSIENT_TRANSPORT);
        assert_int_equal(b.r2ts, 1);
        bench_fini(&b);
}

static void one_whole_h2cdata_is_not_copied(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, 0);
        assert_int_equal(b.owner.toy.in_place, 1);
        add_h2c(&b, ttag(&b), 0, BIG, true);
        feed(&b);
        expect_status(&b, 0);
        assert_int_equal(b.owner.toy.in_place, 2);
        assert_memory_equal(b.owner.toy.disk, pattern, BIG);
        bench_fini(&b);
}

/* The write whose R2T is open is found by its CID, as before. */
static void a_cid_in_use_is_a_status(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, 0);
        for (unsigned i = 1; i <= 10; i++) {
                cid_again(&b);
                feed(&b);
                assert_int_equal(b.responses, 1 + i); /* the first one is of Connect */
                assert_int_equal(cqe_status(&b.cqe), NVME_CID_CONFLICT);
                assert_true(cqe_dnr(&b.cqe));
        }
        add_h2c(&b, ttag(&b), 0, BIG, true);
        feed(&b);
        expect_status(&b, NVME_SUCCESS);
        assert_memory_equal(b.owner.toy.disk, pattern, BIG);
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        expect_status(&b, NVME_SUCCESS);
        bench_fini(&b);
}

/* --- commands that the owner ends before their time ------------------------------------------- */

static void withdraw_now(struct bench *b)
{
        struct request *r = requests_find(tcp_requests(b->owner.c), b->cid);

        assert_non_null(r);
        r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
        request_complete(r);
        drain(b);
}

static void abort_while_data_is_awaited(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, 0);
        withdraw_now(&b);
        expect_status(&b, NVME_ABORT_REQUESTED);
        assert_null(requests_find(tcp_requests(b.owner.c), b.cid));
        add_h2c(&b, ttag(&b), 0, BLOCK, false);
        add_h2c(&b, ttag(&b), BLOCK, BIG - BLOCK, true);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        expect_status(&b, NVME_SUCCESS);
        assert_int_equal(b.responses, 3);
        assert_int_equal(b.owner.toy.executed, 2);
        bench_fini(&b);
}

static void abort_in_the_middle_of_a_pdu(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        (void)state;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_WRITE, 65536);
        feed(&b);
        add_h2c(&b, ttag(&b), 0, 65536, true);
        b.in.len -= 1000;
        feed(&b);
        withdraw_now(&b);
        assert_int_equal(b.responses, 1); /* its buffer is being written to */
        b.in.len += 1000;
        feed(&b);
        expect_status(&b, NVME_ABORT_REQUESTED);
        assert_int_equal(b.owner.toy.executed, 1);
        bench_fini(&b);
}

static void abort_and_loss_in_the_middle_of_a_pdu(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        (void)state;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_WRITE, 65536);
        feed(&b);
        add_h2c(&b, ttag(&b), 0, 65536, true);
        b.in.len -= 1000;
        feed(&b);
        link_kill(link_of(&b));
        withdraw_now(&b);
        assert_int_equal(b.owner.toy.buffers, 0);
        b.in.len += 1000;
        feed(&b);
        assert_int_equal(b.responses, 1);
        bench_fini(&b);
}

static void abort_while_a_buffer_is_awaited(void **state)
{
        static struct bench b;

        (void)state;
        open_default(&b);
        b.owner.toy.buffers_max = 1;
        add_io(&b, NVME_WRITE, BLOCK);
        add_io(&b, NVME_READ, BLOCK);
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        assert_true(requests_need_buffers(tcp_requests(b.owner.c)));
        withdraw_now(&b);
        assert_int_equal(b.responses, 2);
        b.cid--;
        withdraw_now(&b);
        assert_int_equal(b.responses, 3);
        assert_false(requests_need_buffers(tcp_requests(b.owner.c)));
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        assert_int_equal(b.responses, 3);
        b.owner.toy.buffers_max = 2;
        requests_buffers(tcp_requests(b.owner.c));
        drain(&b);
        assert_int_equal(b.responses, 4);
        bench_fini(&b);
}

static void abort_of_one_that_waits_for_an_r2t(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;
        uint16_t first;

        (void)state;
        cfg.limits.r2ts_max = 1;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_WRITE, BLOCK);
        add_io(&b, NVME_WRITE, BLOCK);
        add_io(&b, NVME_WRITE, BLOCK);
        feed(&b);
        assert_int_equal(b.r2ts, 1);
        first = ttag(&b);
        b.cid--;
        withdraw_now(&b); /* the second */
        b.cid--;
        add_h2c(&b, first, 0, BLOCK, true);
        feed(&b);
        b.cid += 2;
        assert_int_equal(b.r2ts, 2);
        assert_int_equal(le16_get(b.r2t.cccid), b.cid);
        bench_fini(&b);
}

static void ends_without_a_response(void **state)
{
        static struct bench b;
        struct request *r;

        (void)state;
        open_default(&b);
        b.owner.toy.defers = true;
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(requests_executing(tcp_requests(b.owner.c)), 1);
        r = requests_find(tcp_requests(b.owner.c), b.cid);
        r->no_response = true;
        toy_complete(&b.owner.toy);
        drain(&b);
        assert_int_equal(b.responses, 1);
        assert_int_equal(requests_executing(tcp_requests(b.owner.c)), 0);
        bench_fini(&b);
}

static void a_reset_ends_what_waits(void **state)
{
        static struct bench b;

        (void)state;
        open_default(&b);
        b.owner.toy.defers = true;
        b.owner.toy.buffers_max = 1;
        add_io(&b, NVME_FLUSH, 0);
        add_io(&b, NVME_WRITE, BLOCK); /* for its data */
        add_io(&b, NVME_READ, BLOCK);  /* for a buffer */
        feed(&b);
        assert_int_equal(b.r2ts, 1);
        requests_reset(tcp_requests(b.owner.c));
        assert_int_equal(b.owner.toy.buffers, 0);
        b.cid--;
        add_h2c(&b, ttag(&b), 0, BLOCK, true); /* nobody's any more */
        feed(&b);
        assert_int_equal(b.responses, 1);
        assert_int_equal(b.c2h_bytes, 0);
        assert_int_equal(b.owner.toy.executed, 2);
        assert_null(
            requests_find(tcp_requests(b.owner.c), (uint16_t)(b.cid - 1))); /* of the Flush */
        toy_complete(&b.owner.toy);
        drain(&b);
        assert_int_equal(b.responses, 1);
        assert_int_equal(requests_executing(tcp_requests(b.owner.c)), 0);
        bench_fini(&b);
}

/* --- faults of the owner's -------------------------------------------------------------------- */

static struct {
        struct request *held;
        unsigned heads, pdus, nobodys; /* SQHDs; PDUs of commands, and others */
} asked;

static bool hold_writes(void *user, struct request *r)
{
        (void)user;
        asked.held = r->sqe.opc == NVME_WRITE ? r : NULL;
        return asked.held;
}

static void count_heads(void *user, struct request *r)
{
        (void)user;
        (void)r;
        asked.heads++;
}

static void count_pdus(void *user, struct request *r, struct spoil *s, struct tx *tx)
{
        (void)user;
        assert_ptr_equal(s->h, tx->head);
        asked.pdus += r != NULL;
        asked.nobodys += r == NULL;
        if (r && s->h->ch.type == PDU_CAPSULE_RESP)
                s->h->resp.cqe.dw0 = le32(0x77); /* it may spoil it */
}

static void open_faulty(struct bench *b)
{
        static const struct request_faults faults = { hold_writes, count_heads, count_pdus, NULL,
                                                      NULL };
        struct tcp_controller_config cfg = config();

        owner_faults = &faults;
        asked.heads = asked.pdus = asked.nobodys = 0;
        bench_init(b, &cfg);
        owner_faults = NULL;
        tcp_controller_set_faulty(b->owner.c, true);
        bench_open(b, &cfg, 1, false);
        assert_int_equal(asked.nobodys, 1); /* ICResp */
        assert_int_equal(asked.pdus, 1);
        assert_int_equal(asked.heads, 1);
}

static void the_owner_is_asked_for_faults(void **state)
{
        static struct bench b;

        (void)state;
        open_faulty(&b);
        add_io(&b, NVME_WRITE, BLOCK);
        feed(&b);
        assert_int_equal(b.r2ts, 0);
        assert_int_equal(asked.held->state, REQUEST_H2C_PENDING);
        request_fetch(asked.held);
        drain(&b);
        assert_int_equal(b.r2ts, 1);
        add_h2c(&b, ttag(&b), 0, BLOCK, true);
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        assert_int_equal(b.c2h_bytes, BLOCK);
        assert_int_equal(b.responses, 3);
        assert_int_equal(le32_get(b.cqe.dw0), 0x77);
        assert_int_equal(asked.pdus, 5);
        assert_int_equal(asked.heads, 3);
        tcp_controller_set_faulty(b.owner.c, false);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(b.responses, 4);
        assert_int_equal(le32_get(b.cqe.dw0), 0);
        assert_int_equal(asked.pdus, 5);
        assert_int_equal(asked.heads, 3);
        bench_fini(&b);

        open_default(&b); /* an owner without any is not asked */
        tcp_controller_set_faulty(b.owner.c, true);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(b.responses, 2);
        bench_fini(&b);
}

static void what_is_held_may_end(void **state)
{
        static struct bench b;

        (void)state;
        open_faulty(&b);
        add_io(&b, NVME_WRITE, BLOCK);
        feed(&b);
        asked.held->cqe.sf = status_field(NVME_ABORT_REQUESTED);
        request_complete(asked.held);
        drain(&b);
        assert_int_equal(cqe_status(&b.cqe), NVME_ABORT_REQUESTED);
        assert_int_equal(b.owner.toy.buffers, 0);
        add_io(&b, NVME_WRITE, BLOCK); /* or with the connection */
        feed(&b);
        assert_int_equal(b.r2ts, 0);
        bench_fini(&b);
}

static void abort_that_comes_too_late(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;
        struct request *r;

        (void)state;
        cfg.c2h_max = 512;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_READ, TRANSFER);
        feed_only(&b);
        r = requests_find(tcp_requests(b.owner.c), b.cid);
        assert_int_equal(r->state, REQUEST_TRANSFERRING_C2H);
        request_complete(r);
        drain(&b);
        expect_status(&b, 0);
        assert_int_equal(b.c2h_bytes, TRANSFER);
        assert_int_equal(b.responses, 2);
        bench_fini(&b);
}

/* A Flush passes a read whose data takes many PDUs: SQHD goes on all the same. */
static void sqhd_never_goes_back(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;
        uint16_t read;

        (void)state;
        cfg.c2h_max = 512;
        bench_init(&b, &cfg);
        bench_open(&b, &cfg, 1, false);
        add_io(&b, NVME_READ, TRANSFER);
        read = b.cid;
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(b.responses, 3);
        assert_int_equal(le16_get(b.cqe.cid), read);
        assert_int_equal(le16_get(b.cqe.sqhd), 3);
        bench_fini(&b);
}

static void it_says_when_the_host_owes_bytes(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, NULL, 0);
        assert_true(tcp_controller_waits(b.owner.c));
        add_h2c(&b, ttag(&b), 0, BIG, true);
        feed(&b);
        assert_false(tcp_controller_waits(b.owner.c));
        add_io(&b, NVME_FLUSH, 0);
        b.in.len -= 10;
        feed(&b);
        assert_true(tcp_controller_waits(b.owner.c));
        bench_fini(&b);
}

/* --- more commands than requests -------------------------------------------------------------- */

static void before_connect_no_command_waits_for_another(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        (void)state;
        bench_init(&b, &cfg);
        add_icreq(&b);
        feed(&b);
        for (unsigned i = 0; i < 20; i++)
                add_io(&b, NVME_FLUSH, 0);
        feed_only(&b);
        assert_false(tcp_controller_received(b.owner.c, 0, 0));
        assert_int_equal(b.owner.toy.admitted, 20);
        drain(&b);
        assert_int_equal(b.responses, 20);
        expect_status(&b, NVME_SEQUENCE_ERROR);
        bench_fini(&b);
}

static void overrun_ends_it(void **state)
{
        static struct bench b;

        (void)state;
        open_default(&b);
        b.owner.toy.defers = true;
        for (unsigned i = 0; i < 31; i++)
                add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_LIVE);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_CLOSING);
        assert_int_equal(link_of(&b)->fault.rule, FAB_OVERRUN);
        assert_false(link_term_sent(link_of(&b)));
        bench_fini(&b);
}

static void budget_bounds_a_turn(void **state)
{
        struct iovec iov[2];
        static struct bench b;
        size_t n;

        (void)state;
        open_default(&b);
        for (unsigned i = 0; i < 5; i++)
                add_io(&b, NVME_FLUSH, 0);
        n = b.in.len - b.fed;
        link_recv_iov(link_of(&b), iov);
        memcpy(iov[0].iov_base, b.in.bytes + b.fed, n);
        assert_true(tcp_controller_received(b.owner.c, n, 2));
        assert_int_equal(b.owner.toy.executed, 3);
        assert_true(tcp_controller_received(b.owner.c, 0, 2));
        assert_int_equal(b.owner.toy.executed, 5);
        assert_false(tcp_controller_received(b.owner.c, 0, 2));
        assert_int_equal(b.owner.toy.executed, 6);
        bench_fini(&b);
}

/* --- a controller that misbehaves on request -------------------------------------------------- */

static const struct rule_policy *violating(enum rule_id rule)
{
        static struct rule_policy policy;

        policy = (struct rule_policy) { 0 };
        rule_add(&policy.violated, rule);
        return &policy;
}

static const struct rule_policy *waiving(enum rule_id rule)
{
        static struct rule_policy policy;

        policy = (struct rule_policy) { 0 };
        rule_add(&policy.waived, rule);
        return &policy;
}

static void open_with(struct bench *b, uint16_t qid, const struct rule_policy *policy)
{
        struct tcp_controller_config cfg = config();

        cfg.policy = policy;
        bench_init(b, &cfg);
        bench_open(b, &cfg, qid, false);
}

static void term_close_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_TERM_CLOSE));
        add_term(&b, 96);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        expect_status(&b, 0);
        bench_fini(&b);

        open_with(&b, 1, violating(TCP_TERM_CLOSE));
        add_term(&b, 23);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_LIVE);
        bench_fini(&b);
}

static void term_silence_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_TERM_SILENCE));
        add_term(&b, 153);
        feed(&b);
        assert_int_equal(b.last.ch.type, PDU_C2H_TERM);
        assert_int_equal(link_of(&b)->state, LINK_CLOSING);
        bench_fini(&b);
}

static void work_after_term(enum rule_id violated)
{
        static struct bench b;

        bench_with_r2t(&b, violating(violated), 0);
        h2c_offset(&b);
        feed(&b);
        assert_int_equal(b.last.ch.type, PDU_C2H_TERM);
        h2c_offset(&b);
        in_capsule_too_long(&b);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_LIVE);
        assert_int_equal(b.last.ch.type, PDU_CAPSULE_RESP);
        assert_int_equal(b.responses, 2);
        unknown_type(&b);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_TERMINATING);
        bench_fini(&b);
}

static void term_quiet_broken(void **state)
{
        (void)state;
        work_after_term(TCP_TERM_QUIET);
        work_after_term(TCP_TERM_STOPS);
}

static void icd_admin_broken(void **state)
{
        struct host_cmd cmd = { .data = pattern, .len = 8192 };
        static struct bench b;

        (void)state;
        open_with(&b, 0, violating(TCP_ICD_ADMIN));
        cmd.sqe.opc = NVME_SET_FEATURES;
        cmd.sqe.cdw12 = le32(8192);
        add_capsule(&b, &cmd, SGL_IN_CAPSULE, 8192);
        feed(&b);
        assert_int_equal(link_of(&b)->fault.rule, TCP_ICD_LIMIT);
        bench_fini(&b);
}

static void cdb_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_CDB));
        add_io(&b, NVME_WRITE, BLOCK);
        feed(&b);
        expect_status(&b, NVME_SGL_TYPE);
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        expect_status(&b, 0);
        bench_fini(&b);
}

static void c2h_complete_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_C2H_COMPLETE));
        add_io(&b, NVME_READ, TRANSFER);
        feed(&b);
        expect_status(&b, 0);
        assert_int_equal(b.c2h_bytes, TRANSFER / 2);
        bench_fini(&b);
}

static void success_sqfc_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_C2H_SUCCESS_SQFC));
        add_io(&b, NVME_READ, TRANSFER);
        feed(&b);
        assert_int_equal(b.last.ch.type, PDU_C2H_DATA);
        assert_int_equal(b.last.ch.flags, PDU_LAST | PDU_SUCCESS);
        bench_fini(&b);
}

static void success_resp_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_C2H_SUCCESS_RESP));
        b.owner.toy.success_ok = true;
        add_io(&b, NVME_READ, TRANSFER);
        feed(&b);
        expect_status(&b, 0);
        assert_int_equal(b.pdus, 4);
        bench_fini(&b);
}

static void answered_broken(void **state)
{
        struct host_cmd identify = { .len = IDENTIFY_LEN };
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(FAB_ANSWERED));
        add_io(&b, NVME_FLUSH, 0);
        add_io(&b, NVME_READ, BLOCK);
        feed(&b);
        assert_int_equal(b.responses, 2);
        bench_fini(&b);

        open_with(&b, 0, violating(FAB_ANSWERED));
        identify.sqe.opc = NVME_IDENTIFY;
        for (unsigned i = 0; i < 6; i++)
                add_capsule(&b, &identify, SGL_TRANSPORT, 0);
        feed(&b);
        assert_int_equal(b.responses, 5);
        assert_int_equal(b.owner.toy.buffers, 0);
        bench_fini(&b);
}

static void icresp_first_broken(void **state)
{
        struct tcp_controller_config cfg = config();
        static struct bench b;

        (void)state;
        cfg.policy = violating(TCP_ICRESP_FIRST);
        bench_init(&b, &cfg);
        add_icreq(&b);
        feed(&b);
        assert_int_equal(b.responses, 1);
        assert_int_equal(b.last.ch.type, PDU_ICRESP);
        bench_fini(&b);
}

static void r2t_limit_broken(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, violating(TCP_R2T_LIMIT));
        add_io(&b, NVME_WRITE, TRANSFER);
        feed(&b);
        assert_int_equal(b.r2ts, 8);
        bench_fini(&b);
}

static void r2t_ttag_broken(void **state)
{
        static struct bench b;
        uint16_t first;

        (void)state;
        open_with(&b, 1, violating(TCP_R2T_TTAG));
        add_io(&b, NVME_WRITE, TRANSFER);
        feed(&b);
        first = ttag(&b);
        add_io(&b, NVME_WRITE, TRANSFER);
        feed(&b);
        assert_int_equal(b.r2ts, 2);
        assert_int_equal(ttag(&b), first);
        bench_fini(&b);
}

/* --- a controller that overlooks something ---------------------------------------------------- */

/* Whatever happens then, it is not that rule, and no byte goes astray. */
static void each_rule_waived(void **state)
{
        static struct bench b;

        (void)state;
        for (unsigned i = 0; i < FAULT_CASES; i++) {
                bench_with_r2t(&b, waiving(fault_cases[i].rule), 0);
                fault_cases[i].send(&b);
                add_io(&b, NVME_FLUSH, 0);
                feed(&b);
                assert_int_not_equal(link_of(&b)->fault.rule, fault_cases[i].rule);
                bench_fini(&b);
        }
}

static void ddgst_waived(void **state)
{
        static struct bench b;

        (void)state;
        bench_with_r2t(&b, waiving(TCP_DDGST_H2C), PDU_DGST_DATA);
        add_h2c(&b, ttag(&b), 0, BIG, true);
        spoil_last_byte(&b);
        feed(&b);
        expect_status(&b, 0);
        bench_fini(&b);
}

static void sgl_type_waived(void **state)
{
        struct host_cmd cmd = io_command(NVME_READ, 0, NULL, BLOCK);
        static struct bench b;

        (void)state;
        open_with(&b, 1, waiving(TCP_SGL_TYPE));
        add_capsule(&b, &cmd, SGL_KEYED, 0);
        feed(&b);
        expect_status(&b, 0);
        bench_fini(&b);
}

static void malformed_termreq_is_passed_over(void **state)
{
        static struct bench b;

        (void)state;
        open_with(&b, 1, waiving(TCP_TERM_LEN_H2C));
        add_term(&b, 153);
        add_io(&b, NVME_FLUSH, 0);
        feed(&b);
        expect_status(&b, 0);
        add_term(&b, 152);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_CLOSING);
        bench_fini(&b);
}

static void names(void **state)
{
        (void)state;
        for (enum request_state s = REQUEST_FREE; s <= REQUEST_COMPLETED; s++)
                assert_true(strlen(request_state_name(s)) > 2);
        assert_string_equal(request_state_name(REQUEST_READY_TO_EXECUTE), "ready to execute");
}

static void without_memory(void **state)
{
        struct tcp_controller_config cfg = config();
        struct tcp_controller *c = NULL;
        struct owner owner = { 0 };
        unsigned n;

        (void)state;
        for (n = 1; !c; n++) {
                allocations_left = n;
                c = tcp_controller_new(&cfg, owner_ops(), &owner);
                assert_true(!c == (allocations_left == 0));
        }
        assert_true(n > 4);
        allocations_left = 1;
        assert_int_equal(requests_set_depth(tcp_requests(c), 128), -1);
        assert_int_equal(requests_set_depth(tcp_requests(c), 128), 0);
        tcp_controller_free(c);
        tcp_controller_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_fault_of_the_host),
                cmocka_unit_test(a_cid_in_use_is_a_status),
                cmocka_unit_test(each_fault_of_icreq),
                cmocka_unit_test(nothing_but_icreq_is_first),
                cmocka_unit_test(header_digest_is_its_own_fei),
                cmocka_unit_test(half_a_pdu_goes_out_before_the_termreq),
                cmocka_unit_test(nothing_is_processed_after_a_fault),
                cmocka_unit_test(termreq_closes_without_an_answer),
                cmocka_unit_test(malformed_termreq_is_not_obeyed_but_closes),
                cmocka_unit_test(sgl_types),
                cmocka_unit_test(in_capsule_bytes_of_an_unknown_sgl_are_skipped),
                cmocka_unit_test(lengths),
                cmocka_unit_test(short_sgl_let_pass),
                cmocka_unit_test(bytes_that_are_no_dwords),
                cmocka_unit_test(admin_in_capsule_is_8192_whatever_io_takes),
                cmocka_unit_test(owner_refuses),
                cmocka_unit_test(bad_ddgst_fails_the_command_alone),
                cmocka_unit_test(after_a_bad_ddgst_no_more_is_asked_for),
                cmocka_unit_test(one_whole_h2cdata_is_not_copied),
                cmocka_unit_test(abort_while_data_is_awaited),
                cmocka_unit_test(abort_in_the_middle_of_a_pdu),
                cmocka_unit_test(abort_and_loss_in_the_middle_of_a_pdu),
                cmocka_unit_test(abort_while_a_buffer_is_awaited),
                cmocka_unit_test(abort_of_one_that_waits_for_an_r2t),
                cmocka_unit_test(ends_without_a_response),
                cmocka_unit_test(a_reset_ends_what_waits),
                cmocka_unit_test(the_owner_is_asked_for_faults),
                cmocka_unit_test(what_is_held_may_end),
                cmocka_unit_test(abort_that_comes_too_late),
                cmocka_unit_test(sqhd_never_goes_back),
                cmocka_unit_test(it_says_when_the_host_owes_bytes),
                cmocka_unit_test(before_connect_no_command_waits_for_another),
                cmocka_unit_test(overrun_ends_it),
                cmocka_unit_test(budget_bounds_a_turn),
                cmocka_unit_test(term_close_broken),
                cmocka_unit_test(term_silence_broken),
                cmocka_unit_test(term_quiet_broken),
                cmocka_unit_test(icd_admin_broken),
                cmocka_unit_test(cdb_broken),
                cmocka_unit_test(c2h_complete_broken),
                cmocka_unit_test(success_sqfc_broken),
                cmocka_unit_test(success_resp_broken),
                cmocka_unit_test(answered_broken),
                cmocka_unit_test(icresp_first_broken),
                cmocka_unit_test(r2t_limit_broken),
                cmocka_unit_test(r2t_ttag_broken),
                cmocka_unit_test(each_rule_waived),
                cmocka_unit_test(ddgst_waived),
                cmocka_unit_test(sgl_type_waived),
                cmocka_unit_test(malformed_termreq_is_passed_over),
                cmocka_unit_test(without_memory),
                cmocka_unit_test(names),
        };

        return cmocka_run_group_tests_name("tcp_controller", tests, NULL, NULL);
}
