/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side against a controller that writes its PDUs by hand, right and wrong. */
#include "pair.h"
#include "stream.h"

enum { TRANSFER = 8192, COMMANDS = 8 };

struct bench {
        struct tcp_host *host;
        struct tcp_host_config cfg;
        struct stream in; /* what the controller says */
        size_t fed;
        size_t most; /* at once; 0: any number */
        uint64_t seed;
        uint8_t *buf;
        struct framer rx; /* reads what the host says */
        uint8_t *rx_buf;
        union pdu last, capsule;
        uint8_t term[PDU_TERM_MAX];
        uint32_t pdus, capsules, h2c_pdus, h2c_bytes, term_len;
        struct pdu_data h2c[64];
        struct host_cmd cmd[COMMANDS];
        unsigned done;
        uint8_t data[COMMANDS][TRANSFER];
};

static uint8_t pattern[TRANSFER];

static struct link *link_of(struct bench *b)
{
        return tcp_host_link(b->host);
}

static void bench_init(struct bench *b)
{
        memset(b, 0, sizeof(*b));
        for (size_t i = 0; i < sizeof(pattern); i++)
                pattern[i] = (uint8_t)(i * 7 + i / 512);
        b->seed = 7;
        b->cfg = pair_defaults().host;
        b->cfg.maxr2t = 4;
        b->cfg.limits.r2ts_max = 4;
}

static void bench_start(struct bench *b)
{
        b->host = tcp_host_new(&b->cfg, b);
        assert_non_null(b->host);
        b->buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&link_of(b)->rx, b->buf, FRAMER_BUFFER_MIN);
        framer_init(&b->rx, PARTY_HOST, NULL);
        b->rx_buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&b->rx, b->rx_buf, FRAMER_BUFFER_MIN);
        tcp_host_start(b->host);
}

static void bench_fini(struct bench *b)
{
        tcp_host_fail_all(b->host, NVME_ABORT_SQ_DELETED);
        assert_int_equal(tcp_host_outstanding(b->host), 0);
        tcp_host_free(b->host);
        free(b->buf);
        free(b->rx_buf);
}

static void note_pdu(struct bench *b)
{
        const union pdu *h = framer_header(&b->rx);

        b->last = *h;
        b->pdus++;
        assert_false(framer_ddgst_bad(&b->rx));
        if (h->ch.type == PDU_H2C_TERM) {
                b->term_len = le32_get(h->ch.plen);
                memcpy(b->term, h, sizeof(h->term));
                memcpy(b->term + 24, framer_data(&b->rx), b->term_len - 24);
        } else if (h->ch.type == PDU_CAPSULE_CMD) {
                b->capsule = *h;
                b->capsules++;
        } else if (h->ch.type == PDU_H2C_DATA) {
                b->h2c[b->h2c_pdus++ % 64] = h->data;
                b->h2c_bytes += framer_data_len(&b->rx);
                assert_memory_equal(framer_data(&b->rx), pattern + le32_get(h->data.offset),
                                    framer_data_len(&b->rx));
        }
}

/* Takes at most `pieces` pieces of what the host has to say. */
static void drain_some(struct bench *b, unsigned pieces)
{
        struct iovec out[8];
        enum framer_event ev;

        while (pieces-- > 0 && link_send_iov(link_of(b), out, 8) > 0) {
                size_t n = framer_feed(&b->rx, out[0].iov_base, out[0].iov_len);

                link_sent(link_of(b), n);
                while ((ev = framer_next(&b->rx)) != FRAMER_MORE) {
                        assert_int_not_equal(ev, FRAMER_FAULT);
                        if (ev == FRAMER_PDU)
                                note_pdu(b);
                }
        }
}

static void drain(struct bench *b)
{
        drain_some(b, 1000000);
}

static void feed_only(struct bench *b)
{
        while (b->fed < b->in.len) {
                size_t n = b->in.len - b->fed;
                struct iovec iov[2];

                if (b->most > 0 && b->most < n)
                        n = b->most > 1 ? pair_rand(&b->seed) % b->most + 1 : 1;
                link_recv_iov(link_of(b), iov);
                n = n < iov[0].iov_len ? n : iov[0].iov_len;
                memcpy(iov[0].iov_base, b->in.bytes + b->fed, n);
                b->fed += n;
                tcp_host_received(b->host, n);
        }
}

