/* SPDX-License-Identifier: BSD-3-Clause */
#include "plant.h"

#include <stddef.h>
#include <string.h>

#ifdef NVMF_PLANT

enum plant plant_on;

static const struct plant_info plants[] = {
        { NULL, NULL, NULL, NULL },
#define PLANT(symbol, ...) { __VA_ARGS__ },
#include "plants.def"
#undef PLANT
};

const struct plant_info *plant_get(enum plant p)
{
        return p > PLANT_NONE && p < PLANTS ? &plants[p] : NULL;
}

bool plant_switch_on(const char *name)
{
        for (enum plant p = PLANT_NONE + 1; p < PLANTS; p++)
                if (strcmp(plants[p].name, name) == 0) {
                        plant_on = p;
                        return true;
                }
        return false;
}

#else

const struct plant_info *plant_get(enum plant p)
{
        (void)p;
        return NULL;
}

bool plant_switch_on(const char *name)
{
        (void)name;
        return false;
}

#endif
