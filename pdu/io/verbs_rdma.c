/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_rdma.h"

#include <stdio.h>

struct verbs_provider *verbs_rdma(char *error, size_t size)
{
        snprintf(error, size, "built without RDMA");
        return NULL;
}
