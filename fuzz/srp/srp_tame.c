/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzzer may ask of a target whose data, and whose other initiators, are not its own. */
#include <string.h>

#include "srp_live.h"

/* Tasks of other initiators, and the state of the unit, are theirs. */
static bool is_own_business(uint8_t function)
{
        static const uint8_t own[] = { SRP_TM_ABORT_TASK, SRP_TM_ABORT_TASK_SET, SRP_TM_CLEAR_ACA };

        return memchr(own, function, sizeof(own));
}

/* What is too short to be one is looked at as far as it goes: a target may take the rest from elsewhere. */
bool srp_harms(const uint8_t *p, uint32_t n)
{
        union srp_iu iu;

        (void)srp_read(p, n, &iu);
        if (n == 0)
                return false;
        if (iu.opcode == SRP_CMD)
                return n <= offsetof(struct srp_cmd, cdb) || !scsi_is_harmless(iu.cmd.cdb[0]);
        if (iu.opcode == SRP_TSK_MGMT)
                return n <= offsetof(struct srp_tsk_mgmt, function) ||
                       !is_own_business(iu.tsk_mgmt.function);
        return false;
}

/* Without what would make it another command, or another function. */
static void keep_meaning(const struct sequence *s, struct seq_step *step)
{
        static const char *const names[] = { "op", "cdb", "opcode", "function" };
        unsigned kept = 0;

        for (unsigned i = 0; i < step->changes; i++) {
                bool changes = false;

                for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++)
                        changes |= step->change[i].field ==
                                   seq_field(s->family, s->transport, step->template, names[k]);
                if (!changes)
                        step->change[kept++] = step->change[i];
        }
        step->changes = (uint8_t)kept;
}

/* False: nothing is left of it. */
static bool tame_step(const struct sequence *s, struct seq_step *step)
{
        const struct srp_template *t = srp_template(step->template);

        if (step->kind != SEQ_PDU)
                return step->kind != SEQ_RAW;
        keep_meaning(s, step);
        if (t->base.type == SRP_CMD)
                return scsi_is_harmless(t->cdb[0]);
        return t->base.type != SRP_TSK_MGMT || is_own_business(t->function);
}

void srp_tame(struct sequence *s)
{
        for (unsigned i = s->steps; i-- > 0;)
                if (!tame_step(s, &s->step[i]))
                        seq_remove(s, i);
}
