/* SPDX-License-Identifier: BSD-3-Clause */
#include "replay_index.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/tcp/framer.h"

enum { PAGE = 4096 };

/* What tells a wish: not CID, SGL and controller; of a feature not its value. No padding. */
struct key {
        uint32_t assoc, nsid;
        uint8_t opc, fctype, admin, zero;
        uint8_t own[24]; /* CDW10 and on */
};

/* All commands of one key, in the order of the capture. */
struct wish {
        struct key key;
        struct answer_link *first, *next, *last; /* next: not given yet */
        struct wish *chain;
};

struct answer_link {
        const struct plan_cmd *cmd;
        struct answer_link *next;
        bool given; /* of `connects` */
};

struct answer_list {
        struct answer_link *first, *last;
};

struct answers {
        struct spill spill; /* wishes and links */
        size_t looked_at;
        struct wish **bucket;
        size_t buckets;              /* a power of two */
        struct answer_list connects; /* of admin queues, answered, with their data */
        struct answer_list logs;     /* that were read */
        uint32_t in_capsule;
};

/* --- keys ------------------------------------------------------------------------------------- */

static struct key key_of(const union sqe *s, unsigned assoc, bool admin)
{
        struct key k = { .assoc = assoc, .opc = s->opc, .admin = admin };
        bool fabrics = s->opc == NVME_FABRICS;

        if (admin && s->opc == NVME_SET_FEATURES) {
                memcpy(k.own, &s->cdw10, sizeof(s->cdw10));
                return k;
        }
        if (fabrics)
                k.fctype = s->fctype;
        else
                k.nsid = le32_get(s->nsid);
        if (fabrics && s->fctype == FCTYPE_CONNECT)
                memcpy(k.own, &s->connect.qid, sizeof(s->connect.qid));
        else
                memcpy(k.own, s->bytes + 40, sizeof(k.own));
        return k;
}

/* FNV-1a. */
static struct wish **bucket_of(const struct answers *a, const struct key *k)
{
        const uint8_t *p = (const void *)k;
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < sizeof(*k); i++)
                h = (h ^ p[i]) * UINT64_C(0x100000001b3);
        return &a->bucket[(h ^ h >> 32) & (a->buckets - 1)];
}

static struct wish *find(struct answers *a, const struct key *k)
{
        struct wish *w = *bucket_of(a, k);

        spill_looked(&a->spill, &a->looked_at, 2 * PAGE); /* a wish, a link */
        while (w && memcmp(&w->key, k, sizeof(*k)) != 0)
                w = w->chain;
        return w;
}

/* --- building --------------------------------------------------------------------------------- */

static struct wish *wish_of(struct answers *a, const struct key *k)
{
        struct wish *w = find(a, k), **bucket = bucket_of(a, k);

        if (w)
                return w;
        w = spill_add(&a->spill, sizeof(*w));
        if (!w)
                return NULL;
        *w = (struct wish) { .key = *k, .chain = *bucket };
        *bucket = w;
        return w;
}

static struct answer_link *link_new(struct answers *a, const struct plan_cmd *c)
{
        struct answer_link *l = spill_add(&a->spill, sizeof(*l));

        if (l)
                *l = (struct answer_link) { .cmd = c };
        return l;
}

static bool list_add(struct answers *a, struct answer_list *list, const struct plan_cmd *c)
{
        struct answer_link *l = link_new(a, c);

        if (!l)
                return false;
        *(list->last ? &list->last->next : &list->first) = l;
        list->last = l;
        return true;
}

static bool wish_add(struct answers *a, const struct plan_cmd *c)
{
        struct key k = key_of(&c->sqe, c->queue->assoc, c->admin);
        struct wish *w = wish_of(a, &k);
        struct answer_link *l = w ? link_new(a, c) : NULL;

        if (!l)
                return false;
        *(w->last ? &w->last->next : &w->first) = l;
        w->last = l;
        if (!w->next)
                w->next = l;
        return true;
}

static const struct connect_data *connect_data(const struct plan_cmd *c)
{
        return c->data_len >= sizeof(struct connect_data) && !c->data_cut ? (const void *)c->data
                                                                          : NULL;
}

static bool is_admin_connect(const struct plan_cmd *c)
{
        return sqe_is_connect(&c->sqe) && c->queue->qid == 0 && c->queue->assoc && connect_data(c);
}

static bool is_log(const struct plan_cmd *c)
{
        return c->admin && c->sqe.opc == NVME_GET_LOG_PAGE && !c->data_cut &&
               cqe_status(&c->cqe) == NVME_SUCCESS;
}

