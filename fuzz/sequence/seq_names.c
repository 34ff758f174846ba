/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in a sequence by name: templates, their fields, rules. All are in one hash table that is
 * made before main(): texts of sequences are read many thousand times a second.
 */
#include <ctype.h>
#include <string.h>

#include "sequence.h"

enum { PLACES = 2048, FIELDS = 48, RDMA_LISTS = 2 + SEQ_MESSAGES - SEQ_REQUEST };

/* The kinds of names: fields of each message, templates of each side and transport, rules. */
enum kind {
        OF_PDU = 0, /* + its type */
        OF_RDMA = OF_PDU + PDU_TYPES,
        TEMPLATES = OF_RDMA + RDMA_LISTS,
        RULE_NAMES = TEMPLATES + 4,
};

struct place {
        const char *name; /* NULL: free */
        unsigned kind;
        const void *what;
};

static struct place places[PLACES];
static unsigned used;
static const struct field *lists[TEMPLATES][FIELDS + 1];

static unsigned hash(unsigned kind, const char *name)
{
        unsigned h = kind + 1;

        for (; *name; name++)
                h = h * 0x01000193 ^ (uint8_t)*name;
        return h ^ h >> 15;
}

/* Its place, or the free one where it would be. */
static struct place *place_of(unsigned kind, const char *name)
{
        for (unsigned i = hash(kind, name);; i++) {
                struct place *p = &places[i % PLACES];

                if (!p->name || (p->kind == kind && strcmp(p->name, name) == 0))
                        return p;
        }
}

static void add(unsigned kind, const char *name, const void *what)
{
        struct place *p = place_of(kind, name);

        if (!p->name && used + 1 < PLACES) { /* one stays free, so that a search ends */
                *p = (struct place) { name, kind, what };
                used++;
        }
}

/* --- fields ------------------------------------------------------------------------------------- */

#define CAPSULE_FIELD(called, member)                                                              \
        FIELD_AT(called, offsetof(union seq_work, member), sizeof(((union seq_work *)0)->member))
#define SGL_FIELD(called, at, bytes)                                                               \
        FIELD_AT(called, offsetof(struct pdu_capsule_cmd, sqe.sgl) + (at), (bytes))

static const struct field of_command[] = {
        CAPSULE_FIELD("len", len),
        SGL_FIELD("sqe.sgl.len", offsetof(struct sgl_keyed, len), 3),
        SGL_FIELD("sqe.sgl.key", offsetof(struct sgl_keyed, key), 4),
        { 0 },
};
static const struct field of_response[] = {
        CAPSULE_FIELD("len", len),
        CAPSULE_FIELD("key", key),
        CAPSULE_FIELD("invalidate", invalidate),
        { 0 },
};
static const struct field of_private[] = {
        CAPSULE_FIELD("len", private_len),
        CAPSULE_FIELD("reads_in", reads_in),
        CAPSULE_FIELD("reads_out", reads_out),
        { 0 },
};
static const struct field of_transfer[] = {
        CAPSULE_FIELD("addr", transfer.addr),
        CAPSULE_FIELD("key", transfer.rkey),
        CAPSULE_FIELD("len", transfer.bytes),
        { 0 },
};

static unsigned kind_of(enum seq_transport transport, uint8_t type)
{
        if (transport == SEQ_TCP)
                return OF_PDU + type;
        return OF_RDMA + (type == PDU_CAPSULE_CMD    ? 0
                          : type == PDU_CAPSULE_RESP ? 1u
                                                     : 2u + type - SEQ_REQUEST);
}

/* Of two with one name the first counts. */
static void add_fields(unsigned kind, const struct field *f)
{
        const struct field **end = lists[kind];

        while (*end)
                end++;
        for (; f && f->name && end < &lists[kind][FIELDS]; f++) {
                if (place_of(kind, f->name)->name)
                        continue;
                add(kind, f->name, f);
                *end++ = f;
        }
}

