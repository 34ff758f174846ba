/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of an NVMe/TCP connection, joined in memory, with a listener on the wire between them:
 * commands in any number and order, pieces of any size, answers late and in any order, Aborts,
 * resets, rules that either end breaks on purpose and rules that it does not check, a wire that
 * changes bytes. Each command is called back once and each buffer comes back. Where nobody departs
 * from a rule neither end finds fault, nor does the listener.
 *
 * Input: bits (4 bytes), alignments (2), the rules that are broken (a count, 3 bytes each), the
 * allocation that fails (1); then steps: what (1), its numbers.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/toy.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "pdu/nvme/tcp/tcp_host.h"

enum {
        BIT_HDGST = 1 << 0,
        BIT_DDGST = 1 << 1,
        BIT_REFUSES = 1 << 2, /* digests */
        BIT_REQUIRES = 1 << 3,
        BIT_NO_ICD = 1 << 4,
        BIT_SHORT = 1 << 5,
        BIT_WINDOW = 1 << 6,
        BIT_ADMIN = 1 << 7,
        BIT_NO_SQFC = 1 << 8,
        BIT_SUCCESS = 1 << 9,
        BIT_DEFERS = 1 << 10,
        BIT_HUNGRY = 1 << 11,
        BIT_FEW_R2TS = 1 << 12,
        BIT_WAIVE_THEM = 1 << 13, /* whoever hears does not check what the other breaks */
        BIT_WAIVE_ALL = 1 << 14,
        BIT_BUDGET = 1 << 15,
        BIT_DEFAULTS = 1 << 16, /* limits are the machines' own */
        BIT_NO_ROOM = 1 << 17,  /* reads go nowhere */
        BIT_TIDY = 1 << 18,     /* all that can move moves between two steps */
};

enum { COMMANDS = 12, DEPTH = 8, DATA = 1 << 15, PARKED = 64, ROUNDS = 20000 };
enum step { SUBMIT, TO_CONTROLLER, TO_HOST, COMPLETE, ABORT, PUMP, NOISE, END, BUFFERS, STEPS };

struct pair {
        struct toy owner; /* first */
        struct fuzz_input in;
        uint32_t bits;
        struct tcp_host *host;
        struct tcp_controller *c;
        struct rule_policy policy[2]; /* of each party */
        bool lawful;                  /* nobody departs from a rule */

        struct host_cmd cmd[COMMANDS];
        bool busy[COMMANDS];
        unsigned turn;

        struct request *parked[PARKED];
        unsigned n_parked;
        bool stalled; /* the controller takes nothing before something is sent */

        struct framer ear[2]; /* by who speaks */
        struct track *track;
        bool deaf[2];
        uint16_t noise_at;
        uint8_t noise; /* 0: none */
};

static uint8_t room[2][FRAMER_BUFFER_MIN], room_ear[2][FRAMER_BUFFER_MIN], data[COMMANDS][DATA];

static bool is(const struct pair *p, uint32_t bit)
{
        return p->bits & bit;
}

/* --- the owner of the controller's side --------------------------------------------------------- */

static bool is_connect(const union sqe *sqe)
{
        return sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT;
}

static uint16_t admit(void *user, struct request *r)
{
        struct pair *p = user;

        r->xfer = sqe_xfer(&r->sqe);
        if (is_connect(&r->sqe)) {
                r->len = CONNECT_DATA_LEN;
                return p->owner.connected ? NVME_SEQUENCE_ERROR : 0;
        }
        if (!p->owner.connected)
                return NVME_SEQUENCE_ERROR;
        if (r->sqe.opc == NVME_FABRICS)
                r->xfer = XFER_NONE;
        else if (r->xfer != XFER_NONE)
                r->len = le32_get(r->sqe.cdw12) & 0x1ffff;
        return le32_get(r->sqe.cdw13) & 1 ? NVME_LBA_RANGE | STATUS_DNR : 0;
}

static void connect_queue(struct pair *p, struct request *r)
{
        if (p->owner.connected || !toy_connect(&p->owner, r, le16_get(r->sqe.connect.sqsize) + 1u))
                r->cqe.sf = status_field(NVME_INTERNAL_ERROR);
}

