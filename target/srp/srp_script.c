/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_script.h"

#include <string.h>

#include "srp_conn.h"

static const struct srp_script *script_of(const struct srp_conn *c)
{
        return srp_service_of(c->base.reactor)->script;
}

void srp_script_heard(const struct srp_conn *c, const void *iu, uint32_t n)
{
        const struct srp_script *s = script_of(c);

        if (s)
                s->heard(s->user, c, iu, n);
}

void srp_script_login(const struct srp_service *service, const struct srp_conn *c, uint8_t *iu,
                      uint8_t *len)
{
        const struct srp_script *s = service->script;
        struct srp_said said = { .iu = iu, .len = *len };

        if (!s)
                return;
        s->say(s->user, c, &said);
        *len = (uint8_t)said.len;
}

/* NULL: too many are out already. */
static struct verbs_wr *more_of(struct srp_conn *c, const struct srp_said *said)
{
        for (unsigned i = 0; i < SRP_SCRIPT_MORE; i++) {
                struct srp_more *m = &c->more[i];

                if (m->out)
                        continue;
                m->out = true;
                memcpy(m->iu, said->more, said->more_len);
                m->wr = (struct verbs_wr) { .op = VERBS_SEND,
                                            .flags = VERBS_SIGNALED | VERBS_INLINE,
                                            .n_sge = 1,
                                            .sge = { { m->iu, said->more_len, 0 } } };
                return &m->wr;
        }
        return NULL;
}

/* After wr; the last of them. */
static struct verbs_wr *insert_more(struct srp_conn *c, const struct srp_said *said,
                                    struct verbs_wr *wr)
{
        struct verbs_wr *more;

        for (unsigned i = 0; i < said->more_times && (more = more_of(c, said)) != NULL; i++) {
                more->next = wr->next;
                wr->next = more;
                wr = more;
        }
        return wr;
}

void srp_script_edit(struct srp_conn *c, struct verbs_wr *chain)
{
        const struct srp_script *s = script_of(c);

        for (struct verbs_wr *wr = s ? chain : NULL; wr; wr = wr->next) {
                struct srp_said said = { .iu = wr->sge[0].addr, .len = wr->sge[0].len };

                if (wr->op != VERBS_SEND)
                        continue;
                s->say(s->user, c, &said);
                wr->sge[0].len = said.len;
                wr = insert_more(c, &said, wr); /* these are said as they are */
        }
}

bool srp_script_completed(struct srp_conn *c, const struct verbs_wr *wr)
{
        for (unsigned i = 0; i < SRP_SCRIPT_MORE; i++)
                if (wr == &c->more[i].wr) {
                        c->more[i].out = false;
                        return true;
                }
        return false;
}
