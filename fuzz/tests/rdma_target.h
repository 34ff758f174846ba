/* SPDX-License-Identifier: BSD-3-Clause */
/* A target over RDMA in memory, and how it is played to; of one test. */
#ifndef NVMF_FUZZ_TESTS_RDMA_TARGET_H
#define NVMF_FUZZ_TESTS_RDMA_TARGET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/campaign/campaign.h" /* before cmocka, whose fail() is a macro */
#include "fuzz/nvme/peer.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/nvme/target.h"

#include <cmocka.h>

static struct verbs_provider *verbs;
static struct target *target;
static struct rule_policy policy;
static char port[16];
static struct nvme_peer peer;
static struct campaign_config config;

static void start(const struct rule_policy *spoilt)
{
        struct target_options t = {
                .trtype = TRTYPE_RDMA, .trsvcid = "0", .quiet = true, .limits = { .receives = 4096 }
        };
        struct memory_caps caps;
        char error[200];

        memory_caps_default(&caps);
        caps.device.srq_wrs = 4096;
        verbs = verbs_memory_new(&caps);
        assert_non_null(verbs);
        t.verbs = verbs;
        if (spoilt)
                t.policy = *spoilt;
        target = target_start(&t, error, sizeof(error));
        if (!target)
                fail_msg("%s", error);
        snprintf(port, sizeof(port), "%u", target_trsvcid(target));
        policy = (struct rule_policy) { 0 };
        config = (struct campaign_config) { .seed = 1, .runs = 300, .jobs = 4, .minimise = 5000 };
        peer.host = host_params_default();
        config.target.family = &nvme_fuzz;
        config.target.transport = SEQ_RDMA;
        config.target.peer = &peer;
        peer.avoid = NULL;
        peer.host.transport = HOST_RDMA;
        peer.host.verbs = verbs;
        peer.host.traddr = "127.0.0.1";
        peer.host.trsvcid = port;
        peer.host.subnqn = TARGET_NQN;
        config.target.timeout = peer.host.timeout = 5000;
        peer.host.policy = &policy;
        config.target.settle = 10;
        config.target.hang = 3000;
        config.target.delay = 1;
}

static void stop(void)
{
        target_stop(target);
        verbs_memory_free(verbs);
}

#endif