static void execute(void *user, struct request *r)
{
        struct pair *p = user;
        uint32_t digest = FUZZ_DIGEST_START;

        if (r->xfer == XFER_H2C)
                fuzz_digest(&digest, r->data, r->len);
        if (r->xfer == XFER_C2H) {
                memset(r->data, r->sqe.opc, r->len);
                r->c2h_len = r->len;
        }
        r->success_ok = is(p, BIT_SUCCESS) && p->owner.no_flow_control;
        if (is_connect(&r->sqe))
                connect_queue(p, r);
        if (!is(p, BIT_DEFERS) || p->n_parked == PARKED)
                request_complete(r);
        else
                p->parked[p->n_parked++] = r;
}

static void trace(void *user, const struct request *r)
{
        (void)user;
        must(request_state_name(r->state) != NULL);
}

/* The one that waits at i ends, well or otherwise. */
static void complete(struct pair *p, unsigned i, unsigned how)
{
        struct request *r;

        if (p->n_parked == 0)
                return;
        i %= p->n_parked;
        r = p->parked[i];
        p->parked[i] = p->parked[--p->n_parked];
        r->no_response = how == 1;
        if (how == 2)
                r->cqe.sf = status_field(NVME_LBA_RANGE);
        if (how == 3)
                r->c2h_len = r->c2h_len / 2 & ~3u; /* whole dwords: its part of the contract */
        if (how > 0 && how < 4)
                p->lawful = false;
        request_complete(r);
}

static bool is_parked(const struct pair *p, const struct request *r)
{
        for (unsigned i = 0; i < p->n_parked; i++)
                if (p->parked[i] == r)
                        return true;
        return false;
}

static void ends_early(struct pair *p, uint16_t cid, bool silently)
{
        struct request *r = requests_find(tcp_requests(p->c), cid);

        if (!r || is_parked(p, r))
                return;
        r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
        r->no_response = silently && r->state < REQUEST_EXECUTING;
        p->lawful = false; /* data that was asked for comes, and finds nobody */
        request_complete(r);
}

/* --- the owner of the host's side --------------------------------------------------------------- */

static void done(struct host_cmd *cmd, void *user)
{
        struct pair *p = user;

        must(p->busy[cmd - p->cmd]);
        must(cmd->got <= cmd->len || !p->lawful);
        must(!p->lawful || cmd->status || cmd->xfer != XFER_C2H || cmd->got == cmd->len);
        p->busy[cmd - p->cmd] = false;
}

static void fill_in(struct pair *p, struct host_cmd *cmd, unsigned what)
{
        static const struct {
                uint8_t opc, cdw10;
        } commands[2][8] = { { { NVME_READ, 0 },
                               { NVME_WRITE, 0 },
                               { NVME_FLUSH, 0 },
                               { NVME_FABRICS, 0 },
                               { NVME_COMPARE, 0 },
                               { NVME_DSM, 0 },
                               { NVME_READ, 0 },
                               { NVME_WRITE, 0 } },
                             { { NVME_IDENTIFY, CNS_CTRL },
                               { NVME_AER, 0 },
                               { NVME_FABRICS, 0 },
                               { NVME_KEEP_ALIVE, 0 },
                               { NVME_GET_LOG_PAGE, LOG_DISCOVERY },
                               { NVME_GET_FEATURES, FEAT_KATO },
                               { NVME_SET_FEATURES, FEAT_KATO },
                               { NVME_ABORT, 0 } } };

        cmd->sqe.opc = commands[is(p, BIT_ADMIN)][what % 8].opc;
        cmd->sqe.cdw10 = le32(commands[is(p, BIT_ADMIN)][what % 8].cdw10);
        if (p->turn++ == 0) {
                cmd->sqe.opc = NVME_FABRICS;
                cmd->sqe.fctype = FCTYPE_CONNECT;
                cmd->sqe.connect.sqsize = le16(is(p, BIT_ADMIN) ? ADMIN_SQ_MIN - 1 : DEPTH);
                cmd->sqe.connect.qid = le16(is(p, BIT_ADMIN) ? 0 : 1);
                cmd->sqe.connect.cattr = is(p, BIT_NO_SQFC) ? CATTR_DISABLE_SQFC : 0;
                cmd->len = CONNECT_DATA_LEN;
        } else if (cmd->sqe.opc == NVME_FABRICS) {
                cmd->sqe.fctype = what & 0x40 ? FCTYPE_PROPERTY_SET : FCTYPE_PROPERTY_GET;
                cmd->sqe.property.ofst = le32(PROP_CC);
                cmd->sqe.property.value = le64(what & 0x80 ? 0 : CC_EN | CC_IOSQES | CC_IOCQES);
        } else {
                cmd->len = bytes_u16(&p->in) % DATA & ~3u;
                cmd->sqe.nsid = le32(is(p, BIT_ADMIN) && !(what & 0x40) ? 0 : 1);
                cmd->sqe.cdw12 = le32(cmd->len);
                cmd->sqe.cdw13 = le32(what >> 7);
        }
        cmd->xfer = cmd->sqe.opc == NVME_FABRICS && !is_connect(&cmd->sqe) ? XFER_NONE
                                                                           : sqe_xfer(&cmd->sqe);
        if (cmd->xfer == XFER_NONE)
                cmd->len = 0;
}

