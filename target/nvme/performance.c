/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Performance Characteristics, feature 1Ch (NVM Command Set 1.2 4.1.3.7): no latency is reported, and
 * hosts may save one attribute of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "admin.h"

enum {
        STANDARD = 0x00, /* attribute indexes */
        LIST = 0xc0,
        FIRST = 0xc1,
        IDENTIFIER = 16,   /* bytes */
        REVERT = 1 << 8,   /* of dw11 */
        SAVEABLE = 1 << 0, /* with FEATURE_CHANGEABLE */
};

struct performance {
        uint8_t index;
        uint8_t bytes[PERFORMANCE_LEN];
};

static uint16_t save(struct admin *a, struct performance **at, uint8_t index)
{
        struct performance *p;

        if (!(le32_get(a->r->sqe.cdw10) >> 31) && !has_flaw(a->env, FLAW_PERFORMANCE_UNSAVED))
                return NVME_INVALID_FIELD;
        if (*at && !has_flaw(a->env, FLAW_PERFORMANCE_FULL))
                return NVME_INVALID_FIELD;
        p = malloc(sizeof(*p));
        if (!p)
                return NVME_INTERNAL_ERROR;
        p->index = index;
        memcpy(p->bytes, a->r->data, PERFORMANCE_LEN);
        free(*at);
        *at = p;
        return 0;
}

static uint16_t revert(const struct admin *a, struct performance **at, uint8_t index)
{
        if (!*at || (*at)->index != index)
                return has_flaw(a->env, FLAW_PERFORMANCE_REVERT) ? NVME_INVALID_FIELD : 0;
        free(*at);
        *at = NULL;
        return 0;
}

static uint16_t set(struct admin *a, struct performance **at)
{
        uint32_t dw11 = le32_get(a->r->sqe.cdw11);
        uint8_t index = (uint8_t)dw11;

        if (index < FIRST)
                return NVME_INVALID_FIELD;
        return dw11 & REVERT ? revert(a, at, index) : save(a, at, index);
}

/* By default there is nothing in any attribute. */
static uint16_t get(struct admin *a, const struct performance *p, enum feature_select select)
{
        uint8_t index = (uint8_t)le32_get(a->r->sqe.cdw11), *data = a->r->data;

        memset(data, 0, PERFORMANCE_LEN);
        if (index > STANDARD && index < LIST)
                return NVME_INVALID_FIELD;
        if (index == LIST) {
                data[0] = has_flaw(a->env, FLAW_PERFORMANCE_TYPE) ? 0 : (uint8_t)select;
                data[1] = 1;
                data[2] = !p;
        }
        if (p && select != FEATURE_DEFAULT && index == LIST)
                memcpy(data + (size_t)(p->index - LIST) * IDENTIFIER, p->bytes, IDENTIFIER);
        if (p && select != FEATURE_DEFAULT && index == p->index)
                memcpy(data, p->bytes, PERFORMANCE_LEN);
        return 0;
}

uint16_t performance(struct admin *a, uint32_t *value)
{
        struct shared_features *f = &a->ctrl->subsystem->features;
        enum feature_select select = feature_select(&a->r->sqe);
        bool is_set = a->r->sqe.opc == NVME_SET_FEATURES;
        uint16_t status;

        if (!is_set && select > FEATURE_CAPABILITIES)
                return NVME_INVALID_FIELD;
        if (!is_set && select == FEATURE_CAPABILITIES) {
                *value = FEATURE_CHANGEABLE | SAVEABLE;
                return 0;
        }
        pthread_mutex_lock(&f->lock);
        status = is_set ? set(a, &f->performance) : get(a, f->performance, select);
        pthread_mutex_unlock(&f->lock);
        return status;
}
