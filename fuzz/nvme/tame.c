/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzzer may ask of a target whose data and settings are not its own. */
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"
#include "peer.h"

static bool in(const uint8_t *list, size_t n, uint8_t v)
{
        return memchr(list, v, n) != NULL;
}

/* Of features: those that live no longer than the association. Saving them is something else. */
static bool is_fleeting(uint32_t cdw10)
{
        static const uint8_t features[] = { FEAT_QUEUES, FEAT_AEC, FEAT_KATO, FEAT_HOSTID };

        return in(features, sizeof(features), cdw10 & 0xff) && !(cdw10 >> 31);
}

bool nvme_harms(const union sqe *sqe, bool admin)
{
        /* of either kind of queue: what is one thing here may be another one there */
        static const uint8_t harmless[] = { NVME_FABRICS, NVME_FLUSH,     NVME_READ,
                                            NVME_COMPARE, NVME_IDENTIFY,  NVME_GET_FEATURES,
                                            NVME_AER,     NVME_KEEP_ALIVE };

        if (in(harmless, sizeof(harmless), sqe->opc))
                return false;
        if (admin && sqe->opc == NVME_SET_FEATURES)
                return !is_fleeting(le32_get(sqe->cdw10));
        return !admin || sqe->opc != NVME_ABORT;
}

bool nvme_may_command(struct remote_conn *c, const union sqe *sqe, bool admin)
{
        nvme_asks(c, sqe, admin);
        c->joining |= sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT;
        c->aers += admin && sqe->opc == NVME_AER;
        return c->session->target->allow_write || !nvme_harms(sqe, admin);
}

static void keep_opcode(const struct sequence *s, struct seq_step *step)
{
        const struct field *opc = seq_field(&nvme_fuzz, s->transport, step->template, "sqe.opc");
        unsigned kept = 0;

        for (unsigned i = 0; i < step->changes; i++)
                if (step->change[i].field != opc)
                        step->change[kept++] = step->change[i];
        step->changes = (uint8_t)kept;
}

/* False: nothing is left of it. */
static bool tame_step(const struct sequence *s, struct seq_step *step)
{
        const struct nvme_template *t = nvme_template(step->template);
        union sqe sqe = { 0 };

        if (step->kind != SEQ_PDU)
                return step->kind != SEQ_RAW;
        if (t->base.type != PDU_CAPSULE_CMD)
                return true;
        if (t->opc == NVME_WRITE)
                step->template = nvme_template_by_name(
                    s->transport, PARTY_HOST, t->sgl == SGL_IN_CAPSULE ? "compare" : "compare_r2t");
        keep_opcode(s, step);
        t = nvme_template(step->template);
        sqe.opc = t->opc;
        sqe.cdw10 = le32(t->cdw10);
        return !nvme_harms(&sqe, step->on == 0);
}

void nvme_tame(struct sequence *s)
{
        for (unsigned i = s->steps; i-- > 0;)
                if (!tame_step(s, &s->step[i]))
                        seq_remove(s, i);
}

uint8_t nvme_subject(const union sqe *sqe, bool admin)
{
        if (sqe->opc == NVME_FABRICS)
                return sqe->fctype == FCTYPE_PROPERTY_GET || sqe->fctype == FCTYPE_PROPERTY_SET
                           ? (uint8_t)le32_get(sqe->property.ofst)
                           : 0;
        if (admin && (sqe->opc == NVME_IDENTIFY || sqe->opc == NVME_GET_LOG_PAGE ||
                      sqe->opc == NVME_GET_FEATURES || sqe->opc == NVME_SET_FEATURES))
                return (uint8_t)le32_get(sqe->cdw10);
        return sqe->flags & SQE_FUSE_MASK;
}