static void submit(struct pair *p)
{
        unsigned what = bytes_u8(&p->in), i = what % COMMANDS;
        struct host_cmd *cmd = &p->cmd[i];

        if (p->busy[i] || !tcp_host_ready(p->host))
                return;
        *cmd = (struct host_cmd) { .done = done, .user = p, .command_buffer = what & 0x20 };
        fill_in(p, cmd, bytes_u8(&p->in));
        cmd->data = is(p, BIT_NO_ROOM) && cmd->xfer == XFER_C2H ? NULL : data[i];
        p->busy[i] = true;
        p->busy[i] = tcp_host_submit(p->host, cmd) == 0;
        must(tcp_host_outstanding(p->host) <= DEPTH);
}

/* --- the wire ----------------------------------------------------------------------------------- */

static void check_pdu(struct pair *p, enum party who)
{
        const union pdu *h = framer_header(&p->ear[who]);
        struct fault fault = track_pdu(p->track, who, h, framer_ddgst_bad(&p->ear[who]));

        must(!p->lawful || !is_fault(fault));
        if (h->ch.type != PDU_ICRESP)
                return;
        for (enum party e = PARTY_HOST; e <= PARTY_CONTROLLER; e++)
                framer_negotiated(&p->ear[e], track_format(p->track, e));
}

static bool next_event(struct pair *p, enum party who)
{
        struct fault fault = { 0 };

        switch (framer_next(&p->ear[who])) {
        case FRAMER_HEADER:
                fault = track_header(p->track, who, framer_header(&p->ear[who]));
                must(!p->lawful || !is_fault(fault));
                return true;
        case FRAMER_PDU:
                check_pdu(p, who);
                return true;
        case FRAMER_FAULT:
                must(!p->lawful);
                p->deaf[who] = true;
                break;
        case FRAMER_MORE:
                break;
        }
        return false;
}

static void receive_bytes(struct pair *p, enum party who, const uint8_t *bytes, size_t n)
{
        for (size_t len; n > 0 && !p->deaf[who]; bytes += len, n -= len) {
                len = framer_feed(&p->ear[who], bytes, n);
                while (next_event(p, who))
                        ;
        }
}

static struct link *link_of(struct pair *p, enum party who)
{
        return who == PARTY_HOST ? tcp_host_link(p->host) : tcp_controller_link(p->c);
}

static void disturb(struct pair *p, uint8_t *bytes, size_t n)
{
        if (!p->noise)
                return;
        if (p->noise_at < n) {
                bytes[p->noise_at] ^= p->noise;
                p->noise = 0;
        } else {
                p->noise_at = (uint16_t)(p->noise_at - n);
        }
}

/* At most `most` bytes from this end to the other; how many. */
static size_t flow(struct pair *p, enum party from, size_t most)
{
        struct iovec out[4], in[2];
        int outs = link_send_iov(link_of(p, from), out, 4);
        int ins = link_recv_iov(link_of(p, peer_of(from)), in);
        size_t n = outs > 0 ? out[0].iov_len : 0;

        must(ins > 0);
        n = n < in[0].iov_len ? n : in[0].iov_len;
        n = n < most ? n : most;
        if (n == 0)
                return 0;
        memcpy(in[0].iov_base, out[0].iov_base, n);
        disturb(p, in[0].iov_base, n);
        receive_bytes(p, from, in[0].iov_base, n);
        link_sent(link_of(p, from), n);
        return n;
}

