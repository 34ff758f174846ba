/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions and windows in memory: their keys, and what these allow. */
#include "memory_own.h"

/* The upper 24 bits tell MRs and windows apart, one step of the count changes many of them; the low
 * byte is a window owner's to change. */
static uint32_t next_base(struct memory_fabric *f)
{
        uint32_t base;

        do {
                base = ++f->last_key * 0x9e3779u & 0xffffff;
        } while (base == 0 || map_get(&f->keys, base));
        return base;
}

static struct memory_key *key_new(struct verbs_domain *d, enum memory_what what)
{
        struct memory_fabric *f = d->o.fabric;
        struct memory_key *k;
        uint32_t base;

        if (memory_refused(f, what))
                return NULL;
        if (d->context->removed) {
                errno = ENODEV;
                return NULL;
        }
        k = calloc(1, sizeof(*k));
        base = next_base(f);
        if (!k || map_put(&f->keys, base, k) < 0) {
                free(k);
                errno = ENOMEM;
                return NULL;
        }
        k->domain = d;
        k->lkey = base << 8 | (base & 0x7f);
        k->rkey = base << 8 | 0x80 | (base >> 8 & 0x7f);
        return k;
}

static void key_free(struct memory_fabric *f, struct memory_key *k)
{
        if (k->window)
                f->windows--;
        else
                f->mrs--;
        map_remove(&f->keys, k->rkey >> 8);
        free(k);
}

void memory_unbind(struct memory_key *k)
{
        k->usable = false;
        k->ep = NULL;
        k->mr = NULL;
}

/* What is bound to it is bound to nothing. */
void memory_unbind_those_of(struct memory_fabric *f, const struct memory_key *mr,
                            const struct verbs_ep *ep)
{
        struct memory_key *k;
        uint32_t at = 0;

        while ((k = map_next(&f->keys, &at)))
                if (k->window && ((mr && k->mr == mr) || (ep && k->ep == ep)))
                        memory_unbind(k);
}

int memory_reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr)
{
        struct memory_key *k;

        ALIVE(d);
        k = key_new(d, MEMORY_REG);
        if (!k)
                return -1;
        k->addr = addr;
        k->len = len;
        k->access = access;
        k->usable = true;
        d->o.fabric->mrs++;
        *mr = (struct verbs_mr) { addr, len, k->lkey, k->rkey, k };
        return 0;
}

void memory_dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        struct memory_key *k = mr->own;

        ALIVE(d);
        MUST(map_get(&d->o.fabric->keys, mr->rkey >> 8) == k, "memory region released twice");
        if (d->o.fabric->windows > 0)
                memory_unbind_those_of(d->o.fabric, k, NULL);
        key_free(d->o.fabric, k);
        mr->own = NULL;
}

int memory_make_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct memory_key *k;

        ALIVE(d);
        if (!d->o.fabric->caps.device.windows) {
                errno = EOPNOTSUPP;
                return -1;
        }
        k = key_new(d, MEMORY_WINDOW);
        if (!k)
                return -1;
        k->window = true;
        d->o.fabric->windows++;
        w->rkey = k->rkey;
        w->own = k;
        return 0;
}

void memory_drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct memory_key *k = w->own;

        ALIVE(d);
        MUST(map_get(&d->o.fabric->keys, w->rkey >> 8) == k, "memory window released twice");
        key_free(d->o.fabric, k);
        w->own = NULL;
}

bool memory_key_holds(const struct memory_key *k, uint64_t addr, uint64_t len)
{
        uint64_t from = (uintptr_t)k->addr;

        return addr >= from && len <= k->len && addr - from <= k->len - len;
}

struct memory_key *memory_key_of(const struct verbs_domain *d, uint32_t key)
{
        struct memory_key *k = map_get(&d->o.fabric->keys, key >> 8);

        return k && k->domain == d ? k : NULL;
}

/* iWARP fills the memory of a READ as if the peer wrote to it (RFC 5040 5.2). What the peer may not
 * read is registered so that this works (as pdu/io/verbs/verbs_rdma.h does), the rest needs the right. */
static bool may_sink(const struct memory_key *k)
{
        return !k->domain->o.fabric->caps.device.iwarp || !(k->access & VERBS_REMOTE_READ) ||
               (k->access & VERBS_REMOTE_WRITE);
}

static bool local_ok(const struct verbs_domain *d, const struct verbs_sge *s, bool sink)
{
        const struct memory_key *k = memory_key_of(d, s->lkey);

        if (s->len == 0)
                return true;
        return k && !k->window && k->lkey == s->lkey &&
               memory_key_holds(k, (uintptr_t)s->addr, s->len) && (!sink || may_sink(k));
}

enum verbs_status memory_check_local(const struct memory_work *w, const struct verbs_domain *d)
{
        if (w->own.flags & VERBS_INLINE)
                return VERBS_SUCCESS;
        for (unsigned i = 0; i < w->own.n_sge; i++)
                if (!local_ok(d, &w->own.sge[i], w->own.op == VERBS_READ))
                        return VERBS_LOCAL_PROTECTION;
        return VERBS_SUCCESS;
}

/* A key of the responder's, as it stands now. */
struct memory_key *memory_key_usable(const struct verbs_ep *responder, uint32_t key)
{
        struct memory_key *k = memory_key_of(responder->domain, key);

        if (!k || k->rkey != key || !k->usable || (k->window && k->ep != responder))
                return NULL;
        return k;
}

bool memory_remote_ok(const struct verbs_ep *responder, const struct verbs_wr *wr, uint32_t len,
                      unsigned access)
{
        const struct memory_key *k = memory_key_usable(responder, wr->rkey);

        return len == 0 || (k && (k->access & access) && memory_key_holds(k, wr->remote, len));
}

void memory_keys_end(struct verbs_domain *d)
{
        struct memory_fabric *f = d->o.fabric;
        struct memory_key *k;
        uint32_t at = 0;

        while ((k = map_next(&f->keys, &at)))
                if (k->domain == d) {
                        key_free(f, k);
                        at = 0; /* others have moved */
                }
}
