/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"
#include "seq_reading.h"

/* --- who speaks --------------------------------------------------------------------------------- */

void speaker_init(struct speaker *k, unsigned on, const struct speaker *admin)
{
        *k = (struct speaker) { .on = on };
        seq_bind_init(&k->bind, PARTY_HOST, k->hostnqn, k->subnqn);
        k->bind.qid = (uint16_t)on;
        k->bind.admin = admin ? &admin->bind : NULL;
}

void speaker_learn(struct speaker *k, const uint8_t *p, size_t n)
{
        struct connect_data data;

        if (n != sizeof(data) || k->hostnqn[0])
                return;
        memcpy(&data, p, sizeof(data));
        memcpy(k->bind.hostid, data.hostid, sizeof(k->bind.hostid));
        snprintf(k->hostnqn, sizeof(k->hostnqn), "%.*s", READING_NQN - 1,
                 (const char *)data.hostnqn);
        snprintf(k->subnqn, sizeof(k->subnqn), "%.*s", READING_NQN - 1, (const char *)data.subnqn);
}

/* --- what becomes of it ------------------------------------------------------------------------- */

void reading_end(struct reading *r)
{
        if (r->s.steps > 0 && !corpus_add(r->corpus, &r->s))
                r->no_memory = true;
        r->s = (struct sequence) { .family = &nvme_fuzz, .side = PARTY_HOST };
}

bool reading_find(struct reading *r, const struct fit_ops *ops, const struct speaker *k)
{
        r->fit.ops = ops;
        r->fit.bind = &k->bind;
        r->fit.room = (size_t)SEQ_POOL - r->s.pooled;
        return seq_fit(&r->fit);
}

bool reading_add(struct reading *r, const struct speaker *k, const struct sequence *from,
                 const struct seq_step *step)
{
        struct seq_step copy = *step;

        copy.on = (uint8_t)k->on;
        return seq_insert(&r->s, r->s.steps, from, &copy);
}

void reading_add_late(struct reading *r, struct speaker *k, enum seq_kind kind, const uint8_t *p,
                      size_t n)
{
        const struct seq_step delay = { .kind = SEQ_DELAY, .ms = READING_PAUSE_MS };
        struct seq_step step = { .kind = kind };
        struct sequence *one = &r->fit.trial;
        size_t room = (size_t)SEQ_POOL - r->s.pooled;

        if ((n > 0 && room == 0) || r->s.steps == SEQ_STEPS)
                return;
        if (k->answered)
                (void)seq_insert(&r->s, r->s.steps, &r->s, &delay);
        k->answered = false;
        one->pooled = 0;
        if (seq_pool(one, p, n < room ? n : room, &step.bytes))
                (void)reading_add(r, k, one, &step);
}

/* --- files -------------------------------------------------------------------------------------- */

bool seq_capture(struct corpus *c, const char *path, char *err)
{
        struct reading *r = calloc(1, sizeof(*r));
        unsigned before = c->n;
        bool ok;

        if (!r) {
                snprintf(err, CORPUS_ERROR, "%s: no memory", path);
                return false;
        }
        r->corpus = c;
        r->s.family = r->fit.trial.family = &nvme_fuzz;
        ok = capture_read_tcp(r, path, err) && capture_read_rdma(r, path, err);
        if (r->no_memory && !c->full)
                snprintf(err, CORPUS_ERROR, "%s: no memory", path);
        else if (r->no_memory)
                snprintf(err, CORPUS_ERROR, "%s: more than %u sequences", path, c->n);
        else if (ok && c->n == before)
                snprintf(err, CORPUS_ERROR, "%s: contains no NVMe connection from its start", path);
        ok &= !r->no_memory && c->n > before;
        free(r);
        return ok;
}