static size_t to_controller(struct pair *p, size_t most)
{
        size_t n = p->stalled ? 0 : flow(p, PARTY_HOST, most);

        p->stalled = tcp_controller_received(p->c, n, is(p, BIT_BUDGET) ? 1 : 0);
        return n;
}

static size_t to_host(struct pair *p, size_t most)
{
        size_t n = flow(p, PARTY_CONTROLLER, most);

        tcp_host_received(p->host, n);
        return n;
}

static size_t moves(struct pair *p, size_t most)
{
        size_t n = 0;

        for (size_t len; n < most && (len = to_controller(p, most - n)) > 0;)
                n += len;
        return n;
}

/* Until nothing moves any more. */
static void pump(struct pair *p)
{
        unsigned rounds = 0;

        do
                if (rounds++ == ROUNDS)
                        break;
        while (moves(p, SIZE_MAX) + to_host(p, SIZE_MAX) > 0 || (p->stalled && rounds < DEPTH * 4));
        must(rounds < ROUNDS);
}

/* --- steps -------------------------------------------------------------------------------------- */

static void ends(struct pair *p, unsigned how)
{
        enum party who = how & 1 ? PARTY_HOST : PARTY_CONTROLLER;
        struct link *l = link_of(p, who);

        p->lawful = false;
        if (how & 2)
                link_terminate(l, rule_fault(fuzz_rule((uint16_t)(how << 8))));
        else if (how & 4)
                link_close(l);
        else
                link_kill(l);
}

static void one_step(struct pair *p)
{
        unsigned what = bytes_u8(&p->in);

        switch ((enum step)(what % STEPS)) {
        case SUBMIT:
                submit(p);
                break;
        case TO_CONTROLLER:
                (void)moves(p, bytes_u16(&p->in));
                break;
        case TO_HOST:
                (void)to_host(p, bytes_u16(&p->in));
                break;
        case COMPLETE:
                complete(p, bytes_u8(&p->in), what / STEPS % 8);
                break;
        case ABORT:
                ends_early(p, bytes_u8(&p->in), what & 0x80);
                break;
        case PUMP:
                pump(p);
                break;
        case NOISE:
                p->noise_at = bytes_u16(&p->in);
                p->noise = bytes_u8(&p->in);
                p->lawful &= p->noise == 0;
                break;
        case END:
                ends(p, bytes_u8(&p->in));
                break;
        case BUFFERS:
                requests_buffers(tcp_requests(p->c));
                break;
        case STEPS:
                break;
        }
        if (is(p, BIT_TIDY))
                pump(p);
}

/* --- life --------------------------------------------------------------------------------------- */

static void read_policies(struct pair *p)
{
        unsigned n = bytes_u8(&p->in) % 5;

        p->lawful = n == 0 && !is(p, BIT_WAIVE_ALL);
        for (unsigned i = 0; i < n; i++) {
                enum rule_id rule = fuzz_rule(bytes_u16(&p->in));
                enum party who = bytes_u8(&p->in) & 1 ? PARTY_HOST : PARTY_CONTROLLER;

                rule_add(&p->policy[who].violated, rule);
                if (is(p, BIT_WAIVE_THEM))
                        rule_add(&p->policy[peer_of(who)].waived, rule);
        }
        if (is(p, BIT_WAIVE_ALL))
                p->policy[0].waived = p->policy[1].waived = *fuzz_all_rules();
}

static struct track_limits limits(const struct pair *p)
{
        return (struct track_limits) { .depth_max = is(p, BIT_DEFAULTS) ? 0 : 64,
                                       .r2ts_max = is(p, BIT_DEFAULTS)   ? 0
                                                   : is(p, BIT_FEW_R2TS) ? 2
                                                                         : 64 };
}

