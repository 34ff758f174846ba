/* SPDX-License-Identifier: BSD-3-Clause */
#include "reservation.h"

#include <string.h>

/* A command on its way: what there was, what there will be. */
struct change {
        const struct reservation *was;
        const struct reservation_cmd *c;
        struct reservation *next;
        uint8_t *notices;
};

static bool is_same_host(const uint8_t a[16], const uint8_t b[16])
{
        return memcmp(a, b, 16) == 0;
}

static bool is_held_by_all(const struct reservation *r)
{
        return r->type == WRITE_EXCLUSIVE_ALL || r->type == EXCLUSIVE_ACCESS_ALL;
}

/* NULL: the host is not registered. */
static const struct registrant *reservation_find(const struct reservation *r,
                                                 const uint8_t hostid[16])
{
        for (unsigned i = 0; i < r->count; i++)
                if (is_same_host(r->registrant[i].hostid, hostid))
                        return &r->registrant[i];
        return NULL;
}

static bool reservation_holds(const struct reservation *r, const uint8_t hostid[16])
{
        if (is_held_by_all(r))
                return reservation_find(r, hostid);
        return r->type && is_same_host(r->holder, hostid);
}

static bool has_flaw(const struct reservation_cmd *c, enum flaw_id flaw)
{
        return flawed(c->policy, flaw);
}

/* --- rights: figures 646 and 647 ---------------------------------------------------------------- */

enum who { HOLDER, REGISTRANT, STRANGER };
enum { READS = 1, WRITES = 2 };

static const uint8_t rights[][3] = {
        [RESERVATION_NONE] = { READS | WRITES, READS | WRITES, READS | WRITES },
        [WRITE_EXCLUSIVE] = { READS | WRITES, READS, READS },
        [EXCLUSIVE_ACCESS] = { READS | WRITES, 0, 0 },
        [WRITE_EXCLUSIVE_REGISTRANTS] = { READS | WRITES, READS | WRITES, READS },
        [EXCLUSIVE_ACCESS_REGISTRANTS] = { READS | WRITES, READS | WRITES, 0 },
        [WRITE_EXCLUSIVE_ALL] = { READS | WRITES, READS | WRITES, READS },
        [EXCLUSIVE_ACCESS_ALL] = { READS | WRITES, READS | WRITES, 0 },
};

static enum who who_is(const struct reservation *r, const uint8_t hostid[16])
{
        if (reservation_holds(r, hostid))
                return HOLDER;
        return reservation_find(r, hostid) ? REGISTRANT : STRANGER;
}

bool reservation_allows(const struct reservation *r, const uint8_t hostid[16], bool writes,
                        const struct rule_policy *policy)
{
        enum who who = r ? who_is(r, hostid) : STRANGER;

        if (!r || !r->type)
                return true;
        if (who == REGISTRANT && flawed(policy, FLAW_RESERVATION_REGISTRANTS))
                return true;
        if (who == STRANGER && !writes && flawed(policy, FLAW_RESERVATION_READS))
                return true;
        return rights[r->type][who] & (writes ? WRITES : READS);
}

/* --- steps -------------------------------------------------------------------------------------- */

static bool is_caller(const struct change *x, const struct registrant *r)
{
        return is_same_host(r->hostid, x->c->hostid);
}

/* Tells all other registrants that there are still. */
static void notify_rest(struct change *x, enum reservation_notice notice)
{
        for (unsigned i = 0; i < x->was->count; i++)
                if (!is_caller(x, &x->was->registrant[i]) &&
                    reservation_find(x->next, x->was->registrant[i].hostid))
                        x->notices[i] = (uint8_t)notice;
}

static void release(struct reservation *r)
{
        r->type = RESERVATION_NONE;
        memset(r->holder, 0, sizeof(r->holder));
}

static void hold(struct change *x, uint8_t type)
{
        x->next->type = type;
        memcpy(x->next->holder, x->c->hostid, sizeof(x->next->holder));
}

static void unregister(struct reservation *r, const uint8_t hostid[16])
{
        const struct registrant *gone = reservation_find(r, hostid);
        size_t i = (size_t)(gone - r->registrant);

        r->count--;
        memmove(&r->registrant[i], &r->registrant[i + 1], (r->count - i) * sizeof(*gone));
        memset(&r->registrant[r->count], 0, sizeof(*gone));
}

