/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcap/replay_serve.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/time.h"
#include "pdu/io/net.h"
#include "pdu/machine/controller.h"
#include "pdu/machine/tcp_controller.h"

enum {
        CONNS = 256,
        BUFFER = 128 << 10, /* bytes, for receiving */
        IOVECS = 64,
        MAX_TRANSFER = 32 << 20,
        MAXH2CDATA = 1 << 20,
        TICK_MS = 200, /* how often `stop` is looked at */
};

struct conn {
        int fd;
        struct server *server;
        struct tcp_controller *tcp;
        struct link *link;
        struct sq sq;
        bool connected, over, more;
        uint16_t qid;
        unsigned assoc;         /* of the capture; 0: none */
        uint32_t cc;            /* admin queue */
        struct request *parked; /* AERs */
        uint8_t buf[BUFFER];
};

struct server {
        const struct plan *plan;
        const struct serve_options *o;
        const struct plan_cmd **cmds; /* oldest first */
        bool *used;
        size_t count;
        struct conn *conns[CONNS];
        unsigned n_conns;
        bool had_one;
        uint64_t idle_since;
        uint16_t port;
        char traddr[NET_TRADDR];
};

/* --- the captured answers --------------------------------------------------------------------- */

static bool is_fabrics(const union sqe *s, enum fctype type)
{
        return s->opc == NVME_FABRICS && s->fctype == type;
}

/* The same wish, whatever CID, SGL and controller; of a feature, whatever its value. */
static bool same_wish(const union sqe *a, const union sqe *b, bool admin)
{
        if (a->opc != b->opc)
                return false;
        if (admin && a->opc == NVME_SET_FEATURES)
                return memcmp(&a->cdw10, &b->cdw10, sizeof(a->cdw10)) == 0;
        if (a->opc != NVME_FABRICS)
                return memcmp(&a->nsid, &b->nsid, sizeof(a->nsid)) == 0 &&
                       memcmp(a->bytes + 40, b->bytes + 40, 24) == 0;
        if (a->fctype != b->fctype)
                return false;
        if (a->fctype == FCTYPE_CONNECT)
                return le16_get(a->connect.qid) == le16_get(b->connect.qid);
        return memcmp(a->bytes + 40, b->bytes + 40, 24) == 0;
}

static bool may_answer(const struct conn *c, const struct plan_cmd *p, const union sqe *s)
{
        return p->answered && p->queue->assoc == c->assoc && p->admin == (c->qid == 0) &&
               same_wish(&p->sqe, s, p->admin);
}

/* The first one that was not used yet; else the last that fits, *again set; NULL: none. */
static const struct plan_cmd *find_answer(struct conn *c, const union sqe *s, bool *again)
{
        struct server *sv = c->server;
        const struct plan_cmd *last = NULL;

        for (size_t i = 0; i < sv->count; i++) {
                if (!may_answer(c, sv->cmds[i], s))
                        continue;
                last = sv->cmds[i];
                if (sv->used[i])
                        continue;
                sv->used[i] = true;
                *again = false;
                return last;
        }
        *again = true;
        return last;
}

static const struct connect_data *connect_data(const struct plan_cmd *p)
{
        return p->data_len >= sizeof(struct connect_data) && !p->data_cut ? (const void *)p->data
                                                                          : NULL;
}

static bool is_discovery(const struct connect_data *d)
{
        return strncmp(d->subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
}

/* The next captured admin Connect to a controller of that kind; when all have been served, all are
 * free again. */
static size_t find_admin(struct server *sv, const struct connect_data *d)
{
        for (unsigned turn = 0; turn < 2; turn++) {
                for (size_t i = 0; i < sv->count; i++) {
                        const struct plan_cmd *p = sv->cmds[i];
                        const struct connect_data *was = connect_data(p);

                        if (is_fabrics(&p->sqe, FCTYPE_CONNECT) && p->queue->qid == 0 && was &&
                            p->answered && p->queue->assoc && !sv->used[i] &&
                            is_discovery(was) == is_discovery(d))
                                return i;
                }
                memset(sv->used, 0, sv->count);
        }
        return sv->count;
}

/* The association of the live admin queue that an I/O queue names: by CNTLID, newest first. */
static unsigned find_assoc(const struct conn *c, uint16_t cntlid)
{
        const struct server *sv = c->server;

        for (unsigned n = sv->n_conns; n-- > 0;)
                for (size_t i = 0; i < sv->count && sv->conns[n]->qid == 0; i++)
                        if (sv->conns[n]->connected && !sv->conns[n]->over &&
                            sv->cmds[i]->queue->assoc == sv->conns[n]->assoc &&
                            is_fabrics(&sv->cmds[i]->sqe, FCTYPE_CONNECT) &&
                            (uint16_t)le32_get(sv->cmds[i]->cqe.dw0) == cntlid)
                                return sv->conns[n]->assoc;
        return 0;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 5, 6)))
