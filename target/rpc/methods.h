/* SPDX-License-Identifier: BSD-3-Clause */
/* All methods and their parameters, for the table in rpc.c. */
#ifndef NVMF_TARGET_RPC_METHODS_H
#define NVMF_TARGET_RPC_METHODS_H

#include "pdu/io/jsonrpc.h"

#define METHOD_ROW(name, params, when_)                                                            \
        void rpc_##name(void *owner, const void *args, struct jsonrpc_call *call);                 \
        extern const struct jsonrpc_param params[];
#define none rpc_no_params
#include "methods.def"
#undef none
#undef METHOD_ROW

#endif
