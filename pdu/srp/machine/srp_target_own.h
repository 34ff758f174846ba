/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's machine inside: what srp_target.c (commands, responses, IUs) and srp_target_data.c (their data) share. */
#ifndef NVMF_SRP_MACHINE_SRP_TARGET_OWN_H
#define NVMF_SRP_MACHINE_SRP_TARGET_OWN_H

#include "srp_target.h"

struct list {
        struct srp_command *first, **last;
};

/* An IU that the target sends of itself. */
struct own_iu {
        struct verbs_wr wr, again;
        uint8_t *iu, in_line[SRP_IU_OUT];
        unsigned out; /* work requests */
        bool waits;   /* for the initiator's answer */
        bool sent;
};

struct srp_target {
        struct srp_target_config cfg;
        struct srp_target_ops ops;
        void *user;
        const struct rule_set *waived, *violated; /* violated NULL: nothing is */
        uint32_t imm_at;

        struct srp_command *slots;
        unsigned count;
        void *own;
        uint8_t *ius; /* registered; NULL: they go inline */
        uint32_t ius_lkey;
        struct srp_command *free;
        struct srp_command *oldest, **newest;      /* outstanding */
        struct list buffers, reads, sends;         /* wait */
        struct rdma_recv *stalled, **stalled_last; /* wait for a slot */
        struct verbs_wr *chain, **chain_last;
        uint32_t wrs_out, reads_out; /* chained or posted, not completed */
        unsigned executing;
        unsigned ordered;     /* outstanding commands of that attribute */
        uint32_t limit, owed; /* requests that may come; credits of what had no response */
        struct own_iu credit, logout;
        uint32_t reason; /* of the logout */
        bool broken;     /* a work request failed: no more is posted, others may still be out */
        bool leaves;     /* SRP_T_LOGOUT is due, or sent */
        bool left;       /* SRP_I_LOGOUT came */
        bool stopped, ended;
        enum srp_rule fault;
};

/* On purpose. */
static inline bool violates(const struct srp_target *t, enum srp_rule rule)
{
        return rule_in(t->violated, rule);
}

static inline uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

static inline void tell(const struct srp_target *t, enum srp_happening what, int64_t value)
{
        if (t->ops.tell)
                t->ops.tell(t->user, what, value);
}

static inline void enter(struct srp_command *c, enum srp_step step)
{
        c->step = step;
        if (c->of->ops.stepped)
                c->of->ops.stepped(c->of->user, c);
}

/* Nothing new is taken, and nothing is answered. */
static inline bool gone(const struct srp_target *t)
{
        return t->broken || t->stopped || t->ended || t->left || t->leaves ||
               t->fault != SRP_RULE_NONE;
}

static inline void list_init(struct list *l)
{
        l->first = NULL;
        l->last = &l->first;
}

static inline void wait_in(struct list *l, struct srp_command *c, enum srp_step step)
{
        c->next = NULL;
        *l->last = c;
        l->last = &c->next;
        enter(c, step);
}

static inline void list_remove(struct list *l, const struct srp_command *c)
{
        struct srp_command **at = &l->first;

        while (*at && *at != c)
                at = &(*at)->next;
        if (!*at)
                return;
        *at = c->next;
        if (!*at)
                l->last = at;
}

static inline uint32_t room(const struct srp_target *t)
{
        return t->cfg.send_wrs - t->wrs_out;
}

static inline void chain(struct srp_target *t, struct verbs_wr *wr)
{
        wr->next = NULL;
        *t->chain_last = wr;
        t->chain_last = &wr->next;
        t->wrs_out++;
}

/* --- srp_target.c ----------------------------------------------------------------------------- */

/* All that it needs is there: to the owner, once it is its turn. */
void srp_command_execute(struct srp_command *c);
/* Its outcome is known: its response, once there is room. */
void srp_command_answer(struct srp_command *c);
/* Its status is CHECK CONDITION with this key and code. */
void srp_command_refuse(struct srp_command *c, uint8_t key, uint16_t asc);
/* Without a response; none of its work requests is out. */
void srp_command_drop(struct srp_command *c);

/* --- srp_target_data.c ------------------------------------------------------------------------ */

/* Bytes that it describes, as far as that is known before its table is there. */
uint32_t srp_data_size(const struct srp_command *c, const struct srp_data *d);
/* Admitted: to its data, and then to the owner. */
void srp_data_prepare(struct srp_command *c);
/* Chains READs of it; false: there are some left that found no room. */
bool srp_data_ask(struct srp_command *c);
/* All that was asked for has come. */
void srp_data_came(struct srp_command *c);
/* Its pieces go; none is out. */
void srp_data_free(struct srp_command *c);

#endif