static void feed(struct bench *b)
{
        feed_only(b);
        drain(b);
}

/* --- PDUs of the controller ------------------------------------------------------------------- */

static void add_icresp(struct bench *b, uint8_t dgst, uint32_t maxh2cdata)
{
        union pdu h = { .icresp = {
                            .ch.type = PDU_ICRESP, .dgst = dgst, .maxh2cdata = le32(maxh2cdata) } };

        stream_add(&b->in, &h, NULL, 0);
        b->in.format.hdgst = dgst & PDU_DGST_HEADER;
        b->in.format.ddgst = dgst & PDU_DGST_DATA;
        framer_negotiated(&b->rx, &b->in.format);
        b->in.format.pda = b->cfg.hpda;
}

static void add_response(struct bench *b, uint16_t cid, uint16_t status)
{
        union pdu h = { .resp = { .ch.type = PDU_CAPSULE_RESP,
                                  .cqe = { .cid = le16(cid), .sf = status_field(status) } } };

        h.resp.cqe.sqhd = le16(1);
        stream_add(&b->in, &h, NULL, 0);
}

static void add_c2h(struct bench *b, uint16_t cid, uint32_t offset, uint32_t len, uint8_t flags)
{
        union pdu h = { .data = { .ch = { .type = PDU_C2H_DATA, .flags = flags },
                                  .cccid = le16(cid),
                                  .offset = le32(offset),
                                  .length = le32(len) } };

        stream_add(&b->in, &h, pattern, len);
}

static void add_r2t(struct bench *b, uint16_t cid, uint16_t ttag, uint32_t offset, uint32_t len)
{
        union pdu h = { .data = { .ch = { .type = PDU_R2T },
                                  .cccid = le16(cid),
                                  .ttag = le16(ttag),
                                  .offset = le32(offset),
                                  .length = le32(len) } };

        stream_add(&b->in, &h, NULL, 0);
}

/* Submits command i; its CID. */
static uint16_t submit(struct bench *b, unsigned i, uint8_t opc, uint32_t len)
{
        struct host_cmd *cmd = &b->cmd[i];

        memcpy(b->data[i], pattern, TRANSFER);
        if (sqe_xfer(&(union sqe) { { .opc = opc } }) == XFER_C2H)
                memset(b->data[i], 0, TRANSFER);
        *cmd = io_command(opc, 0, b->data[i], len);
        cmd->command_buffer = true;
        cmd->done = count_done;
        cmd->user = &b->done;
        assert_int_equal(tcp_host_submit(b->host, cmd), 0);
        return le16_get(cmd->sqe.cid);
}

/* A queue that is connected. */
static void bench_open(struct bench *b, uint8_t dgst, uint32_t maxh2cdata)
{
        b->cfg.hdgst = dgst & PDU_DGST_HEADER;
        b->cfg.ddgst = dgst & PDU_DGST_DATA;
        bench_start(b);
        drain(b);
        assert_int_equal(b->last.ch.type, PDU_ICREQ);
        assert_int_equal(le32_get(b->last.icreq.maxr2t), 3);
        assert_false(tcp_host_ready(b->host));
        add_icresp(b, dgst, maxh2cdata);
        feed(b);
        assert_true(tcp_host_ready(b->host));
        b->cmd[0] = connect_command(1, 32, false);
        b->cmd[0].done = count_done;
        b->cmd[0].user = &b->done;
        assert_int_equal(tcp_host_submit(b->host, &b->cmd[0]), 0);
        drain(b);
        add_response(b, le16_get(b->cmd[0].sqe.cid), 0);
        feed(b);
        assert_int_equal(b->done, 1);
        b->done = 0;
}