tell(const struct conn *c, const union sqe *s, const struct plan_cmd *p, enum likeness l,
     const char *fmt, ...)
{
        struct served served = { .sqe = s, .qid = c->qid, .cmd = p, .verdict = { .likeness = l } };
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(served.verdict.why, sizeof(served.verdict.why), fmt, ap);
        va_end(ap);
        c->server->o->served(c->server->o->user, &served);
}

/* --- commands --------------------------------------------------------------------------------- */

static void set_status(struct request *r, uint16_t status)
{
        r->cqe.sf = status_field(status);
}

static void refuse(struct conn *c, struct request *r, uint16_t status)
{
        set_status(r, status);
        tell(c, &r->sqe, NULL, DIFFERENT, "the capture does not have it: %s", status_name(status));
}

static uint64_t log_offset(const union sqe *s)
{
        return le32_get(s->cdw12) | (uint64_t)le32_get(s->cdw13) << 32;
}

/* A discovery log names the place where the capture is served. */
static void map_log(const struct conn *c, struct request *r)
{
        uint64_t offset = log_offset(&r->sqe);

        if (r->sqe.opc != NVME_GET_LOG_PAGE || (le32_get(r->sqe.cdw10) & 0xff) != LOG_DISCOVERY ||
            c->qid != 0)
                return;
        for (uint32_t at = 0; at + DISC_ENTRY_LEN <= r->c2h_len; at += DISC_ENTRY_LEN) {
                struct disc_entry *e = (void *)(r->data + at);
                char port[8];

                if (offset + at < DISC_HEADER_LEN || offset % DISC_ENTRY_LEN)
                        continue;
                snprintf(port, sizeof(port), "%u", c->server->port);
                e->trtype = TRTYPE_TCP;
                e->adrfam = strchr(c->server->traddr, ':') ? ADRFAM_IPV6 : ADRFAM_IPV4;
                memset(e->tsas, 0, sizeof(e->tsas));
                text_pad(e->trsvcid, sizeof(e->trsvcid), port);
                text_pad(e->traddr, sizeof(e->traddr), c->server->traddr);
        }
}

static void give(struct conn *c, struct request *r, const struct plan_cmd *p)
{
        r->cqe.result = p->cqe.result;
        set_status(r, cqe_status(&p->cqe) | (cqe_dnr(&p->cqe) ? STATUS_DNR : 0));
        if (sqe_xfer(&r->sqe) != XFER_C2H || !r->data)
                return;
        r->c2h_len = p->data_len < r->len ? p->data_len : r->len;
        if (p->data)
                memcpy(r->data, p->data, r->c2h_len);
        memset(r->data + r->c2h_len, 0, r->len - r->c2h_len);
        r->c2h_len = r->len;
        map_log(c, r);
}

/* Hosts read a log page in pieces of their own: the last captured piece that holds this one's
 * beginning. What lies behind its end is zero. */
static const struct plan_cmd *find_log(const struct conn *c, const union sqe *s)
{
        const struct server *sv = c->server;

        for (size_t i = sv->count; i-- > 0 && c->qid == 0 && s->opc == NVME_GET_LOG_PAGE;) {
                const struct plan_cmd *p = sv->cmds[i];
                uint64_t from = log_offset(&p->sqe), at = log_offset(s);

                if (p->answered && p->admin && p->queue->assoc == c->assoc && !p->data_cut &&
                    p->sqe.opc == NVME_GET_LOG_PAGE && cqe_status(&p->cqe) == NVME_SUCCESS &&
                    p->sqe.cdw10.b[0] == s->cdw10.b[0] && from <= at && at < from + p->data_len)
                        return p;
        }
        return NULL;
}

