/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs.h"

static const char *name_of(const char *const *names, size_t count, unsigned i)
{
        return i < count && names[i] ? names[i] : "unknown";
}
#define NAME_OF(names, i) name_of(names, sizeof(names) / sizeof(*(names)), (unsigned)(i))

const char *verbs_op_name(enum verbs_op op)
{
        static const char *const names[] = {
                [VERBS_SEND] = "SEND",
                [VERBS_SEND_INVALIDATE] = "SEND with invalidate",
                [VERBS_READ] = "RDMA READ",
                [VERBS_WRITE] = "RDMA WRITE",
                [VERBS_RECV] = "RECV",
                [VERBS_BIND] = "window bind",
                [VERBS_INVALIDATE] = "local invalidate",
        };

        return NAME_OF(names, op);
}

const char *verbs_status_name(enum verbs_status s)
{
        static const char *const names[VERBS_STATUSES] = {
                [VERBS_SUCCESS] = "success",
                [VERBS_LOCAL_LENGTH] = "local length error",
                [VERBS_LOCAL_QP] = "local queue pair operation error",
                [VERBS_LOCAL_PROTECTION] = "local protection error",
                [VERBS_FLUSHED] = "flushed",
                [VERBS_BIND_ERROR] = "memory window bind error",
                [VERBS_BAD_RESPONSE] = "bad response error",
                [VERBS_LOCAL_ACCESS] = "local access error",
                [VERBS_REMOTE_INVALID] = "remote invalid request error",
                [VERBS_REMOTE_ACCESS] = "remote access error",
                [VERBS_REMOTE_OPERATION] = "remote operation error",
                [VERBS_RETRY_EXCEEDED] = "transport retry count exceeded",
                [VERBS_RNR_EXCEEDED] = "RNR retry count exceeded",
                [VERBS_FATAL] = "fatal error",
                [VERBS_GENERAL] = "general error",
        };

        return NAME_OF(names, s);
}

const char *verbs_event_name(enum verbs_event_type t)
{
        static const char *const names[] = {
                [VERBS_CONNECT_REQUEST] = "connect request",
                [VERBS_RESOLVED] = "resolved",
                [VERBS_ESTABLISHED] = "established",
                [VERBS_REJECTED] = "rejected",
                [VERBS_UNREACHABLE] = "unreachable",
                [VERBS_CONNECT_ERROR] = "connect error",
                [VERBS_DISCONNECTED] = "disconnected",
                [VERBS_TIMEWAIT_EXIT] = "timewait exit",
                [VERBS_DEVICE_REMOVED] = "device removed",
                [VERBS_ADDR_CHANGE] = "address change",
                [VERBS_LAST_WQE] = "last WQE reached",
                [VERBS_QP_ERROR] = "queue pair error",
                [VERBS_PORT_DOWN] = "port down",
                [VERBS_PORT_UP] = "port up",
        };

        return NAME_OF(names, t);
}
