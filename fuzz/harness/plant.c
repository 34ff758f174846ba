/* SPDX-License-Identifier: BSD-3-Clause */
/* Where bugs are planted, the environment variable NVMF_PLANT says which of them is there. */
#include "pdu/core/plant.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXIT_USAGE = 2 };

__attribute__((constructor)) static void plant(void)
{
        const char *name = getenv("NVMF_PLANT");

        if (!name || !*name || plant_switch_on(name))
                return;
        fprintf(stderr, "NVMF_PLANT: no planted bug '%s'\n", name);
        exit(EXIT_USAGE);
}