static void open_default(struct bench *b)
{
        bench_init(b);
        bench_open(b, 0, 131072);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void nothing_is_sent_before_icresp(void **state)
{
        struct host_cmd cmd = connect_command(1, 32, false);
        static struct bench b;

        (void)state;
        bench_init(&b);
        bench_start(&b);
        assert_int_equal(tcp_host_submit(b.host, &cmd), -1);
        drain(&b);
        assert_int_equal(b.pdus, 1);
        bench_fini(&b);
}

static void digests_that_are_not_granted(void **state)
{
        static struct bench b;

        (void)state;
        for (int required = 0; required < 2; required++) {
                bench_init(&b);
                b.cfg.hdgst = b.cfg.ddgst = true;
                b.cfg.require_digests = required;
                bench_start(&b);
                drain(&b);
                assert_int_equal(b.last.icreq.dgst, 3);
                add_icresp(&b, PDU_DGST_HEADER, 131072);
                feed(&b);
                assert_int_equal(tcp_host_digests_refused(b.host), required);
                assert_int_equal(tcp_host_ready(b.host), !required);
                assert_int_equal(link_of(&b)->state, required ? LINK_CLOSING : LINK_LIVE);
                bench_fini(&b);
        }
}

static void cids_are_never_the_last_one_again(void **state)
{
        uint16_t cid, before = 0xffff;
        static struct bench b;

        (void)state;
        open_default(&b);
        for (unsigned i = 0; i < 5000; i++) {
                cid = submit(&b, 1, NVME_FLUSH, 0);
                assert_int_not_equal(cid, before);
                assert_int_not_equal(cid, 0xffff);
                before = cid;
                b.in.len = b.fed = 0;
                add_response(&b, cid, 0);
                drain(&b);
                feed(&b);
        }
        assert_int_equal(b.done, 5000);
        bench_fini(&b);
}

static void no_more_than_depth(void **state)
{
        static struct bench b;

        (void)state;
        bench_init(&b);
        b.cfg.depth = 3;
        bench_open(&b, 0, 131072);
        for (unsigned i = 0; i < 3; i++)
                submit(&b, i, NVME_FLUSH, 0);
        assert_int_equal(tcp_host_outstanding(b.host), 3);
        assert_int_equal(tcp_host_submit(b.host, &b.cmd[3]), -1);
        bench_fini(&b);
        assert_int_equal(b.done, 3);
        assert_int_equal(b.cmd[1].status, NVME_ABORT_SQ_DELETED);
}

static void what_goes_into_the_capsule(void **state)
{
        static const struct {
                uint32_t len;
                bool fabrics, command_buffer;
                uint8_t id;
        } cases[] = {
                { 4096, false, false, SGL_IN_CAPSULE }, { 4608, false, false, SGL_TRANSPORT },
                { 4096, false, true, SGL_TRANSPORT },   { 8192, true, false, SGL_IN_CAPSULE },
                { 0, false, false, SGL_TRANSPORT },
        };
        static struct bench b;

        (void)state;
        open_default(&b);
        tcp_host_set_in_capsule(b.host, 4096);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct host_cmd *cmd = &b.cmd[i];
                uint32_t len = cases[i].id == SGL_IN_CAPSULE ? cases[i].len : 0;

                *cmd = io_command(NVME_WRITE, 0, pattern, cases[i].len);
                cmd->command_buffer = cases[i].command_buffer;
                cmd->done = count_done;
                cmd->user = &b.done;
                if (cases[i].fabrics) {
                        cmd->sqe.opc = NVME_FABRICS;
                        cmd->sqe.fctype = FCTYPE_AUTH_SEND;
                }
                assert_int_equal(tcp_host_submit(b.host, cmd), 0);
                drain(&b);
                assert_int_equal(b.capsule.cmd.sqe.sgl.id, cases[i].id);
                assert_int_equal(le32_get(b.capsule.cmd.sqe.sgl.len), cases[i].len);
                assert_int_equal(le32_get(b.capsule.ch.plen), 72 + len);
                assert_int_equal(b.capsule.cmd.sqe.flags, SQE_PSDT_SGL);
        }
        bench_fini(&b);
}

/* --- controller to host data ------------------------------------------------------------------ */

