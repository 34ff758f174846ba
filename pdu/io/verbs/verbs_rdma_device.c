/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices as contexts use them. librdmacm opens a device once for the process, so all contexts
 * share its asynchronous events: the thread that happens to read one leaves it as a note with
 * whom it concerns.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "pdu/core/bytes.h"
#include "verbs_rdma_parts.h"

enum {
        FIRST_CQES = 256,
        SPACER_CQES = 32768, /* of 32 bytes: more than 90000h bytes */
        FIXED_CQES = 8192,   /* of a CQ that can't be resized */
        MOST_READS = 254,    /* 255 means something else to librdmacm */
        SIW_VENDOR = 0x626d74,
        RXE_VENDOR = 0xffffff,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the devices and their lists */
static struct device *devices;

/* --- devices ---------------------------------------------------------------------------------- */

static struct device *find_device(struct ibv_context *verbs)
{
        struct device *device = devices;

        while (device && device->verbs != verbs)
                device = device->next;
        return device;
}

static struct device *new_device(struct ibv_context *verbs)
{
        struct device *device = calloc(1, sizeof(*device));

        if (!device)
                return NULL;
        fcntl(verbs->async_fd, F_SETFL, O_NONBLOCK);
        *device = (struct device) { .next = devices, .verbs = verbs };
        devices = device;
        return device;
}

/*
 * siw maps its queues at offsets that it gives out one after the other, and its library takes one of
 * them (SIW_INVAL_UOBJ_KEY, 90000h) for none: whichever queue comes there can't be made. So it is
 * given to the middle of a completion queue that nobody uses.
 */
static void keep_off(struct device *device)
{
        if (!device->spacer)
                device->spacer = ibv_create_cq(device->verbs, SPACER_CQES, NULL, NULL, 0);
}

/* Makes the domain one of its device, and its context listen to it; -1 with errno. */
static int join_device(struct verbs_domain *d, struct ibv_context *verbs)
{
        struct device *device;
        int rc = -1;

        pthread_mutex_lock(&lock);
        device = find_device(verbs);
        if (!device)
                device = new_device(verbs);
        if (device) {
                if (d->flushing == FLUSH_NEVER)
                        keep_off(device);
                d->device = device;
                d->other_context = device->domains;
                device->domains = d;
                rc = vrdma_watch(d->context->events, verbs->async_fd, device);
        }
        pthread_mutex_unlock(&lock);
        return rc;
}

static void free_device(struct device *device)
{
        struct device **p = &devices;

        while (*p != device)
                p = &(*p)->next;
        *p = device->next;
        if (device->spacer)
                ibv_destroy_cq(device->spacer);
        free(device);
}

static void leave_device(struct verbs_domain *d)
{
        struct verbs_domain **p;

        pthread_mutex_lock(&lock);
        epoll_ctl(d->context->events, EPOLL_CTL_DEL, d->device->verbs->async_fd, NULL);
        for (p = &d->device->domains; *p != d; p = &(*p)->other_context)
                ;
        *p = d->other_context;
        if (!d->device->domains)
                free_device(d->device);
        d->device = NULL;
        pthread_mutex_unlock(&lock);
}

/* --- asynchronous events ---------------------------------------------------------------------- */

static void note_domains(struct device *device, unsigned bits)
{
        for (struct verbs_domain *d = device->domains; d; d = d->other_context)
                vrdma_note(d->context, &d->note, bits);
}

static void note_ep(struct ibv_async_event *e, unsigned bits)
{
        struct verbs_ep *ep = e->element.qp->qp_context;

        if (ep) /* else one of our own, made to see what the device can do */
                vrdma_note(ep->context, &ep->note, bits);
}

/* The first capsule overtook the peer's RTU: tells the connection manager that it is established. */
static void first_capsule(struct ibv_async_event *e)
{
        struct verbs_ep *ep = e->element.qp->qp_context;

        if (ep)
                rdma_notify(ep->id, e->event_type);
}

static void note_async(struct device *device, struct ibv_async_event *e)
{
        static const struct {
                enum ibv_event_type type;
                unsigned bits;
        } of_qp[] = {
                { IBV_EVENT_QP_FATAL, NOTE_QP_ERROR },
                { IBV_EVENT_QP_REQ_ERR, NOTE_QP_ERROR },
                { IBV_EVENT_QP_ACCESS_ERR, NOTE_QP_ERROR },
                { IBV_EVENT_PATH_MIG_ERR, NOTE_QP_ERROR },
                { IBV_EVENT_QP_LAST_WQE_REACHED, NOTE_LAST_WQE },
        }, of_device[] = {
                { IBV_EVENT_DEVICE_FATAL, NOTE_REMOVED },
                { IBV_EVENT_PORT_ERR, NOTE_PORT_DOWN },
                { IBV_EVENT_PORT_ACTIVE, NOTE_PORT_UP },
        };
        struct verbs_domain *d;

        for (size_t i = 0; i < sizeof(of_qp) / sizeof(of_qp[0]); i++)
                if (e->event_type == of_qp[i].type)
                        note_ep(e, of_qp[i].bits);
        for (size_t i = 0; i < sizeof(of_device) / sizeof(of_device[0]); i++)
                if (e->event_type == of_device[i].type)
                        note_domains(device, of_device[i].bits);
        if (e->event_type == IBV_EVENT_COMM_EST)
                first_capsule(e);
        d = e->event_type == IBV_EVENT_CQ_ERR    ? e->element.cq->cq_context
            : e->event_type == IBV_EVENT_SRQ_ERR ? e->element.srq->srq_context
                                                 : NULL;
        if (d)
                vrdma_note(d->context, &d->note, NOTE_CQ_ERROR);
}

/* The descriptor gives nothing but errors from now on: the device is gone. */
static void end_async(struct device *device)
{
        for (struct verbs_domain *d = device->domains; d; d = d->other_context)
                epoll_ctl(d->context->events, EPOLL_CTL_DEL, device->verbs->async_fd, NULL);
        note_domains(device, NOTE_REMOVED);
}

/* A queue pair or CQ isn't destroyed while an event of it is not acknowledged, and the notes' objects
 * outlive those: what the event points to is there. */
void vrdma_read_async(struct device *device)
{
        struct ibv_async_event e;

        errno = 0;
        while (ibv_get_async_event(device->verbs, &e) == 0) {
                pthread_mutex_lock(&lock);
                note_async(device, &e);
                pthread_mutex_unlock(&lock);
                ibv_ack_async_event(&e);
        }
        if (errno == EIO) {
                pthread_mutex_lock(&lock);
                end_async(device);
                pthread_mutex_unlock(&lock);
        }
}

/* --- what a device can do --------------------------------------------------------------------- */

static uint32_t count(int n)
{
        return n > 0 ? (uint32_t)n : 0;
}

/*
 * What differs, found with Linux 6.12 and rdma-core 44.
 * rxe: says IP_CSUM_OK where it means WITH_INV (the kernel's value of the flag). Looks at a RECV on a
 * failed queue pair only when told again to fail. The last-WQE event comes, in older kernels not. Must
 * not speak while its link is down, see is_mute().
 * siw: invalidates plain registrations by SEND, but doesn't say so to user space; whose key it was
 * can't be known, so it counts as unable. Looks at nothing that is posted to a failed queue pair.
 * Refuses SEND with invalidate inline, which nobody expects: so it counts as unable of inline at all.
 */
static void find_quirks(struct verbs_domain *d, uint32_t vendor)
{
        d->invalidated_flag = IBV_WC_WITH_INV;
        d->flushing = FLUSH_ALWAYS;
        if (vendor == RXE_VENDOR) {
                d->caps.no_last_wqe = true;
                d->invalidated_flag |= IBV_WC_IP_CSUM_OK;
                d->flushing = FLUSH_KICKED;
                d->mute_down = true;
        }
        if (vendor == SIW_VENDOR) {
                d->flushing = FLUSH_NEVER;
                d->no_inline = true;
        }
}

static int query_caps(struct verbs_domain *d, struct ibv_context *verbs)
{
        struct ibv_device_attr a;
        struct verbs_caps *caps = &d->caps;
        int rc = ibv_query_device(verbs, &a);

        if (rc != 0) {
                errno = rc;
                return -1;
        }
        caps->sges = least(count(a.max_sge), VERBS_SGES);
        caps->qp_wrs = count(a.max_qp_wr);
        if (a.max_srq > 0)
                caps->srq_wrs = count(a.max_srq_wr);
        caps->cqes = count(a.max_cqe);
        caps->reads_in = (uint8_t)least(count(a.max_qp_rd_atom), MOST_READS);
        caps->reads_out = (uint8_t)least(count(a.max_qp_init_rd_atom), MOST_READS);
        caps->windows =
            a.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
        caps->iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
        caps->no_last_wqe = caps->iwarp;
        find_quirks(d, a.vendor_id);
        strncpy(caps->name, ibv_get_device_name(verbs->device), sizeof(caps->name) - 1);
        return 0;
}

/* Whether a queue pair with that much inline data can be; then what the device makes of it. */
static bool try_inline(struct verbs_domain *d, uint32_t bytes)
{
        struct ibv_qp_init_attr attr = {
                .send_cq = d->cq,
                .recv_cq = d->cq,
                .cap = { .max_send_wr = 1,
                         .max_recv_wr = 1,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline_data = bytes },
                .qp_type = IBV_QPT_RC,
        };
        struct ibv_qp *qp = ibv_create_qp(d->pd, &attr);

        if (!qp)
                return false;
        d->caps.inline_bytes = attr.cap.max_inline_data;
        ibv_destroy_qp(qp);
        return true;
}

/* No attribute tells how much goes inline. */
static void find_inline(struct verbs_domain *d)
{
        static const uint32_t sizes[] = { 1024, 512, 256, 128, 96, 80, 64, 48, 32, 16, 0 };

        for (size_t i = 0; !d->no_inline && i < sizeof(sizes) / sizeof(sizes[0]); i++)
                if (try_inline(d, sizes[i]))
                        return;
}

/* --- completion queues ------------------------------------------------------------------------ */

static int make_cq(struct verbs_domain *d, uint32_t cqes)
{
        d->cq = ibv_create_cq(d->device->verbs, (int)cqes, d, d->channel, 0);
        return d->cq ? 0 : -1;
}

/* A small queue that grows, or where that is not possible (siw) one that is large from the start. */
static int make_growing_cq(struct verbs_domain *d)
{
        uint32_t first = least(FIRST_CQES, d->caps.cqes / 2);

        if (make_cq(d, first) < 0)
                return -1;
        d->resizes = ibv_resize_cq(d->cq, (int)first + 1) == 0;
        if (d->resizes)
                return 0;
        ibv_destroy_cq(d->cq);
        if (make_cq(d, least(FIXED_CQES, d->caps.cqes)) < 0)
                return -1;
        d->caps.cqes = count(d->cq->cqe);
        return 0;
}

int vrdma_grow_cq(struct verbs_domain *d, uint32_t cqes)
{
        if (cqes <= count(d->cq ? d->cq->cqe : 0))
                return 0;
        if (!d->cq || !d->resizes || cqes > d->caps.cqes) {
                errno = d->cq ? ENOSPC : ENODEV;
                return -1;
        }
        errno = ibv_resize_cq(d->cq, (int)cqes);
        return errno == 0 ? 0 : -1;
}

/* --- domains ---------------------------------------------------------------------------------- */

/* The interface that has this address of a link; 0: none, or it can't be known. */
static uint32_t scope_of(const struct in6_addr *address)
{
        struct ifaddrs *list, *i;
        uint32_t scope = 0;

        if (getifaddrs(&list) < 0)
                return 0;
        for (i = list; i && scope == 0; i = i->ifa_next) {
                const struct sockaddr_in6 *sa = (const void *)i->ifa_addr;

                if (sa && sa->sin6_family == AF_INET6 &&
                    IN6_ARE_ADDR_EQUAL(&sa->sin6_addr, address))
                        scope = sa->sin6_scope_id;
        }
        freeifaddrs(list);
        return scope;
}

/* Of an id that came with a request (InfiniBand, RoCE) a link-local address has lost its scope,
 * without which nothing can be bound to it. */
static void free_port_of(struct sockaddr_in6 *sa)
{
        sa->sin6_port = 0;
        if (IN6_IS_ADDR_LINKLOCAL(&sa->sin6_addr) && sa->sin6_scope_id == 0)
                sa->sin6_scope_id = scope_of(&sa->sin6_addr);
}

/* An id that is bound to the device: without any, librdmacm may close a device that was removed. */
static int make_guard(struct verbs_domain *d, struct rdma_cm_id *like)
{
        struct sockaddr_storage sa = like->route.addr.src_storage;

        if (sa.ss_family == AF_INET6)
                free_port_of((struct sockaddr_in6 *)&sa);
        else
                ((struct sockaddr_in *)&sa)->sin_port = 0;
        if (rdma_create_id(d->context->channel, &d->guard, d, RDMA_PS_TCP) < 0)
                return -1;
        return rdma_bind_addr(d->guard, (struct sockaddr *)&sa);
}

static int make_parts(struct verbs_domain *d, struct rdma_cm_id *id)
{
        if (query_caps(d, id->verbs) < 0 || join_device(d, id->verbs) < 0 || make_guard(d, id) < 0)
                return -1;
        d->pd = ibv_alloc_pd(id->verbs);
        d->channel = d->pd ? ibv_create_comp_channel(id->verbs) : NULL;
        if (!d->channel)
                return -1;
        fcntl(d->channel->fd, F_SETFL, O_NONBLOCK);
        if (vrdma_watch(d->context->completions, d->channel->fd, d) < 0 || make_growing_cq(d) < 0)
                return -1;
        find_inline(d);
        return 0;
}

static void void_registrations(struct verbs_domain *d)
{
        struct registration *r;

        for (r = d->registrations; r; r = r->next) /* first: memory with a window stays */
                if (r->mw)
                        ibv_dealloc_mw(r->mw);
        for (r = d->registrations; r; r = r->next)
                if (r->mr)
                        ibv_dereg_mr(r->mr);
        for (r = d->registrations; r; r = r->next) {
                r->mr = NULL;
                r->mw = NULL;
        }
}

/* librdmacm closes a device that is gone when it looks for devices again; until then the removal of
 * a soft one waits for this process. */
static void close_lost_devices(void)
{
        struct ibv_context **list = rdma_get_devices(NULL);

        if (list)
                rdma_free_devices(list);
}

/* Gives back all that the device has of it; no queue pair is left. What the owner still holds of it
 * can be used to give it up, and else fails. */
static void release(struct verbs_domain *d)
{
        if (!d->device)
                return;
        void_registrations(d);
        if (d->srq)
                ibv_destroy_srq(d->srq);
        if (d->cq) {
                vrdma_take_cq_events(d);
                ibv_ack_cq_events(d->cq, d->unacked);
                ibv_destroy_cq(d->cq);
        }
        if (d->channel)
                ibv_destroy_comp_channel(d->channel);
        if (d->pd)
                ibv_dealloc_pd(d->pd);
        leave_device(d);
        if (d->guard)
                rdma_destroy_id(d->guard);
        if (d->removed)
                close_lost_devices();
        d->srq = NULL;
        d->cq = NULL;
        d->channel = NULL;
        d->pd = NULL;
        d->guard = NULL;
        d->unacked = 0;
}

static void free_parts(struct verbs_domain *d)
{
        struct registration *r;
        int saved = errno;

        release(d);
        vrdma_drop_note(d->context, &d->note);
        while ((r = d->registrations)) {
                d->registrations = r->next;
                free(r);
        }
        free(d->stash);
        free(d);
        errno = saved;
}

void vrdma_domain_free(struct verbs_domain *d)
{
        struct verbs_domain **p = &d->context->domains;

        while (*p != d)
                p = &(*p)->next;
        *p = d->next;
        free_parts(d);
}

/* Before there is one more: those of devices that were removed. */
static void free_given_up(struct verbs_context *c)
{
        struct verbs_domain *d, *next;

        for (d = c->domains; d; d = next) {
                next = d->next;
                if (d->given_up && !d->registrations)
                        vrdma_domain_free(d);
        }
}

static struct verbs_domain *make_domain(struct verbs_context *c, struct rdma_cm_id *id)
{
        struct verbs_domain *d = calloc(1, sizeof(*d));