/* The caller's own registration stays if `spare` says so. How many there were. */
static unsigned unregister_key(struct change *x, bool any, bool spare)
{
        unsigned n = 0;

        for (unsigned i = 0; i < x->was->count; i++) {
                const struct registrant *r = &x->was->registrant[i];

                if ((!any && r->key != x->c->key) || (spare && is_caller(x, r)))
                        continue;
                unregister(x->next, r->hostid);
                if (!is_caller(x, r))
                        x->notices[i] = REGISTRATION_PREEMPTED;
                n++;
        }
        return n;
}

static unsigned action(const struct reservation_cmd *c)
{
        return c->cdw10 & RESERVATION_ACTION_MASK;
}

static uint8_t type_of(const struct reservation_cmd *c)
{
        return (uint8_t)(c->cdw10 >> RESERVATION_TYPE_SHIFT);
}

static bool ignores_key(const struct reservation_cmd *c)
{
        return c->cdw10 & RESERVATION_IEKEY;
}

/* The caller is registered, with the key that it gives. */
static bool is_known(const struct change *x)
{
        const struct registrant *r = reservation_find(x->was, x->c->hostid);

        return r && (r->key == x->c->crkey || has_flaw(x->c, FLAW_RESERVATION_KEY));
}

/* Of Register and of Acquire, by its action. */
static bool is_counted(const struct reservation_cmd *c)
{
        static const enum flaw_id uncounted[][3] = {
                { [RREGA_UNREGISTER] = FLAW_GENERATION_UNREGISTER,
                  [RREGA_REPLACE] = FLAW_GENERATION_REPLACE },
                { [RACQA_PREEMPT] = FLAW_RESERVATION_GENERATION,
                  [RACQA_PREEMPT_ABORT] = FLAW_GENERATION_ABORT },
        };

        return !has_flaw(c, uncounted[c->opc == NVME_RESERVATION_ACQUIRE][action(c)]);
}

/* --- Register ----------------------------------------------------------------------------------- */

static uint16_t add(struct change *x)
{
        struct reservation *r = x->next;

        if (r->count == (has_flaw(x->c, FLAW_RESERVATION_ROOM) ? 2 : RESERVATION_REGISTRANTS))
                return NVME_INTERNAL_ERROR;
        memcpy(r->registrant[r->count].hostid, x->c->hostid, 16);
        r->registrant[r->count++].key = x->c->key;
        return 0;
}

static uint16_t do_register(struct change *x)
{
        const struct registrant *r = reservation_find(x->was, x->c->hostid);

        if (!r)
                return add(x);
        if (r->key == x->c->key)
                return has_flaw(x->c, FLAW_RESERVATION_TWICE) ? NVME_RESERVATION_CONFLICT : 0;
        if (!has_flaw(x->c, FLAW_RESERVATION_OTHER_KEY))
                return NVME_RESERVATION_CONFLICT;
        x->next->registrant[r - x->was->registrant].key = x->c->key;
        return 0;
}

static uint16_t do_replace(struct change *x)
{
        const struct registrant *r = reservation_find(x->was, x->c->hostid);
        bool ignores = ignores_key(x->c) && !has_flaw(x->c, FLAW_RESERVATION_IEKEY);

        if (!r && ignores)
                return add(x);
        if (!ignores && !is_known(x))
                return NVME_RESERVATION_CONFLICT;
        x->next->registrant[r - x->was->registrant].key = x->c->key;
        if (reservation_holds(x->was, x->c->hostid) && has_flaw(x->c, FLAW_RESERVATION_REPLACED))
                release(x->next);
        return 0;
}

/* The last holder, or the only one, takes the reservation with it. */
static uint16_t do_unregister(struct change *x)
{
        bool held = reservation_holds(x->was, x->c->hostid);

        if (!(ignores_key(x->c) && !has_flaw(x->c, FLAW_RESERVATION_IEKEY)) && !is_known(x))
                return NVME_RESERVATION_CONFLICT;
        if (!reservation_find(x->was, x->c->hostid))
                return 0;
        unregister(x->next, x->c->hostid);
        if (!held || (is_held_by_all(x->was) && x->next->count > 0) ||
            has_flaw(x->c, FLAW_RESERVATION_ORPHAN))
                return 0;
        release(x->next);
        if (x->was->type == WRITE_EXCLUSIVE_REGISTRANTS ||
            x->was->type == EXCLUSIVE_ACCESS_REGISTRANTS)
                notify_rest(x, RESERVATION_RELEASED);
        return 0;
}