static void read_ends(uint16_t response, uint32_t got, uint8_t flags, uint16_t status)
{
        static struct bench b;
        uint16_t cid;

        open_default(&b);
        cid = submit(&b, 1, NVME_READ, TRANSFER);
        drain(&b);
        if (got > 0)
                add_c2h(&b, cid, 0, got, flags);
        if (!(flags & PDU_SUCCESS))
                add_response(&b, cid, response);
        feed(&b);
        assert_int_equal(b.done, 1);
        assert_int_equal(b.cmd[1].status, status);
        assert_int_equal(b.cmd[1].got, got);
        assert_int_equal(le16_get(b.cmd[1].cqe.cid), cid);
        assert_memory_equal(b.data[1], pattern, got);
        bench_fini(&b);
}

static void reads(void **state)
{
        (void)state;
        read_ends(0, TRANSFER, PDU_LAST, 0);
        read_ends(0, TRANSFER, PDU_LAST | PDU_SUCCESS, 0);
        read_ends(0, 4096, PDU_LAST, NVME_DATA_TRANSFER_ERROR);
        read_ends(0, 4096, PDU_LAST | PDU_SUCCESS, NVME_DATA_TRANSFER_ERROR);
        read_ends(0, 0, 0, NVME_DATA_TRANSFER_ERROR);
        read_ends(NVME_LBA_RANGE, 0, 0, NVME_LBA_RANGE);
        read_ends(NVME_UNRECOVERED_READ, 4096, 0, NVME_UNRECOVERED_READ);
}

static void read_without_a_buffer(void **state)
{
        static struct bench b;
        uint16_t cid;

        (void)state;
        open_default(&b);
        cid = submit(&b, 1, NVME_FLUSH, 0);
        b.cmd[2] = io_command(NVME_READ, 0, NULL, TRANSFER);
        b.cmd[2].done = count_done;
        b.cmd[2].user = &b.done;
        assert_int_equal(tcp_host_submit(b.host, &b.cmd[2]), 0);
        drain(&b);
        add_c2h(&b, le16_get(b.cmd[2].sqe.cid), 0, TRANSFER, PDU_LAST | PDU_SUCCESS);
        add_response(&b, cid, 0);
        feed(&b);
        assert_int_equal(b.done, 2);
        assert_int_equal(b.cmd[2].status, 0);
        bench_fini(&b);
}

static void bad_ddgst_fails_the_command_alone(void **state)
{
        static struct bench b;
        uint16_t cid;

        (void)state;
        for (int success = 0; success < 2; success++) {
                bench_init(&b);
                bench_open(&b, PDU_DGST_DATA, 131072);
                cid = submit(&b, 1, NVME_READ, TRANSFER);
                drain(&b);
                add_c2h(&b, cid, 0, 4096, 0);
                b.in.bytes[b.in.len - 1] ^= 0x80;
                add_c2h(&b, cid, 4096, 4096, success ? PDU_LAST | PDU_SUCCESS : PDU_LAST);
                if (!success)
                        add_response(&b, cid, 0);
                feed(&b);
                assert_int_equal(b.done, 1);
                assert_int_equal(b.cmd[1].status, NVME_TRANSIENT_TRANSPORT);
                assert_int_equal(cqe_status(&b.cmd[1].cqe), 0);
                assert_int_equal(link_of(&b)->state, LINK_LIVE);
                bench_fini(&b);
        }
}

/* --- host to controller data ------------------------------------------------------------------ */