static bool answer_piece(struct conn *c, struct request *r)
{
        const struct plan_cmd *p = r->data ? find_log(c, &r->sqe) : NULL;
        uint32_t skip, n;

        if (!p)
                return false;
        skip = (uint32_t)(log_offset(&r->sqe) - log_offset(&p->sqe));
        n = p->data_len - skip < r->len ? p->data_len - skip : r->len;
        memcpy(r->data, p->data + skip, n);
        memset(r->data + n, 0, r->len - n);
        r->c2h_len = r->len;
        map_log(c, r);
        tell(c, &r->sqe, p, ALLOWED, "another piece of the log page than in the capture");
        return true;
}

static void answer(struct conn *c, struct request *r)
{
        bool again;
        const struct plan_cmd *p = find_answer(c, &r->sqe, &again);

        if (!p && answer_piece(c, r))
                return;
        if (!p) {
                refuse(c, r, c->qid ? NVME_INVALID_OPCODE : NVME_INVALID_FIELD);
                return;
        }
        if (p->data_cut && sqe_xfer(&r->sqe) == XFER_C2H && !cqe_status(&p->cqe)) {
                set_status(r, NVME_INTERNAL_ERROR);
                tell(c, &r->sqe, p, DIFFERENT, "the capture lacks some of its data");
                return;
        }
        give(c, r, p);
        if (again)
                tell(c, &r->sqe, p, ALLOWED, "once more than in the capture");
        else
                tell(c, &r->sqe, p, SAME, "%s", "");
}

/* --- Connect and properties ------------------------------------------------------------------- */

static bool join_admin(struct conn *c, const struct connect_data *d, const struct plan_cmd **p)
{
        struct server *sv = c->server;
        size_t i = find_admin(sv, d);

        if (i == sv->count)
                return false;
        sv->used[i] = true;
        *p = sv->cmds[i];
        c->assoc = (*p)->queue->assoc;
        return true;
}

static bool join_io(struct conn *c, const struct request *r, const struct connect_data *d,
                    const struct plan_cmd **p)
{
        bool again;

        c->assoc = find_assoc(c, le16_get(d->cntlid));
        *p = c->assoc ? find_answer(c, &r->sqe, &again) : NULL;
        return *p;
}

static void connect_queue(struct conn *c, struct request *r)
{
        const struct connect_data *d = (const void *)r->data;
        const struct plan_cmd *p = NULL;
        bool no_sqfc = r->sqe.connect.cattr & CATTR_DISABLE_SQFC;
        unsigned entries = le16_get(r->sqe.connect.sqsize) + 1u;

        c->qid = le16_get(r->sqe.connect.qid);
        if (r->len < sizeof(*d) || c->connected || entries < 2) {
                refuse(c, r, c->connected ? NVME_SEQUENCE_ERROR : NVME_CONNECT_PARAM);
                return;
        }
        if (!(c->qid == 0 ? join_admin(c, d, &p) : join_io(c, r, d, &p))) {
                refuse(c, r, NVME_CONNECT_PARAM);
                return;
        }
        r->cqe.result = p->cqe.result;
        set_status(r, cqe_status(&p->cqe));
        tell(c, &r->sqe, p, SAME, "%s", "");
        if (cqe_status(&p->cqe))
                return;
        c->connected = true;
        sq_init(&c->sq, entries, no_sqfc);
        c->over |= tcp_controller_set_depth(c->tcp, entries) < 0;
}

static uint32_t csts(const struct conn *c)
{
        return (c->cc & CC_EN ? CSTS_RDY : 0) | (CC_SHN(c->cc) ? CSTS_SHST_COMPLETE : 0);
}

/* CC and CSTS, which follow the live host; false: another property. */
static bool live_property(struct conn *c, struct request *r)
{
        uint32_t ofst = le32_get(r->sqe.property.ofst);
        bool set = r->sqe.fctype == FCTYPE_PROPERTY_SET;

        if (ofst != PROP_CC && (set || ofst != PROP_CSTS))
                return false;
        if (set)
                c->cc = (uint32_t)le64_get(r->sqe.property.value);
        else
                r->cqe.result = le64(ofst == PROP_CC ? c->cc : csts(c));
        tell(c, &r->sqe, NULL, ALLOWED, "CC and CSTS follow the live host");
        return true;
}