static uint16_t run_register(struct change *x)
{
        static uint16_t (*const actions[])(struct change * x) = {
                [RREGA_REGISTER] = do_register,
                [RREGA_UNREGISTER] = do_unregister,
                [RREGA_REPLACE] = do_replace,
        };
        unsigned ptpl = x->c->cdw10 >> CPTPL_SHIFT;
        uint16_t status;

        if (action(x->c) > RREGA_REPLACE || ptpl == 1)
                return has_flaw(x->c, FLAW_RESERVATION_CODED) ? 0 : NVME_INVALID_FIELD;
        status = actions[action(x->c)](x);
        if (status)
                return status;
        if (ptpl != CPTPL_KEEP && !has_flaw(x->c, FLAW_RESERVATION_CPTPL))
                x->next->ptpl = ptpl == CPTPL_SET;
        x->next->gen += is_counted(x->c);
        return 0;
}

/* --- Acquire ------------------------------------------------------------------------------------ */

static uint16_t do_acquire(struct change *x)
{
        if (!x->was->type || has_flaw(x->c, FLAW_RESERVATION_STOLEN))
                hold(x, type_of(x->c));
        else if (!reservation_holds(x->was, x->c->hostid) || x->was->type != type_of(x->c) ||
                 has_flaw(x->c, FLAW_RESERVATION_HELD))
                return NVME_RESERVATION_CONFLICT;
        return 0;
}

static bool is_key_of_holder(const struct change *x)
{
        const struct registrant *r = reservation_find(x->was, x->was->holder);

        return r && r->key == x->c->key;
}

/* Who holds it now has taken it over. */
static uint16_t take_over(struct change *x, bool any)
{
        unregister_key(x, any, true);
        release(x->next);
        hold(x, has_flaw(x->c, FLAW_RESERVATION_OLD_TYPE) ? x->was->type : type_of(x->c));
        return 0;
}

static uint16_t preempt_one(struct change *x)
{
        if (is_key_of_holder(x))
                return take_over(x, false);
        if (x->c->key == 0)
                return has_flaw(x->c, FLAW_RESERVATION_ZERO) ? 0 : NVME_INVALID_FIELD;
        unregister_key(x, false, false);
        return 0;
}

static uint16_t preempt_all(struct change *x)
{
        if (x->c->key == 0)
                return take_over(x, true);
        if (unregister_key(x, false, false) == 0 && !has_flaw(x->c, FLAW_RESERVATION_NOBODY))
                return NVME_RESERVATION_CONFLICT;
        if (x->next->count == 0)
                release(x->next);
        return 0;
}

static uint16_t do_preempt(struct change *x)
{
        uint16_t status = 0;

        if (!x->was->type)
                unregister_key(x, false, false);
        else
                status = is_held_by_all(x->was) ? preempt_all(x) : preempt_one(x);
        if (status)
                return status;
        if (x->was->type && x->next->type != x->was->type)
                notify_rest(x, RESERVATION_RELEASED);
        x->next->gen += is_counted(x->c);
        return 0;
}

static uint16_t run_acquire(struct change *x)
{
        bool coded = action(x->c) > RACQA_PREEMPT_ABORT || type_of(x->c) == RESERVATION_NONE ||
                     type_of(x->c) > EXCLUSIVE_ACCESS_ALL;

        if (coded)
                return has_flaw(x->c, FLAW_RESERVATION_CODED) ? 0 : NVME_INVALID_FIELD;
        if (ignores_key(x->c) && !has_flaw(x->c, FLAW_RESERVATION_IEKEY))
                return NVME_INVALID_FIELD;
        if (!is_known(x))
                return NVME_RESERVATION_CONFLICT;
        return action(x->c) == RACQA_ACQUIRE ? do_acquire(x) : do_preempt(x);
}

bool reservation_aborts(const struct reservation_cmd *c)
{
        return c->opc == NVME_RESERVATION_ACQUIRE && action(c) == RACQA_PREEMPT_ABORT;
}

/* --- Release ------------------------------------------------------------------------------------ */

/* FLAW_RESERVATION_ACQUIRER: of all registrants who hold it one is asked for. */
static bool may_release(const struct change *x)
{
        if (is_held_by_all(x->was) && !is_same_host(x->was->holder, x->c->hostid) &&
            has_flaw(x->c, FLAW_RESERVATION_ACQUIRER))
                return false;
        return reservation_holds(x->was, x->c->hostid);
}