static void learn_in_capsule(struct answers *a, const struct plan_cmd *c)
{
        const struct id_ctrl *id = (const void *)c->data;
        uint64_t bytes;

        if (!c->admin || c->sqe.opc != NVME_IDENTIFY || c->data_len < sizeof(*id) ||
            (le32_get(c->sqe.cdw10) & 0xff) != CNS_CTRL || le32_get(id->ioccsz) < 4)
                return;
        bytes = (le32_get(id->ioccsz) - 4ull) * 16;
        if (bytes < a->in_capsule)
                a->in_capsule = (uint32_t)bytes;
}

static bool add(struct answers *a, const struct plan_cmd *c)
{
        learn_in_capsule(a, c);
        if (!c->answered)
                return true;
        if (is_admin_connect(c) && !list_add(a, &a->connects, c))
                return false;
        if (is_log(c) && !list_add(a, &a->logs, c))
                return false;
        return wish_add(a, c);
}

struct answers *answers_new(const struct replay_plan *p)
{
        struct answers *a = calloc(1, sizeof(*a));
        size_t commands = 0, looked_at = 0;

        if (!a)
                return NULL;
        for (const struct plan_cmd *c = p->cmds; c; c = c->next) {
                spill_looked(&p->spill, &looked_at, PAGE);
                commands++;
        }
        a->in_capsule = FRAMER_IN_PLACE;
        for (a->buckets = 64; a->buckets < commands;)
                a->buckets *= 2;
        a->bucket = calloc(a->buckets, sizeof(struct wish *));
        if (!a->bucket) {
                answers_free(a);
                return NULL;
        }
        for (const struct plan_cmd *c = p->cmds; c; c = c->next) {
                spill_looked(&p->spill, &looked_at, PAGE);
                if (add(a, c))
                        continue;
                answers_free(a);
                return NULL;
        }
        return a;
}

void answers_free(struct answers *a)
{
        if (!a)
                return;
        spill_free(&a->spill);
        free(a->bucket);
        free(a);
}

/* --- asking ----------------------------------------------------------------------------------- */

const struct plan_cmd *answers_next(struct answers *a, unsigned assoc, bool admin,
                                    const union sqe *s, bool *again)
{
        struct key k = key_of(s, assoc, admin);
        struct wish *w = find(a, &k);
        struct answer_link *l = w ? w->next : NULL;

        *again = !l;
        if (!l)
                return w ? w->last->cmd : NULL;
        w->next = l->next;
        return l->cmd;
}

static void give_back(struct answers *a)
{
        for (size_t i = 0; i < a->buckets; i++)
                for (struct wish *w = a->bucket[i]; w; w = w->chain)
                        w->next = w->first;
        for (struct answer_link *l = a->connects.first; l; l = l->next)
                l->given = false;
}

static const struct plan_cmd *next_connect(struct answers *a, bool discovery)
{
        for (struct answer_link *l = a->connects.first; l; l = l->next) {
                const struct connect_data *d = connect_data(l->cmd);

                if (l->given || !d ||
                    (strncmp(d->subnqn, NQN_DISCOVERY, NQN_FIELD) == 0) != discovery)
                        continue;
                l->given = true;
                return l->cmd;
        }
        return NULL;
}

const struct plan_cmd *answers_connect(struct answers *a, bool discovery)
{
        const struct plan_cmd *c = next_connect(a, discovery);

        if (c)
                return c;
        give_back(a);
        return next_connect(a, discovery);
}

bool answers_is(const struct answers *a, unsigned assoc, uint16_t cntlid)
{
        for (const struct answer_link *l = a->connects.first; l; l = l->next)
                if (l->cmd->queue->assoc == assoc && (uint16_t)le32_get(l->cmd->cqe.dw0) == cntlid)
                        return true;
        return false;
}

uint64_t log_offset(const union sqe *s)
{
        return le32_get(s->cdw12) | (uint64_t)le32_get(s->cdw13) << 32;
}

const struct plan_cmd *answers_log(const struct answers *a, unsigned assoc, const union sqe *s)
{
        const struct plan_cmd *found = NULL;
        uint64_t at = log_offset(s);

        for (const struct answer_link *l = a->logs.first; l; l = l->next) {
                const struct plan_cmd *c = l->cmd;
                uint64_t from = log_offset(&c->sqe);

                if (c->queue->assoc == assoc && c->sqe.cdw10.b[0] == s->cdw10.b[0] && from <= at &&
                    at < from + c->data_len)
                        found = c;
        }
        return found;
}

uint32_t answers_in_capsule(const struct answers *a)
{
        return a->in_capsule;
}