static bool by_intent(struct conn *c, struct request *r)
{
        const union sqe *s = &r->sqe;

        if (is_fabrics(s, FCTYPE_PROPERTY_SET) || is_fabrics(s, FCTYPE_PROPERTY_GET))
                return live_property(c, r);
        if (c->qid != 0 || s->opc != NVME_KEEP_ALIVE)
                return false;
        tell(c, s, NULL, ALLOWED, "Keep Alive is answered as it comes");
        return true;
}

/* --- what the machine asks for ---------------------------------------------------------------- */

static uint16_t admit(void *user, struct request *r)
{
        struct conn *c = user;

        sq_take(&c->sq);
        if (!c->connected && !is_fabrics(&r->sqe, FCTYPE_CONNECT))
                return NVME_SEQUENCE_ERROR;
        r->xfer = sqe_xfer(&r->sqe);
        r->len = r->xfer == XFER_NONE ? 0 : sgl_len(&r->sqe.sgl);
        if (r->xfer == XFER_BOTH || r->len > MAX_TRANSFER)
                return NVME_INVALID_FIELD;
        if (r->len == 0)
                r->xfer = XFER_NONE;
        return NVME_SUCCESS;
}

static void execute(void *user, struct request *r)
{
        struct conn *c = user;

        if (c->qid == 0 && c->connected && r->sqe.opc == NVME_AER) {
                r->next = c->parked;
                c->parked = r;
                tell(c, &r->sqe, NULL, ALLOWED, "no event comes");
                return;
        }
        if (is_fabrics(&r->sqe, FCTYPE_CONNECT))
                connect_queue(c, r);
        else if (!by_intent(c, r))
                answer(c, r);
        tcp_controller_complete(c->tcp, r);
}

static void completing(void *user, struct request *r)
{
        struct conn *c = user;
        bool connect = is_fabrics(&r->sqe, FCTYPE_CONNECT);

        r->cqe.sqhd =
            connect && c->sq.no_flow_control ? le16(SQHD_DISABLED) : le16(sq_head(&c->sq));
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        (void)user;
        (void)lkey;
        return calloc(1, len);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)user;
        (void)len;
        free(buf);
}

/* --- connections ------------------------------------------------------------------------------ */

/* In-capsule data as the captured Identify Controller promises it. */
static uint32_t in_capsule(const struct server *sv)
{
        uint64_t least = FRAMER_IN_PLACE;

        for (size_t i = 0; i < sv->count; i++) {
                const struct plan_cmd *p = sv->cmds[i];
                const struct id_ctrl *id = (const void *)p->data;
                uint64_t bytes;

                if (!p->admin || p->sqe.opc != NVME_IDENTIFY || p->data_len < sizeof(*id) ||
                    (le32_get(p->sqe.cdw10) & 0xff) != CNS_CTRL || le32_get(id->ioccsz) < 4)
                        continue;
                bytes = (le32_get(id->ioccsz) - 4ull) * 16;
                if (bytes < least)
                        least = bytes;
        }
        return (uint32_t)least;
}

static struct conn *conn_new(struct server *sv, int fd)
{
        struct request_ops ops = { .admit = admit,
                                   .execute = execute,
                                   .buffer_get = buffer_get,
                                   .buffer_put = buffer_put,
                                   .completing = completing };
        struct tcp_controller_config cfg = { .hdgst = true,
                                             .ddgst = true,
                                             .maxh2cdata = MAXH2CDATA,
                                             .io_in_capsule = in_capsule(sv),
                                             .max_transfer = MAX_TRANSFER,
                                             .r2t_window = 1 };
        struct conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->fd = fd;
        c->server = sv;
        c->tcp = tcp_controller_new(&cfg, &ops, c);
        if (!c->tcp) {
                free(c);
                return NULL;
        }
        c->link = tcp_controller_link(c->tcp);
        framer_attach(&c->link->rx, c->buf, BUFFER);
        return c;
}

static void conn_free(struct conn *c)
{
        link_kill(c->link);
        while (c->parked) {
                struct request *r = c->parked;

                c->parked = r->next;
                r->no_response = true;
                tcp_controller_complete(c->tcp, r);
        }
        tcp_controller_free(c->tcp);
        close(c->fd);
        free(c);
}

