/* SPDX-License-Identifier: BSD-3-Clause */
/* Lockdown (Base 2.2 5.1.15, 8.1.5), of subsystems whose hosts may do what they like with them as a whole: it
 * prohibits commands that change namespaces or their data, on every controller. There is no management
 * endpoint, so the admin queues are all that it can concern. */
#include "admin.h"

enum {
        OF_OPCODES = 0, /* SCP */
        PROHIBIT = 1 << 4,
        LIST_AT = 4,
        ALLOWED_LIST = 0, /* contents of log page 14h: what can be prohibited, what is */
        PROHIBITED_LIST = 1,
};

static const uint8_t lockable[] = { NVME_NS_MANAGEMENT, NVME_NS_ATTACHMENT, NVME_FORMAT,
                                    NVME_SANITIZE };

static uint32_t bit_of(uint8_t opc)
{
        for (unsigned i = 0; i < sizeof(lockable); i++)
                if (lockable[i] == opc)
                        return UINT32_C(1) << i;
        return 0;
}

uint16_t lockdown_bars(const struct ctrl *c, uint8_t opc)
{
        if (!c->subsystem || !(atomic_load(&c->subsystem->locked) & bit_of(opc)))
                return 0;
        return has_flaw(c->env, FLAW_LOCKDOWN_STATUS) ? NVME_INVALID_OPCODE : NVME_PROHIBITED;
}

uint16_t admin_lockdown(struct admin *a)
{
        uint32_t dw10 = le32_get(a->r->sqe.cdw10);
        uint32_t bit = bit_of((uint8_t)(dw10 >> 8));
        _Atomic uint32_t *locked = &a->ctrl->subsystem->locked;

        if (dw10 >> 5 & 3)
                return NVME_INVALID_FIELD;
        if (((dw10 & 15) != OF_OPCODES || !bit) && !has_flaw(a->env, FLAW_LOCKDOWN_ANY))
                return NVME_LOCKDOWN_FAILED;
        if (!(atomic_load(locked) & bit) == !(dw10 & PROHIBIT) &&
            has_flaw(a->env, FLAW_LOCKDOWN_AGAIN))
                return NVME_LOCKDOWN_FAILED;
        if (dw10 & PROHIBIT)
                atomic_fetch_or(locked, bit);
        else
                atomic_fetch_and(locked, ~bit);
        return 0;
}

/* Log page 14h: of opcodes; of other scopes nothing can be prohibited. */
void lockdown_log(struct admin *a, const struct window *w)
{
        unsigned lsp = le32_get(a->r->sqe.cdw10) >> 8 & 0x3f, contents = lsp >> 4;
        uint32_t locked = atomic_load(&a->ctrl->subsystem->locked);
        uint8_t page[512] = { (uint8_t)lsp };

        for (unsigned i = 0; i < sizeof(lockable) && (lsp & 15) == OF_OPCODES; i++)
                if (contents == ALLOWED_LIST || (contents == PROHIBITED_LIST && locked >> i & 1))
                        page[LIST_AT + page[3]++] = lockable[i];
        window_put(w, 0, page, sizeof(page));
}