static void r2ts_are_served_in_order_and_in_pieces(void **state)
{
        static struct bench b;
        uint16_t cid;

        (void)state;
        bench_init(&b);
        bench_open(&b, 0, 4096);
        b.cfg.maxr2t = 3;
        cid = submit(&b, 1, NVME_WRITE, TRANSFER);
        drain(&b);
        add_r2t(&b, cid, 0xffff, 0, 6144);
        add_r2t(&b, cid, 0, 6144, 1024);
        add_r2t(&b, cid, 7, 7168, 1024);
        feed(&b);
        assert_int_equal(b.h2c_pdus, 4);
        assert_int_equal(b.h2c_bytes, TRANSFER);
        for (unsigned i = 0; i < 4; i++) {
                static const uint32_t offsets[] = { 0, 4096, 6144, 7168 },
                                      lens[] = { 4096, 2048, 1024, 1024 };
                static const uint16_t ttags[] = { 0xffff, 0xffff, 0, 7 };

                assert_int_equal(le32_get(b.h2c[i].offset), offsets[i]);
                assert_int_equal(le32_get(b.h2c[i].length), lens[i]);
                assert_int_equal(le16_get(b.h2c[i].ttag), ttags[i]);
                assert_int_equal(le16_get(b.h2c[i].cccid), cid);
                assert_int_equal(b.h2c[i].ch.flags, i > 0 ? PDU_LAST : 0);
        }
        add_response(&b, cid, 0);
        feed(&b);
        assert_int_equal(b.done, 1);
        assert_int_equal(b.cmd[1].status, 0);
        bench_fini(&b);
}

/* The response may come while data is still on its way out. */
static void done_waits_for_what_is_being_sent(void **state)
{
        static struct bench b;
        uint16_t cid;

        (void)state;
        bench_init(&b);
        bench_open(&b, 0, 4096);
        cid = submit(&b, 1, NVME_WRITE, TRANSFER);
        drain(&b);
        add_r2t(&b, cid, 1, 0, TRANSFER);
        feed_only(&b);
        drain_some(&b, 1); /* the header of the first H2CData */
        add_response(&b, cid, NVME_WRITE_FAULT);
        feed_only(&b);
        assert_int_equal(b.done, 0);
        assert_int_equal(tcp_host_outstanding(b.host), 1);
        drain(&b);
        assert_int_equal(b.done, 1);
        assert_int_equal(b.cmd[1].status, NVME_WRITE_FAULT);
        assert_int_equal(b.h2c_pdus, 1);
        assert_int_equal(tcp_host_outstanding(b.host), 0);
        bench_fini(&b);
}

static void a_command_that_ended_keeps_its_status_when_the_link_dies(void **state)
{
        static struct bench b;
        uint16_t cid;

        (void)state;
        open_default(&b);
        cid = submit(&b, 1, NVME_FLUSH, 0);
        submit(&b, 2, NVME_WRITE, TRANSFER);
        add_response(&b, cid, 0);
        feed_only(&b); /* before the capsule is out */
        assert_int_equal(b.done, 0);
        bench_fini(&b);
        assert_int_equal(b.done, 2);
        assert_int_equal(b.cmd[1].status, 0);
        assert_int_equal(b.cmd[2].status, NVME_ABORT_SQ_DELETED);
}

/* --- faults of the controller: TermReq -------------------------------------------------------- */

static void unknown_cid(struct bench *b, uint16_t cid)
{
        add_response(b, (uint16_t)(cid + 1), 0);
}

static void cid_of_the_past(struct bench *b, uint16_t cid)
{
        add_response(b, cid, 0);
        add_response(b, cid, 0);
}

static void icresp_again(struct bench *b, uint16_t cid)
{
        (void)cid;
        add_icresp(b, 0, 4096);
}

static void c2h_unknown_cid(struct bench *b, uint16_t cid)
{
        add_c2h(b, (uint16_t)(cid + 1), 0, 512, 0);
}

static void c2h_offset(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 4, 512, 0);
}

static void c2h_range(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 0, 4096, 0);
        add_c2h(b, cid, 4096, 4100, 0);
}

static void c2h_after_last(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 0, 4096, PDU_LAST);
        add_c2h(b, cid, 4096, 4096, PDU_LAST);
}

static void success_without_last(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 0, 4096, PDU_SUCCESS);
}

static void success_and_response(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 0, TRANSFER, PDU_LAST | PDU_SUCCESS);
        add_response(b, cid, 0);
}

static void r2t_for_a_read(struct bench *b, uint16_t cid)
{
        add_r2t(b, cid, 1, 0, TRANSFER);
}

static void c2h_for_a_write(struct bench *b, uint16_t cid)
{
        add_c2h(b, cid, 0, 512, 0);
}

static void r2t_offset(struct bench *b, uint16_t cid)
{
        add_r2t(b, cid, 1, 512, 512);
}