static void push(struct conn *c)
{
        struct iovec iov[IOVECS];
        struct msghdr msg = { .msg_iov = iov };

        while ((msg.msg_iovlen = (size_t)link_send_iov(c->link, iov, IOVECS)) > 0) {
                ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);

                if (n < 0) {
                        c->over |= errno != EAGAIN && errno != EINTR;
                        return;
                }
                link_sent(c->link, (size_t)n);
        }
}

static void serve(struct conn *c)
{
        struct iovec iov[2];
        struct msghdr msg = { .msg_iov = iov };
        ssize_t n;

        if (c->more) {
                c->more = tcp_controller_received(c->tcp, 0, 0);
        } else {
                msg.msg_iovlen = (size_t)link_recv_iov(c->link, iov);
                n = recvmsg(c->fd, &msg, 0);
                if (n > 0)
                        c->more = tcp_controller_received(c->tcp, (size_t)n, 0);
                else
                        c->over |= n == 0 || (errno != EAGAIN && errno != EINTR);
        }
        push(c);
        c->over |= c->link->state >= LINK_CLOSING && !link_wants_send(c->link);
}

/* --- the server ------------------------------------------------------------------------------- */

static void take_conn(struct server *sv, int listener)
{
        int fd = net_accept(listener);
        struct conn *c = fd >= 0 && sv->n_conns < CONNS ? conn_new(sv, fd) : NULL;

        if (!c) {
                if (fd >= 0)
                        close(fd);
                return;
        }
        net_local_addr(fd, sv->traddr);
        sv->conns[sv->n_conns++] = c;
        sv->had_one = true;
}

static void drop_closed(struct server *sv)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                if (sv->conns[i]->over)
                        conn_free(sv->conns[i]);
                else
                        sv->conns[kept++] = sv->conns[i];
        }
        sv->n_conns = kept;
        if (kept > 0)
                sv->idle_since = host_now();
}

static bool is_over(const struct server *sv)
{
        if (sv->o->stop && *sv->o->stop)
                return true;
        return sv->o->idle && sv->had_one && sv->n_conns == 0 &&
               host_now() - sv->idle_since >= (uint64_t)sv->o->idle * 1000000;
}

static void turn(struct server *sv, int listener)
{
        struct pollfd fds[CONNS + 1] = { { .fd = listener, .events = POLLIN } };
        unsigned n = sv->n_conns;
        int ms = TICK_MS;

        for (unsigned i = 0; i < n; i++)
                ms = sv->conns[i]->more ? 0 : ms;
        for (unsigned i = 0; i < n; i++)
                fds[i + 1] = (struct pollfd) {
                        .fd = sv->conns[i]->fd,
                        .events = link_wants_send(sv->conns[i]->link) ? POLLIN | POLLOUT : POLLIN,
                };
        if (poll(fds, n + 1, ms) < 0)
                return;
        for (unsigned i = 0; i < n; i++)
                if (fds[i + 1].revents || sv->conns[i]->more)
                        serve(sv->conns[i]);
        if (fds[0].revents)
                take_conn(sv, listener);
}

static bool sort_out(struct server *sv)
{
        for (const struct plan_cmd *p = sv->plan->cmds; p; p = p->next)
                sv->count++;
        sv->cmds = calloc(sv->count + 1, sizeof(*sv->cmds));
        sv->used = calloc(sv->count + 1, sizeof(*sv->used));
        if (!sv->cmds || !sv->used)
                return false;
        for (const struct plan_cmd *p = sv->plan->cmds; p; p = p->next)
                sv->cmds[--sv->count] = p;
        for (const struct plan_cmd *p = sv->plan->cmds; p; p = p->next)
                sv->count++;
        return true;
}

int replay_serve(const struct plan *plan, const struct serve_options *o, char *err, size_t err_size)
{
        struct server sv = { .plan = plan, .o = o };
        int listener = net_listen(o->traddr, o->trsvcid, err, err_size);

        if (listener < 0)
                return -1;
        if (!sort_out(&sv)) {
                snprintf(err, err_size, "out of memory");
                close(listener);
                free(sv.cmds);
                free(sv.used);
                return -1;
        }
        sv.port = net_local_port(listener);
        o->listening(o->user, sv.port);
        while (!is_over(&sv)) {
                turn(&sv, listener);
                drop_closed(&sv);
        }
        for (unsigned i = 0; i < sv.n_conns; i++)
                conn_free(sv.conns[i]);
        close(listener);
        free(sv.cmds);
        free(sv.used);
        return 0;
}