        free_given_up(c);
        if (!d)
                return NULL;
        d->owner = (struct cm_owner) { c->ops, CM_GUARD };
        d->context = c;
        d->note.domain = d;
        if (make_parts(d, id) < 0) {
                free_parts(d);
                return NULL;
        }
        d->next = c->domains;
        c->domains = d;
        return d;
}

static struct verbs_domain *find_domain(struct verbs_context *c, struct ibv_context *verbs)
{
        struct verbs_domain *d = c->domains;

        while (d && (d->removed || !d->device || d->device->verbs != verbs))
                d = d->next;
        return d;
}

static void enter(struct verbs_domain *d, struct verbs_ep *ep)
{
        ep->domain = d;
        ep->next = d->eps;
        ep->link = &d->eps;
        if (ep->next)
                ep->next->link = &ep->next;
        d->eps = ep;
}

struct verbs_domain *vrdma_domain(struct verbs_ep *ep)
{
        struct verbs_domain *d;

        if (ep->domain)
                return ep->domain;
        if (!ep->id->verbs || ep->removed) {
                errno = ENODEV;
                return NULL;
        }
        d = find_domain(ep->context, ep->id->verbs);
        if (!d)
                d = make_domain(ep->context, ep->id);
        if (d)
                enter(d, ep);
        return d;
}

void vrdma_domain_leave(struct verbs_ep *ep)
{
        struct verbs_domain *d = ep->domain;

        if (!d)
                return;
        *ep->link = ep->next;
        if (ep->next)
                ep->next->link = ep->link;
        ep->domain = NULL;
        if (d->removed && !d->eps)
                release(d);
}

void vrdma_domain_removed(struct verbs_domain *d)
{
        d->removed = true;
        vrdma_destroy_held();
        if (!d->eps)
                release(d);
}

const struct verbs_caps *vrdma_domain_caps(const struct verbs_domain *d)
{
        return &d->caps;
}

int vrdma_make_srq(struct verbs_domain *d, uint32_t wrs)
{
        struct ibv_srq_init_attr attr = { .srq_context = d,
                                          .attr = { .max_wr = wrs, .max_sge = d->caps.sges } };

        if (!d->pd || d->srq || d->caps.srq_wrs == 0) {
                errno = d->srq ? EEXIST : d->pd ? EOPNOTSUPP : ENODEV;
                return -1;
        }
        d->srq = ibv_create_srq(d->pd, &attr);
        return d->srq ? 0 : -1;
}

/* --- registrations ---------------------------------------------------------------------------- */

static struct registration *registration_new(struct verbs_domain *d)
{
        struct registration *r = d->pd ? calloc(1, sizeof(*r)) : NULL;