static void r2t_range(struct bench *b, uint16_t cid)
{
        add_r2t(b, cid, 1, 0, TRANSFER + 4);
}

/* The first one is answered at once. */
static void r2t_limit(struct bench *b, uint16_t cid)
{
        for (uint16_t i = 0; i < 6; i++)
                add_r2t(b, cid, i, i * 512u, 512);
}

static void r2t_ttag_twice(struct bench *b, uint16_t cid)
{
        add_r2t(b, cid, 1, 0, 512);
        add_r2t(b, cid, 1, 512, 512);
        add_r2t(b, cid, 1, 1024, 512);
}

static void host_pdu(struct bench *b, uint16_t cid)
{
        add_r2t(b, cid, 1, 0, 512);
        stream_last(&b->in)->ch.type = PDU_H2C_DATA;
}

static const struct fault_case {
        enum rule_id rule;
        uint8_t opc;
        void (*send)(struct bench *b, uint16_t cid);
} fault_cases[] = {
        { TCP_RESP_CID, NVME_READ, unknown_cid },
        { TCP_RESP_CID, NVME_READ, cid_of_the_past },
        { TCP_ICRESP_ONCE, NVME_READ, icresp_again },
        { TCP_C2H_CID, NVME_READ, c2h_unknown_cid },
        { TCP_C2H_CONTIG, NVME_READ, c2h_offset },
        { TCP_C2H_RANGE, NVME_READ, c2h_range },
        { TCP_C2H_AFTER_LAST, NVME_READ, c2h_after_last },
        { TCP_C2H_SUCCESS_LAST, NVME_READ, success_without_last },
        { TCP_C2H_SUCCESS_RESP, NVME_READ, success_and_response },
        { TCP_C2H_DIR, NVME_WRITE, c2h_for_a_write },
        { TCP_R2T_CID, NVME_READ, r2t_for_a_read },
        { TCP_R2T_CONTIG, NVME_WRITE, r2t_offset },
        { TCP_R2T_RANGE, NVME_WRITE, r2t_range },
        { TCP_R2T_LIMIT, NVME_WRITE, r2t_limit },
        { TCP_R2T_TTAG, NVME_WRITE, r2t_ttag_twice },
        { TCP_DIR_C2H, NVME_WRITE, host_pdu },
};
enum { FAULT_CASES = sizeof(fault_cases) / sizeof(fault_cases[0]) };

static void fault(const struct fault_case *f, size_t most)
{
        const struct pdu_term *t;
        static struct bench b;
        uint16_t cid;

        open_default(&b);
        b.most = most;
        cid = submit(&b, 1, f->opc, TRANSFER);
        drain(&b);
        f->send(&b, cid);
        feed(&b);
        t = (const struct pdu_term *)b.term;
        assert_int_equal(link_of(&b)->fault.rule, f->rule);
        assert_int_equal(link_of(&b)->state, LINK_CLOSING);
        assert_int_equal(b.last.ch.type, PDU_H2C_TERM);
        assert_true(rule_accepts(f->rule, le16_get(t->fes), le32_get(t->fei), 0));
        assert_memory_equal(b.term + 24, b.in.bytes + b.in.last, b.term_len - 24);
        if (f->rule != TCP_DIR_C2H)
                assert_int_equal(b.term_len, 24u + pdu_info(b.in.bytes[b.in.last])->hlen);
        bench_fini(&b);
        assert_int_equal(b.done, 1);
}

static void each_fault_of_the_controller(void **state)
{
        (void)state;
        for (unsigned i = 0; i < FAULT_CASES; i++) {
                fault(&fault_cases[i], 0);
                fault(&fault_cases[i], 1);
                for (unsigned j = 0; j < 8; j++)
                        fault(&fault_cases[i], 5 + 40 * j);
        }
}

