/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include "pcap/trace/words.h"
#include "pdu/srp/wire/family.h"

enum { CONSUMER = 28, LOGIN_RSP = 52, LOGIN_REJ = 32 };

/* --- the IU of an event ----------------------------------------------------------------------- */

struct iu {
        const void *p; /* NULL: none */
        uint32_t n;
};

/* Private data is padded, and shows no more than the IU that it is. */
static struct iu iu_of(const struct srp_record *r)
{
        const struct trace_event *e = r->e;
        struct iu iu = { 0 };

        if (e->kind == TRACE_CAPSULE) {
                iu.p = e->capsule.data;
                iu.n = e->capsule.known;
        } else if (e->kind == TRACE_ACCEPT ||
                   (e->kind == TRACE_REJECT && e->cm.reason == CONSUMER)) {
                uint32_t most = e->kind == TRACE_ACCEPT ? LOGIN_RSP : LOGIN_REJ;

                iu.p = e->cm.data;
                iu.n = e->cm.len < most ? e->cm.len : most;
        }
        return iu;
}

/* --- words ------------------------------------------------------------------------------------ */

static void cm_words(struct text *t, const struct srp_record *r)
{
        static const char *const names[] = { "REQUEST", "ACCEPT", "REJECT" };
        const struct trace_cm *cm = &r->e->cm;
        struct srp_login_req login;
        struct iu iu = iu_of(r);

        text_add(t, "%s ", names[r->e->kind - TRACE_REQUEST]);
        if (r->e->kind == TRACE_REQUEST) {
                (void)srp_login_read(cm->data, cm->len, false, &login);
                srp_line(t, &login, sizeof(login), 0);
        } else if (iu.p) {
                srp_line(t, iu.p, iu.n, 0);
        } else {
                text_add(t, "by the connection manager, reason %u", cm->reason);
        }
        if (cm->depths && r->e->kind != TRACE_REJECT)
                text_add(t, ", READs in %u out %u", cm->reads_in, cm->reads_out);
}

static void iu_words(struct text *t, const struct srp_record *r)
{
        const struct trace_capsule *c = &r->e->capsule;

        srp_line(t, c->data, c->known, r->imm_at);
        if (c->known < c->len)
                text_add(t, ", not complete in the capture");
}

bool srp_is_on_nvme_port(const struct trace_conn *c)
{
        uint16_t port = c->end[PARTY_CONTROLLER].port;

        return port == 4420 || port == 8009;
}

const char *srp_place(const struct trace_conn *c)
{
        return srp_is_on_nvme_port(c) ? ", SRP on a port of NVMe" : ", SRP";
}

void srp_words(struct text *t, const void *record)
{
        const struct srp_record *r = record;
        const struct trace_event *e = r->e;

        if (words_event(t, e, e->kind == TRACE_OPENED ? srp_place(e->conn) : NULL))
                return;
        if (e->kind == TRACE_CAPSULE)
                iu_words(t, r);
        else if (e->kind >= TRACE_REQUEST && e->kind <= TRACE_REJECT)
                cm_words(t, r);
}

/* --- fields ----------------------------------------------------------------------------------- */

static void describe_cm(const struct describe *d, const struct srp_record *r)
{
        const struct trace_cm *cm = &r->e->cm;
        struct srp_login_req login;
        struct iu iu = iu_of(r);

        if (cm->depths && r->e->kind != TRACE_REJECT) {
                d->number(d->arg, "reads_in", cm->reads_in, 16, NULL);
                d->number(d->arg, "reads_out", cm->reads_out, 16, NULL);
        }
        if (r->e->kind == TRACE_REJECT)
                d->number(d->arg, "cm_reason", cm->reason, 16, NULL);
        if (r->e->kind == TRACE_REQUEST) {
                (void)srp_login_read(cm->data, cm->len, false, &login);
                srp_describe(d, &login, sizeof(login), 0);
        } else if (iu.p) {
                srp_describe(d, iu.p, iu.n, 0);
        }
}

void srp_fields(const struct describe *d, const void *record)
{
        const struct srp_record *r = record;
        const struct trace_event *e = r->e;

        if (e->kind == TRACE_CAPSULE) {
                d->number(d->arg, "len", e->capsule.len, 32, NULL);
                srp_describe(d, e->capsule.data, e->capsule.known, r->imm_at);
        } else if (!words_fields(d, e) && e->kind >= TRACE_REQUEST && e->kind <= TRACE_REJECT) {
                describe_cm(d, r);
        }
}