static bool begin_controller(struct pair *p, uint8_t cpda)
{
        static const struct request_ops ops = { .admit = admit,
                                                .execute = execute,
                                                .buffer_get = toy_buffer_get,
                                                .buffer_put = toy_buffer_put,
                                                .sqhd = toy_sqhd,
                                                .trace = trace };
        const struct tcp_controller_config cfg = {
                .cpda = cpda,
                .hdgst = !is(p, BIT_REFUSES),
                .ddgst = !is(p, BIT_REFUSES),
                .maxh2cdata = is(p, BIT_SHORT) ? 4096 : 131072,
                .io_in_capsule = is(p, BIT_NO_ICD)     ? 0
                                 : is(p, BIT_DEFAULTS) ? 1 << 20
                                                       : 8192,
                .max_transfer = 1 << 14,
                .c2h_max = is(p, BIT_SHORT) ? 1024 : 0,
                .r2t_max = is(p, BIT_SHORT) ? 1024 : 0,
                .r2t_window = is(p, BIT_WINDOW) ? 4 : 0,
                .limits = limits(p),
                .policy = &p->policy[PARTY_CONTROLLER],
        };

        p->c = tcp_controller_new(&cfg, &ops, p);
        return p->c != NULL;
}

static bool begin_host(struct pair *p, uint8_t hpda)
{
        const struct tcp_host_config cfg = {
                .hpda = hpda,
                .hdgst = is(p, BIT_HDGST),
                .ddgst = is(p, BIT_DDGST),
                .require_digests = is(p, BIT_REQUIRES),
                .maxr2t = is(p, BIT_DEFAULTS) ? 0
                          : is(p, BIT_WINDOW) ? 3
                                              : 1,
                .depth = DEPTH,
                .in_capsule = is(p, BIT_NO_ICD) ? 0 : 8192,
                .limits = limits(p),
                .policy = &p->policy[PARTY_HOST],
        };

        p->host = tcp_host_new(&cfg, p);
        return p->host != NULL;
}

static bool start_pair(struct pair *p)
{
        const struct track_limits passive = { .depth_max = 64, .findings = true, .passive = true };
        uint8_t hpda = bytes_u8(&p->in) % 32, cpda = bytes_u8(&p->in) % 32;

        read_policies(p);
        fuzz_scarce(bytes_u8(&p->in) % 32);
        p->track = track_new(&passive, NULL);
        if (!p->track || !begin_controller(p, cpda) || !begin_host(p, hpda))
                return false;
        for (enum party e = PARTY_HOST; e <= PARTY_CONTROLLER; e++) {
                framer_attach(&link_of(p, e)->rx, room[e], sizeof(room[e]));
                framer_init(&p->ear[e], e, NULL);
                framer_attach(&p->ear[e], room_ear[e], sizeof(room_ear[e]));
        }
        tcp_host_start(p->host);
        return true;
}

static void play(struct pair *p)
{
        while (p->in.left > 0)
                one_step(p);
        while (p->n_parked > 0)
                complete(p, 0, 0);
        if (p->lawful) {
                requests_buffers(tcp_requests(p->c));
                must(link_of(p, PARTY_HOST)->state != LINK_TERMINATING);
                must(link_of(p, PARTY_CONTROLLER)->state != LINK_TERMINATING);
        }
        must(requests_need_buffers(tcp_requests(p->c)) || is(p, BIT_HUNGRY) ||
             p->owner.buffers <= PARKED);
        (void)tcp_controller_waits(p->c);
        must(!tcp_host_digests_refused(p->host) || is(p, BIT_REQUIRES));
        tcp_host_set_in_capsule(p->host, 0);
}

static void end(struct pair *p)
{
        if (p->host) {
                tcp_host_fail_all(p->host, NVME_TRANSIENT_TRANSPORT);
                must(tcp_host_outstanding(p->host) == 0);
        }
        for (unsigned i = 0; i < COMMANDS; i++)
                must(!p->busy[i]);
        tcp_host_free(p->host);
        if (p->c) {
                link_kill(tcp_controller_link(p->c));
                while (p->n_parked > 0) /* what waits may begin when the link dies */
                        complete(p, 0, 0);
                must(requests_executing(tcp_requests(p->c)) == 0);
        }
        tcp_controller_free(p->c);
        must(p->owner.buffers == 0);
        if (p->track)
                track_free(p->track);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct pair p = { .in = bytes_of(input, size) };

        p.bits = bytes_u32(&p.in);
        p.owner.buffers_max = is(&p, BIT_HUNGRY) ? 1 : 0;
        if (start_pair(&p))
                play(&p);
        end(&p);
        fuzz_scarce(0);
        return 0;
}