static void icresp_fault(size_t offset, uint8_t value, enum rule_id rule)
{
        const struct pdu_term *t;
        static struct bench b;

        bench_init(&b);
        b.most = 50;
        bench_start(&b);
        drain(&b);
        add_icresp(&b, 0, 4096);
        b.in.bytes[offset] = value;
        feed(&b);
        t = (const struct pdu_term *)b.term;
        assert_int_equal(link_of(&b)->fault.rule, rule);
        assert_int_equal(b.term_len, 152);
        assert_int_equal(le16_get(t->fes), FES_INVALID_HEADER_FIELD);
        assert_int_equal(le32_get(t->fei), rule_get(rule)->accept[0].place);
        assert_memory_equal(b.term + 24, b.in.bytes, 128);
        assert_false(tcp_host_ready(b.host));
        bench_fini(&b);
}

static void each_fault_of_icresp(void **state)
{
        (void)state;
        icresp_fault(offsetof(struct pdu_icresp, pfv), 1, TCP_ICRESP_PFV);
        icresp_fault(offsetof(struct pdu_icresp, cpda), 32, TCP_ICRESP_CPDA);
        icresp_fault(offsetof(struct pdu_icresp, dgst), 1, TCP_ICRESP_DGST);
        icresp_fault(offsetof(struct pdu_icresp, maxh2cdata), 2, TCP_ICRESP_MAXH2C);
        icresp_fault(offsetof(struct pdu_icresp, maxh2cdata) + 1, 8, TCP_ICRESP_MAXH2C_MIN);
}

/* Waived, wrong PDUs do what they may, and no byte goes astray. */
static void each_rule_waived(void **state)
{
        static struct rule_policy policy;
        static struct bench b;

        (void)state;
        for (unsigned i = 0; i < FAULT_CASES; i++) {
                uint16_t cid;

                policy = (struct rule_policy) { 0 };
                rule_add(&policy.waived, fault_cases[i].rule);
                bench_init(&b);
                b.cfg.policy = &policy;
                bench_open(&b, 0, 131072);
                cid = submit(&b, 1, fault_cases[i].opc, TRANSFER);
                drain(&b);
                fault_cases[i].send(&b, cid);
                feed(&b);
                assert_int_not_equal(b.last.ch.type == PDU_H2C_TERM ? link_of(&b)->fault.rule : 0,
                                     fault_cases[i].rule == TCP_R2T_LIMIT ? RULES
                                                                          : fault_cases[i].rule);
                bench_fini(&b);
        }
}

static void termreq_closes(void **state)
{
        union pdu h = { .term = { .ch = { .type = PDU_C2H_TERM, .hlen = 24, .plen = le32(48) },
                                  .fes = le16(FES_LIMIT_EXCEEDED) } };
        static struct bench b;

        (void)state;
        open_default(&b);
        submit(&b, 1, NVME_FLUSH, 0);
        stream_laid(&b.in, &h, pattern, 24);
        feed(&b);
        assert_int_equal(link_of(&b)->state, LINK_CLOSING);
        assert_int_equal(link_of(&b)->peer_term.fes, FES_LIMIT_EXCEEDED);
        assert_int_equal(tcp_host_submit(b.host, &b.cmd[2]), -1);
        bench_fini(&b);
        assert_int_equal(b.cmd[1].status, NVME_ABORT_SQ_DELETED);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_is_sent_before_icresp),
                cmocka_unit_test(digests_that_are_not_granted),
                cmocka_unit_test(cids_are_never_the_last_one_again),
                cmocka_unit_test(no_more_than_depth),
                cmocka_unit_test(what_goes_into_the_capsule),
                cmocka_unit_test(reads),
                cmocka_unit_test(read_without_a_buffer),
                cmocka_unit_test(bad_ddgst_fails_the_command_alone),
                cmocka_unit_test(r2ts_are_served_in_order_and_in_pieces),
                cmocka_unit_test(done_waits_for_what_is_being_sent),
                cmocka_unit_test(a_command_that_ended_keeps_its_status_when_the_link_dies),
                cmocka_unit_test(each_fault_of_the_controller),
                cmocka_unit_test(each_fault_of_icresp),
                cmocka_unit_test(each_rule_waived),
                cmocka_unit_test(termreq_closes),
        };

        return cmocka_run_group_tests_name("tcp_host", tests, NULL, NULL);
}