static uint16_t do_release(struct change *x)
{
        if (!may_release(x))
                return has_flaw(x->c, FLAW_RESERVATION_NOT_HOLDER) ? NVME_RESERVATION_CONFLICT : 0;
        if (type_of(x->c) != x->was->type && !has_flaw(x->c, FLAW_RESERVATION_RELEASE_TYPE))
                return NVME_INVALID_FIELD;
        release(x->next);
        if (x->was->type > EXCLUSIVE_ACCESS)
                notify_rest(x, RESERVATION_RELEASED);
        return 0;
}

static uint16_t do_clear(struct change *x)
{
        notify_rest(x, RESERVATION_PREEMPTED);
        release(x->next);
        if (!has_flaw(x->c, FLAW_RESERVATION_CLEAR)) {
                memset(x->next->registrant, 0, sizeof(x->next->registrant));
                x->next->count = 0;
        }
        x->next->gen += !has_flaw(x->c, FLAW_RESERVATION_GENERATION);
        return 0;
}

static uint16_t run_release(struct change *x)
{
        if (action(x->c) > RRELA_CLEAR)
                return has_flaw(x->c, FLAW_RESERVATION_CODED) ? 0 : NVME_INVALID_FIELD;
        if (ignores_key(x->c) && !has_flaw(x->c, FLAW_RESERVATION_IEKEY))
                return NVME_INVALID_FIELD;
        if (!is_known(x))
                return NVME_RESERVATION_CONFLICT;
        return action(x->c) == RRELA_RELEASE ? do_release(x) : do_clear(x);
}

/* --- all commands ------------------------------------------------------------------------------- */

uint16_t reservation_run(const struct reservation *was, const struct reservation_cmd *c,
                         struct reservation *next, uint8_t notices[RESERVATION_REGISTRANTS])
{
        struct change x = { was, c, next, notices };
        uint16_t status;

        *next = *was;
        memset(notices, 0, RESERVATION_REGISTRANTS);
        status = c->opc == NVME_RESERVATION_REGISTER  ? run_register(&x)
                 : c->opc == NVME_RESERVATION_ACQUIRE ? run_acquire(&x)
                                                      : run_release(&x);
        if (status) {
                *next = *was;
                memset(notices, 0, RESERVATION_REGISTRANTS);
        }
        return status;
}

/* --- Report ------------------------------------------------------------------------------------- */

/* Where the structure is written, as far as it fits. */
struct out {
        uint8_t *bytes;
        uint32_t size, at;
};

static void put(struct out *o, const void *bytes, uint32_t n)
{
        if (o->at < o->size)
                memcpy(o->bytes + o->at, bytes, n < o->size - o->at ? n : o->size - o->at);
        o->at += n;
}

static void put_entry(struct out *o, const struct registrant *r, bool extended, uint16_t cntlid,
                      bool holds)
{
        struct reservation_entry_extended e = { .cntlid = le16(cntlid),
                                                .rcsts = holds ? RCSTS_HOLDER : 0,
                                                .key = le64(r->key) };
        struct reservation_entry regular = { .cntlid = e.cntlid, .rcsts = e.rcsts, .key = e.key };

        memcpy(e.hostid, r->hostid, sizeof(e.hostid));
        memcpy(regular.hostid, r->hostid, sizeof(regular.hostid));
        if (extended)
                put(o, &e, sizeof(e));
        else
                put(o, &regular, sizeof(regular));
}

uint32_t reservation_report(const struct reservation *r, bool extended, uint8_t *out, uint32_t size,
                            uint16_t (*cntlid)(void *user, const uint8_t hostid[16]), void *user)
{
        static const uint8_t nothing[REPORT_HEADER];
        struct out o = { out, size, 0 };
        struct reservation_status s = {
                .gen = le32(r->gen),
                .type = r->type,
                .registrants = le16((uint16_t)r->count),
                .ptpls = r->ptpl,
        };

        put(&o, &s, sizeof(s));
        if (extended)
                put(&o, nothing, REPORT_HEADER - sizeof(s));
        for (unsigned i = 0; i < r->count; i++)
                put_entry(&o, &r->registrant[i], extended, cntlid(user, r->registrant[i].hostid),
                          reservation_holds(r, r->registrant[i].hostid));
        return o.at;
}