static void add_short_names(unsigned kind)
{
        for (const struct field **f = lists[kind]; *f; f++)
                if (strncmp((*f)->name, "sqe.", 4) == 0 || strncmp((*f)->name, "cqe.", 4) == 0)
                        add(kind, (*f)->name + 4, *f);
}

/* A capsule has no common header. */
static const struct field *without_header(const struct field *f)
{
        while (f->name && f->offset < sizeof(struct pdu_ch))
                f++;
        return f;
}

static void add_all_fields(void)
{
        const struct {
                uint8_t type;
                const struct field *own, *others;
        } of_rdma[] = {
                { PDU_CAPSULE_CMD, of_command, without_header(pdu_fields(PDU_CAPSULE_CMD)) },
                { PDU_CAPSULE_RESP, of_response, without_header(pdu_fields(PDU_CAPSULE_RESP)) },
                { SEQ_REQUEST, of_private, rdma_request_fields() },
                { SEQ_ACCEPT, of_private, rdma_accept_fields() },
                { SEQ_REJECT, of_private, rdma_reject_fields() },
                { SEQ_READ, of_transfer, NULL },
                { SEQ_WRITE, of_transfer, NULL },
        };

        for (uint8_t type = 0; type < PDU_TYPES; type++)
                add_fields(OF_PDU + type, pdu_fields(type));
        for (size_t i = 0; i < sizeof(of_rdma) / sizeof(of_rdma[0]); i++) {
                add_fields(kind_of(SEQ_RDMA, of_rdma[i].type), of_rdma[i].own);
                add_fields(kind_of(SEQ_RDMA, of_rdma[i].type), of_rdma[i].others);
        }
        for (unsigned kind = 0; kind < TEMPLATES; kind++)
                add_short_names(kind);
}

const struct field *const *seq_fields(enum seq_transport transport, const struct seq_template *t)
{
        return lists[kind_of(transport, t->type)];
}

const struct field *seq_field(enum seq_transport transport, const struct seq_template *t,
                              const char *name)
{
        return place_of(kind_of(transport, t->type), name)->what;
}

/* --- templates, rules, statuses ----------------------------------------------------------------- */

static unsigned templates_of(enum seq_transport transport, enum party side)
{
        return TEMPLATES + 2 * (unsigned)transport + (unsigned)side;
}

static void add_templates(enum seq_transport transport, enum party side)
{
        size_t n;
        const struct seq_template *t = seq_templates(transport, side, &n);

        for (; n > 0; n--, t++)
                add(templates_of(transport, side), t->name, t);
}

const struct seq_template *seq_template(enum seq_transport transport, enum party side,
                                        const char *name)
{
        return place_of(templates_of(transport, side), name)->what;
}

enum rule_id seq_rule(const char *id)
{
        const struct place *p = place_of(RULE_NAMES, id);

        return p->name ? (enum rule_id)(uintptr_t)p->what : RULE_NONE;
}

__attribute__((constructor)) static void add_names(void)
{
        add_all_fields();
        for (unsigned i = 0; i < 4; i++)
                add_templates(i / 2, i % 2);
        rule_each (rule)
                add(RULE_NAMES, rule_get(rule)->id, (const void *)(uintptr_t)rule);
}

/* The word that stands for a character of a status's name. */
static char plain(char c)
{
        return c == ' ' ? '_' : (char)tolower((unsigned char)c);
}

void seq_status_name(enum verbs_status status, char name[SEQ_STATUS_NAME])
{
        const char *from = verbs_status_name(status);
        size_t n = 0;

        while (from[n] && n + 1 < SEQ_STATUS_NAME) {
                name[n] = plain(from[n]);
                n++;
        }
        name[n] = '\0';
}

enum verbs_status seq_status(const char *name)
{
        char known[SEQ_STATUS_NAME];

        for (enum verbs_status i = VERBS_SUCCESS + 1; i < VERBS_STATUSES; i++) {
                seq_status_name(i, known);
                if (strcmp(known, name) == 0)
                        return i;
        }
        return VERBS_STATUSES;
}
