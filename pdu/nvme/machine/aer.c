/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of a controller: Base 2.2 5.1.2 and the feature 0Bh. */
#include <string.h>

#include "controller.h"
#include "pdu/core/plant.h"

static uint32_t event_dw0(uint8_t type, uint8_t info, uint8_t lid)
{
        return (uint32_t)lid << 16 | (uint32_t)info << 8 | (type & 7);
}

static uint8_t event_lid(uint32_t dw0)
{
        return (uint8_t)(dw0 >> 16);
}

static void queue_event(struct controller *c, uint32_t dw0)
{
        for (unsigned i = 0; i < c->events; i++)
                if (c->event[i].dw0 == dw0)
                        return;
        if (c->events == CONTROLLER_EVENTS)
                return;
        c->event[c->events].dw0 = dw0;
        c->event[c->events++].dw1 = 0;
}

static bool violates(const struct controller *c, enum rule_id rule)
{
        return c->cfg.policy && rule_in(&c->cfg.policy->violated, rule);
}

/* Whether feature 0Bh asks for it; errors need no asking. */
static bool is_wanted(const struct controller *c, uint8_t type, uint8_t info)
{
        if (type == AEN_SMART && info == AEN_INFO_TEMPERATURE)
                return c->aec & AEC_TEMPERATURE;
        if (type != AEN_NOTICE || violates(c, AER_ASKED))
                return true;
        switch (info) {
        case AEN_INFO_NS_CHANGED:
                return c->aec & AEC_NS;
        case AEN_INFO_ANA:
                return c->aec & AEC_ANA;
        case AEN_INFO_ALLOCATED:
                return c->aec & AEC_ALLOCATED;
        case AEN_INFO_LBA_STATUS:
                return c->aec & AEC_LBA_STATUS;
        case AEN_INFO_DISCOVERY:
                return c->aec & AEC_DISCOVERY;
        default:
                return false;
        }
}

static bool is_masked(const struct controller *c, unsigned type)
{
        return c->masked >> (type & 7) & 1 && !violates(c, AER_MASKED);
}

static bool is_lost(const struct controller *c)
{
        return violates(c, AER_REPORTED) || (violates(c, AER_KEPT) && c->aers == 0);
}

void controller_event(struct controller *c, uint8_t type, uint8_t info, uint8_t lid)
{
        if (is_wanted(c, type, info) && !is_lost(c))
                queue_event(c, event_dw0(type, info, lid));
}

/* AER_HELD broken: something has always happened. */
static void make_up_event(struct controller *c)
{
        if (c->cfg.type == CONTROLLER_DISCOVERY)
                queue_event(c, event_dw0(AEN_NOTICE, AEN_INFO_DISCOVERY, LOG_DISCOVERY));
        else
                queue_event(c, event_dw0(AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS));
}

uint16_t controller_aer(struct controller *c, uint16_t cid, void *request)
{
        unsigned taken = c->aers + flawed(c->cfg.policy, FLAW_AER_ROOM);
        uint16_t status = taken > c->cfg.aerl ? rule_refuse(c->cfg.policy, AER_LIMIT) : 0;

        if (PLANTED(AER_OVERFLOW))
                status = 0;
        if (status)
                return status;
        if (c->aers == CONTROLLER_AERS &&
            !PLANTED(AER_OVERFLOW)) /* also where the limit is waived */
                return NVME_AER_LIMIT;
        c->aer[c->aers].cid = cid;
        c->aer[c->aers++].request = request;
        if (violates(c, AER_HELD))
                make_up_event(c);
        return 0;
}

static void *remove_request(struct controller *c, unsigned i)
{
        void *request = c->aer[i].request;

        c->aers--;
        memmove(&c->aer[i], &c->aer[i + 1], (c->aers - i) * sizeof(c->aer[0]));
        return request;
}

static void remove_event(struct controller *c, unsigned i)
{
        c->events--;
        memmove(&c->event[i], &c->event[i + 1], (c->events - i) * sizeof(c->event[0]));
}

void *controller_aer_pop(struct controller *c, struct cqe *cqe)
{
        unsigned type, i = 0;

        while (i < c->events && is_masked(c, c->event[i].dw0 & 7))
                i++;
        if (c->aers == 0 || i == c->events)
                return NULL;
        *cqe = (struct cqe) {
                .dw0 = le32(c->event[i].dw0),
                .dw1 = le32(c->event[i].dw1),
                .cid = le16(c->aer[0].cid),
        };
        type = c->event[i].dw0 & 7;
        if (type != AEN_IMMEDIATE)
                c->masked |= (uint8_t)(1u << type);
        c->masked_lid[type] = event_lid(c->event[i].dw0);
        remove_event(c, i);
        return remove_request(c, 0);
}

void controller_log_read(struct controller *c, uint8_t lid)
{
        for (unsigned type = 0; type < 8; type++)
                if (c->masked_lid[type] == lid)
                        c->masked &= (uint8_t) ~(1u << type);
        for (unsigned i = c->events; i-- > 0;)
                if (event_lid(c->event[i].dw0) == lid && !flawed(c->cfg.policy, FLAW_EVENT_STAYS))
                        remove_event(c, i);
}

void *controller_aer_take(struct controller *c, uint32_t cid)
{
        for (unsigned i = 0; i < c->aers; i++)
                if (cid == UINT32_MAX || c->aer[i].cid == cid)
                        return remove_request(c, i);
        return NULL;
}