        if (!d->pd)
                errno = ENODEV;
        return r;
}

static void *keep(struct verbs_domain *d, struct registration *r)
{
        r->next = d->registrations;
        r->link = &d->registrations;
        if (r->next)
                r->next->link = &r->next;
        d->registrations = r;
        return r;
}

static void remove_registration(struct registration *r)
{
        *r->link = r->next;
        if (r->next)
                r->next->link = r->link;
        free(r);
}

/* What an iWARP READ fills is addressed like the sink of a WRITE, by a key that permits one. Memory
 * that the peer shall only read stays so. */
static unsigned access_of(const struct verbs_domain *d, unsigned access)
{
        unsigned flags = IBV_ACCESS_LOCAL_WRITE;

        if (access & VERBS_REMOTE_READ)
                flags |= IBV_ACCESS_REMOTE_READ;
        if (access & VERBS_REMOTE_WRITE)
                flags |= IBV_ACCESS_REMOTE_WRITE;
        if (access & VERBS_WINDOWS)
                flags |= IBV_ACCESS_MW_BIND;
        if (d->caps.iwarp && access == 0)
                flags |= IBV_ACCESS_REMOTE_WRITE;
        return flags;
}

int vrdma_reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr)
{
        struct registration *r = registration_new(d);

        if (!r)
                return -1;
        r->mr = ibv_reg_mr(d->pd, addr, len, access_of(d, access));
        if (!r->mr) {
                free(r);
                return -1;
        }
        *mr = (struct verbs_mr) { .addr = addr,
                                  .len = len,
                                  .lkey = r->mr->lkey,
                                  .rkey = r->mr->rkey,
                                  .own = keep(d, r) };
        return 0;
}

void vrdma_dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        struct registration *r = mr->own;

        (void)d;
        if (r->mr)
                ibv_dereg_mr(r->mr);
        remove_registration(r);
        mr->own = NULL;
}

int vrdma_make_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct registration *r = registration_new(d);

        if (!r)
                return -1;
        r->mw = ibv_alloc_mw(d->pd, IBV_MW_TYPE_2);
        if (!r->mw) {
                free(r);
                return -1;
        }
        w->rkey = ibv_inc_rkey(r->mw->rkey); /* a device refuses to bind the key that it has */
        w->own = keep(d, r);
        return 0;
}

void vrdma_drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct registration *r = w->own;

        (void)d;
        if (r->mw)
                ibv_dealloc_mw(r->mw);
        remove_registration(r);
        w->own = NULL;
}
