/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of a subcommand, and the subcommands. */
#ifndef NVMF_HOST_CALL_H
#define NVMF_HOST_CALL_H

#include "args.h"
#include "pdu/nvme/wire/nvme.h"

struct call {
        const struct args *args;
        char **words; /* that are no options */
        int count;
        struct host_ctrl *ctrl; /* connected, unless the subcommand connects by itself */
};

/* 0, or -1 and e: its kind is the exit code. */
typedef int call_fn(struct call *call, struct host_error *e);

call_fn call_discover, call_identify, call_list, call_get_log, call_get_feature, call_set_feature;
call_fn call_read, call_write, call_compare, call_flush, call_zeroes, call_dsm;
call_fn call_verify, call_perf, call_raw;

call_fn check_identify, check_log, check_feature, check_set_feature, check_dsm, check_perf;

struct call_ns {
        uint32_t nsid, block_size; /* bytes */
        uint64_t blocks;
        unsigned metadata; /* bytes of each block besides */
};
/* For those that work on a namespace: Identify Namespace of --nsid. 0; -1: e says why, also if it has no blocks. */
int call_namespace(struct call *call, struct call_ns *ns, struct host_error *e);
/* The same for those that transfer its blocks: an error if metadata would come and go with them. */
int call_blocks(struct call *call, struct call_ns *ns, struct host_error *e);

#endif
