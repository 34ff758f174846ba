/* SPDX-License-Identifier: BSD-3-Clause */
#include "pel.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"

struct pel_event {
        struct pel_event *older;
        uint32_t len;
        uint8_t bytes[];
};

enum {
        LOG_REVISION = 3,
        HEADER_LENGTH = LOG_PEL_HEADER - 20, /* LHL */
        EVENT_HEADER_LENGTH = sizeof(struct log_pel_event) - 3,
        OF_A_PORT = 1,
        MANDATORY = 1 << 2 | 1 << PEL_TIMESTAMP | 1 << PEL_RESET | 1 << 5 | 1 << PEL_SET_FEATURE,
        OF_WHOLE = 1 << PEL_FORMAT_START | 1 << PEL_FORMAT_END | 1 << PEL_SANITIZE_START |
                   1 << PEL_SANITIZE_END | 1 << PEL_NAMESPACE,
};

void pel_init(struct pel *p)
{
        *p = (struct pel) { 0 };
        pthread_mutex_init(&p->lock, NULL);
}

void pel_fini(struct pel *p)
{
        for (struct pel_event *e = p->newest, *older; e; e = older) {
                older = e->older;
                free(e);
        }
        pthread_mutex_destroy(&p->lock);
}

static void drop_oldest(struct pel *p)
{
        struct pel_event **at = &p->newest;

        while ((*at)->older)
                at = &(*at)->older;
        p->count--;
        p->bytes -= (*at)->len;
        free(*at);
        *at = NULL;
}

void pel_add(struct pel *p, uint8_t type, const struct pel_from *from, const void *data, size_t n)
{
        size_t len = sizeof(struct log_pel_event) + n;
        struct pel_event *e = n <= UINT16_MAX ? malloc(sizeof(*e) + len) : NULL;
        struct log_pel_event head = {
                .type = type,
                .revision = type == PEL_FORMAT_END || type == PEL_NAMESPACE ? 2 : 1,
                .ehl = EVENT_HEADER_LENGTH,
                .ehai = OF_A_PORT,
                .cntlid = le16(from->cntlid),
                .port = le16(from->port_id),
                .el = le16((uint16_t)n),
        };

        if (!e)
                return;
        memcpy(head.stamp, from->stamp.bytes, sizeof(head.stamp));
        memcpy(e->bytes, &head, sizeof(head));
        memcpy(e->bytes + sizeof(head), data, n);
        e->len = (uint32_t)len;
        pthread_mutex_lock(&p->lock);
        e->older = p->newest;
        p->newest = e;
        p->count++;
        p->bytes += e->len;
        p->recorded++;
        while (p->newest && p->bytes > PEL_MOST - LOG_PEL_HEADER)
                drop_oldest(p);
        pthread_mutex_unlock(&p->lock);
}

static void fill_header(const struct pel *p, const struct pel_subject *about, struct log_pel *h)
{
        h->lid = LOG_PERSISTENT;
        h->tnev = le32(p->count);
        h->tll = le64(LOG_PEL_HEADER + p->bytes);
        h->revision = LOG_REVISION;
        h->lhl = le16(HEADER_LENGTH);
        memcpy(h->stamp, about->stamp.bytes, sizeof(h->stamp));
        le_put(h->power_cycles, sizeof(h->power_cycles), 1);
        h->vid = about->ctrl->vid;
        h->ssvid = about->ctrl->ssvid;
        memcpy(h->sn, about->ctrl->sn, sizeof(h->sn));
        memcpy(h->mn, about->ctrl->mn, sizeof(h->mn));
        strncpy(h->subnqn, about->subnqn, sizeof(h->subnqn) - 1);
        h->generation = le16(p->generation);
        le_put(h->events, 4, MANDATORY | (about->formats ? OF_WHOLE : 0));
}

struct pel_context *pel_context(struct pel *p, const struct pel_subject *about, bool oldest_first,
                                bool still)
{
        struct pel_context *c;
        uint32_t at = LOG_PEL_HEADER;

        pthread_mutex_lock(&p->lock);
        c = calloc(1, sizeof(*c) + LOG_PEL_HEADER + p->bytes);
        if (c) {
                c->len = LOG_PEL_HEADER + p->bytes;
                if (p->told != p->recorded && !still)
                        p->generation++;
                p->told = p->recorded;
                fill_header(p, about, (struct log_pel *)(void *)c->bytes);
        }
        for (const struct pel_event *e = p->newest; c && e; e = e->older) {
                memcpy(c->bytes + (oldest_first ? c->len + LOG_PEL_HEADER - at - e->len : at),
                       e->bytes, e->len);
                at += e->len;
        }
        pthread_mutex_unlock(&p->lock);
        return c;
}
