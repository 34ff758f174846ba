/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvm.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"

enum {
        DSM_RANGES_MASK = 0xff,  /* cdw10: number of ranges, 0's based */
        DSM_DEALLOCATE = 1 << 2, /* cdw11 */
};

/* r->user of a fused command whose other half has failed. */
static struct request doomed;

static uint64_t slba(const struct request *r)
{
        return le32_get(r->sqe.cdw10) | (uint64_t)le32_get(r->sqe.cdw11) << 32;
}

static uint32_t nlb(const struct request *r)
{
        return (le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1;
}

static bool cdw12_bit(const struct request *r, uint32_t bit)
{
        return (le32_get(r->sqe.cdw12) & bit) != 0;
}

static unsigned fuse(const struct request *r)
{
        return r->sqe.flags & SQE_FUSE_MASK;
}

/* With the check of NSID waived the first namespace stands in for all that are not there. */
static struct ns *find_ns(const struct nvm_queue *q, const struct subsystem *s,
                          const struct request *r)
{
        struct ns *ns = ns_find(s, le32_get(r->sqe.nsid));

        if (!ns && q->policy && rule_in(&q->policy->waived, FAB_NSID))
                ns = atomic_load(&s->ns);
        return ns;
}

/* --- the commands ----------------------------------------------------------------------------- */

/* Read, Write, Compare and those like them but without data. */
static uint16_t admit_blocks(const struct ns *ns, struct request *r)
{
        return ns_has(ns, slba(r), nlb(r)) ? NVME_SUCCESS : NVME_LBA_RANGE;
}

static uint16_t admit_data(const struct ns *ns, struct request *r)
{
        r->xfer = sqe_xfer(&r->sqe);
        r->len = nlb(r) << ns->lbads;
        return admit_blocks(ns, r);
}

static uint16_t admit_ranges(const struct ns *ns, struct request *r)
{
        (void)ns;
        r->xfer = XFER_H2C;
        r->len =
            ((le32_get(r->sqe.cdw10) & DSM_RANGES_MASK) + 1) * (uint32_t)sizeof(struct dsm_range);
        return NVME_SUCCESS;
}

/* Whether the blocks still make up the data that was admitted: another namespace may be here now.
 */
static bool same_length(const struct ns *ns, const struct request *r)
{
        return r->len == nlb(r) << ns->lbads;
}

static uint16_t run_read(struct ns *ns, struct request *r)
{
        return same_length(ns, r) ? ns_read(ns, slba(r), nlb(r), r->data) : NVME_INVALID_NS;
}

static uint16_t run_write(struct ns *ns, struct request *r)
{
        return same_length(ns, r) ? ns_write(ns, slba(r), nlb(r), r->data) : NVME_INVALID_NS;
}

static uint16_t run_compare(struct ns *ns, struct request *r)
{
        return same_length(ns, r) ? ns_compare(ns, slba(r), nlb(r), r->data) : NVME_INVALID_NS;
}

static uint16_t run_write_zeroes(struct ns *ns, struct request *r)
{
        return ns_zero(ns, slba(r), nlb(r), cdw12_bit(r, RW_DEAC));
}

static uint16_t run_write_uncorrectable(struct ns *ns, struct request *r)
{
        return ns_write_uncorrectable(ns, slba(r), nlb(r));
}

static uint16_t run_verify(struct ns *ns, struct request *r)
{
        return ns_verify(ns, slba(r), nlb(r));
}

static uint16_t run_dsm(struct ns *ns, struct request *r)
{
        const struct dsm_range *range = (const struct dsm_range *)r->data;
        size_t n = r->len / sizeof(*range);
        uint16_t status = NVME_SUCCESS;

        for (size_t i = 0; i < n; i++)
                if (!ns_has(ns, le64_get(range[i].slba), le32_get(range[i].blocks)))
                        return NVME_LBA_RANGE;
        if (!(le32_get(r->sqe.cdw11) & DSM_DEALLOCATE))
                return NVME_SUCCESS;
        for (size_t i = 0; i < n && !status; i++)
                status = ns_deallocate(ns, le64_get(range[i].slba), le32_get(range[i].blocks));
        return status;
}

static const struct command {
        uint16_t (*admit)(const struct ns *ns, struct request *r);
        uint16_t (*run)(struct ns *ns, struct request *r);
        bool fua; /* has Force Unit Access */
        bool writes;
} commands[] = {
        [NVME_WRITE] = { admit_data, run_write, .fua = true, .writes = true },
        [NVME_READ] = { admit_data, run_read, .fua = true },
        [NVME_WRITE_UNCORRECTABLE] = { admit_blocks, run_write_uncorrectable, .fua = false },
        [NVME_COMPARE] = { admit_data, run_compare, .fua = true },
        [NVME_WRITE_ZEROES] = { admit_blocks, run_write_zeroes, .fua = true, .writes = true },
        [NVME_DSM] = { admit_ranges, run_dsm, .fua = false },
        [NVME_VERIFY] = { admit_blocks, run_verify, .fua = true },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct command *command_of(const struct request *r)
{
        uint8_t opc = r->sqe.opc;

        return opc < COMMANDS && commands[opc].run ? &commands[opc] : NULL;
}

/* Whether it is done only when the disk has it. */
static bool is_durable(const struct nvm_queue *q, const struct request *r)
{
        const struct command *c = command_of(r);

        return (c->fua && cdw12_bit(r, RW_FUA)) || (c->writes && q->write_through);
}

/* --- the end of a command --------------------------------------------------------------------- */

/* Trying again would give the same. */
static bool is_final(uint16_t status)
{
        return status != NVME_SUCCESS && status != NVME_INTERNAL_ERROR &&
               status != NVME_WRITE_FAULT && status != NVME_ABORT_FAILED_FUSED &&
               status != NVME_ABORT_MISSING_FUSED;
}

static uint16_t with_dnr(uint16_t status)
{
        return is_final(status) ? status | STATUS_DNR : status;
}

static void finish(struct nvm_queue *q, struct request *r, uint16_t status)
{
        r->cqe.sf = status_field(with_dnr(status));
        r->c2h_len = r->xfer == XFER_C2H && !status ? r->len : 0;
        q->ops->done(q, r);
}

/* --- commands that wait ----------------------------------------------------------------------- */

/* A command that was carried out but for what it waits for (ns_await()): its r->user. */
struct wait {
        struct nvm_queue *q;
        struct request *r;
        _Atomic unsigned left; /* namespaces that it waits for, and the one who begins it */
        _Atomic uint16_t status;
        unsigned count;
        struct wait_ns {
                struct ns_wait on;
                struct ns *ns;
                struct wait *wait;
        } of[];
};

/* True: it was the last one. */
static bool waited(struct wait *w, uint16_t status)
{
        if (status)
                atomic_store(&w->status, status);
        return atomic_fetch_sub(&w->left, 1) == 1;
}

static void on_waited(struct ns_wait *on)
{
        struct wait *w = ((struct wait_ns *)on)->wait;

        if (waited(w, on->status))
                w->q->ops->post(w->q, w->r);
}

static void end_wait(struct wait *w)
{
        struct nvm_queue *q = w->q;
        struct request *r = w->r;
        uint16_t status = w->status;

        for (unsigned i = 0; i < w->count; i++)
                ns_put(w->of[i].ns);
        free(w);
        r->user = NULL;
        finish(q, r, status);
}

static struct wait *wait_new(struct nvm_queue *q, struct request *r, unsigned namespaces)
{
        struct wait *w = calloc(1, sizeof(*w) + namespaces * sizeof(w->of[0]));

        if (!w)
                return NULL;
        w->q = q;
        w->r = r;
        atomic_init(&w->left, 1);
        r->user = w;
        return w;
}

static void wait_for(struct wait *w, struct ns *ns, bool durable)
{
        struct wait_ns *n = &w->of[w->count++];

        *n = (struct wait_ns) { .on = { .durable = durable, .done = on_waited },
                                .ns = ns,
                                .wait = w };
        atomic_fetch_add(&ns->refs, 1);
        atomic_fetch_add(&w->left, 1);
        if (ns_await(ns, &n->on))
                waited(w, n->on.status);
}

static void wait_begins(struct wait *w)
{
        if (waited(w, NVME_SUCCESS))
                end_wait(w);
}

/* The command has succeeded, but for what it waits for. */
static void succeed(struct nvm_queue *q, struct request *r, struct ns *ns, bool durable)
{
        struct wait *w;

        if (!ns_waits(ns, durable)) {
                finish(q, r, NVME_SUCCESS);
                return;
        }
        w = wait_new(q, r, 1);
        if (!w) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        wait_for(w, ns, durable);
        wait_begins(w);
}

/* --- flush ------------------------------------------------------------------------------------ */

static void flush_all(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        unsigned count = 0;
        struct wait *w;

        for (struct ns *ns = s->ns; ns; ns = ns->next)
                count += ns_waits(ns, true);
        w = wait_new(q, r, count);
        if (!w) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        for (struct ns *ns = s->ns; ns && w->count < count; ns = ns->next)
                if (ns_waits(ns, true))
                        wait_for(w, ns, true);
        wait_begins(w);
}

static void run_flush(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        struct ns *ns = find_ns(q, s, r);

        if (le32_get(r->sqe.nsid) == NSID_ALL)
                flush_all(q, s, r);
        else if (ns)
                succeed(q, r, ns, true);
        else
                finish(q, r, NVME_INVALID_NS);
}

/* --- fused commands --------------------------------------------------------------------------- */

static struct request *other_half(const struct request *r)
{
        return r->user == &doomed ? NULL : r->user;
}

static bool same_range(const struct request *a, const struct request *b)
{
        return le32_get(a->sqe.nsid) == le32_get(b->sqe.nsid) && slba(a) == slba(b) &&
               nlb(a) == nlb(b);
}

static bool unhold(struct nvm_queue *q, struct request *r)
{
        struct request **at = &q->held;

        while (*at && *at != r)
                at = &(*at)->next;
        if (!*at)
                return false;
        *at = r->next;
        return true;
}

/* The data of a held one that came in its capsule was copied. */
static void drop_copy(struct request *r)
{
        if (r->in_place)
                free(r->data);
}

static void hold(struct nvm_queue *q, struct request *r)
{
        uint8_t *copy = r->in_place ? malloc(r->len) : NULL;

        if (r->in_place && !copy) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        if (copy)
                r->data = memcpy(copy, r->data, r->len);
        r->next = q->held;
        q->held = r;
}

static void finish_held(struct nvm_queue *q, struct request *r, uint16_t status)
{
        drop_copy(r);
        finish(q, r, status);
}

/* The command after a first fused one is not its second. */
static void abandon_open(struct nvm_queue *q, uint16_t status)
{
        struct request *r = q->open;

        q->open = NULL;
        if (!r)
                return;
        if (PLANTED(FUSED_HELD) || unhold(q, r))
                finish_held(q, r, status);
        else /* its data is still on the way */
                finish(q, r, status);
}

static uint16_t tie(struct nvm_queue *q, struct request *second)
{
        struct request *first = q->open;

        if (q->open_failed)
                return NVME_ABORT_FAILED_FUSED;
        if (!first)
                return NVME_ABORT_MISSING_FUSED;
        if (second->sqe.opc != NVME_WRITE || !same_range(first, second)) {
                abandon_open(q, NVME_INVALID_FIELD);
                return NVME_INVALID_FIELD;
        }
        q->open = NULL;
        first->user = second;
        second->user = first;
        return NVME_SUCCESS;
}

/* Where r stands in a fused operation. */
static uint16_t admit_fused(struct nvm_queue *q, struct request *r)
{
        bool failed = q->open_failed;
        uint16_t status = NVME_SUCCESS;

        if (fuse(r) == SQE_FUSE_SECOND)
                status = tie(q, r);
        else
                abandon_open(q, NVME_ABORT_MISSING_FUSED);
        if (failed)
                q->open_failed = false;
        if (fuse(r) == SQE_FUSE_MASK || (fuse(r) == SQE_FUSE_FIRST && r->sqe.opc != NVME_COMPARE))
                status = NVME_INVALID_FIELD;
        if (fuse(r) == SQE_FUSE_FIRST && !status)
                q->open = r;
        return status;
}

static uint16_t compare_write(struct ns *ns, const struct request *first,
                              const struct request *second)
{
        if (!ns || !same_length(ns, first) || !same_length(ns, second))
                return NVME_INVALID_NS;
        return ns_compare_write(ns, slba(first), nlb(first), first->data, second->data);
}

/* Both are EXECUTING, `held` has been for a while. */
static void run_pair(struct nvm_queue *q, const struct subsystem *s, struct request *first,
                     struct request *second, struct request *held)
{
        struct ns *ns = find_ns(q, s, first);
        uint16_t status = compare_write(ns, first, second);

        first->user = second->user = NULL;
        unhold(q, held);
        drop_copy(held);
        finish(q, first, status);
        if (status)
                finish(q, second, NVME_ABORT_FAILED_FUSED);
        else
                succeed(q, second, ns, is_durable(q, second));
}

static void execute_fused(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        struct request *other = other_half(r);

        if (r->user == &doomed)
                finish(q, r, NVME_ABORT_FAILED_FUSED);
        else if (!other || other->state != REQUEST_EXECUTING)
                hold(q, r);
        else if (fuse(r) == SQE_FUSE_SECOND)
                run_pair(q, s, other, r, other);
        else
                run_pair(q, s, r, other, other);
}

void nvm_completing(struct nvm_queue *q, struct request *r)
{
        struct request *other;

        if (fuse(r) == 0)
                return;
        if (q->open == r) {
                q->open = NULL;
                q->open_failed = true;
        }
        other = other_half(r);
        r->user = NULL;
        if (!other) /* it ended where it should */
                return;
        other->user = &doomed;
        if (unhold(q, other))
                q->ops->post(q, other);
}

void nvm_give_up(struct nvm_queue *q)
{
        struct request *r;

        q->open = NULL;
        while ((r = q->held) != NULL) {
                q->held = r->next;
                r->user = NULL;
                finish_held(q, r, NVME_ABORT_SQ_DELETED);
        }
}

/* --- all commands ----------------------------------------------------------------------------- */

static uint16_t check(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        const struct command *c = command_of(r);
        struct ns *ns = find_ns(q, s, r);

        if (r->sqe.opc == NVME_FLUSH)
                return ns || le32_get(r->sqe.nsid) == NSID_ALL ? NVME_SUCCESS : NVME_INVALID_NS;
        if (!c)
                return NVME_INVALID_OPCODE;
        return ns ? c->admit(ns, r) : NVME_INVALID_NS;
}

/* A fused command that fails before it begins takes the other one with it. */
static void fail_fused(struct nvm_queue *q, struct request *r)
{
        if (fuse(r) == SQE_FUSE_FIRST) {
                q->open = NULL;
                q->open_failed = true;
        }
}

uint16_t nvm_admit(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        uint16_t status = NVME_SUCCESS;

        if (fuse(r) || q->open || q->open_failed)
                status = admit_fused(q, r);
        if (!status)
                status = check(q, s, r);
        if (status)
                fail_fused(q, r);
        return with_dnr(status);
}

void nvm_execute(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        const struct command *c = command_of(r);
        struct ns *ns;
        uint16_t status;

        if (fuse(r) || r->sqe.opc == NVME_FLUSH) {
                if (fuse(r))
                        execute_fused(q, s, r);
                else
                        run_flush(q, s, r);
                return;
        }
        ns = find_ns(q, s, r);
        status = ns ? c->run(ns, r) : NVME_INVALID_NS;
        if (status)
                finish(q, r, status);
        else
                succeed(q, r, ns, is_durable(q, r));
}

void nvm_resume(struct nvm_queue *q, struct request *r)
{
        if (r->user == &doomed)
                finish_held(q, r, NVME_ABORT_FAILED_FUSED);
        else
                end_wait(r->user);
}
