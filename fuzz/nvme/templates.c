/* SPDX-License-Identifier: BSD-3-Clause */
#include "templates.h"

#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/text.h"

#define SECURITY ((uint32_t)AUTH_SECP << 24 | AUTH_SPSP << 16 | AUTH_SPSP << 8)

/* clang-format off */
#define FABRICS(called, fct, ...)                                                                 \
        { .base.name = (called), .base.message = "CapsuleCmd", .base.type = PDU_CAPSULE_CMD, .base.command = true, .opc = NVME_FABRICS, .fctype = (fct), ##__VA_ARGS__ }
#define COMMAND(called, code, ...)                                                                 \
        { .base.name = (called), .base.message = "CapsuleCmd", .base.type = PDU_CAPSULE_CMD, .base.command = true, .opc = (code), ##__VA_ARGS__ }
static const struct nvme_template of_host[] = { /* TCP's own, common ones, RDMA's own */
        { .base.name = "icreq", .base.message = "ICReq", .base.type = PDU_ICREQ },
        { .base.name = "h2c", .base.message = "H2CData", .base.type = PDU_H2C_DATA, .data = SEQ_PATTERN },
        { .base.name = "h2cterm", .base.message = "H2CTermReq", .base.type = PDU_H2C_TERM, .data = SEQ_RETURNED, .base.data_len = 24 },
        { .base.name = "kdreq", .base.message = "KDReq", .base.type = PDU_KDREQ },
        FABRICS("connect", FCTYPE_CONNECT, .sgl = SGL_IN_CAPSULE, .data = SEQ_CONNECT, .base.data_len = CONNECT_DATA_LEN),
        FABRICS("connect_r2t", FCTYPE_CONNECT, .sgl = SGL_TRANSPORT, .base.data_len = CONNECT_DATA_LEN),
        FABRICS("property_get", FCTYPE_PROPERTY_GET),
        FABRICS("property_set", FCTYPE_PROPERTY_SET),
        FABRICS("enable", FCTYPE_PROPERTY_SET, .cdw11 = PROP_CC, .cdw12 = CC_EN | CC_IOSQES | CC_IOCQES),
        FABRICS("disable", FCTYPE_PROPERTY_SET, .cdw11 = PROP_CC),
        FABRICS("disconnect", FCTYPE_DISCONNECT),
        FABRICS("auth_send", FCTYPE_AUTH_SEND, .sgl = SGL_IN_CAPSULE, .data = SEQ_AUTH, .base.data_len = 30, .cdw10 = SECURITY),
        FABRICS("auth_receive", FCTYPE_AUTH_RECEIVE, .sgl = SGL_TRANSPORT, .base.data_len = AUTH_RECEIVE_MAX, .cdw10 = SECURITY),
        COMMAND("identify", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .base.data_len = IDENTIFY_LEN, .cdw10 = CNS_CTRL),
        COMMAND("identify_ns", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .base.data_len = IDENTIFY_LEN, .cdw10 = CNS_NS, .nsid = 1),
        COMMAND("identify_list", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .base.data_len = IDENTIFY_LEN, .cdw10 = CNS_NS_LIST),
        COMMAND("get_smart", NVME_GET_LOG_PAGE, .sgl = SGL_TRANSPORT, .base.data_len = 512, .cdw10 = 127u << 16 | LOG_SMART),
        COMMAND("get_log", NVME_GET_LOG_PAGE, .sgl = SGL_TRANSPORT, .base.data_len = 1024, .cdw10 = 255u << 16 | LOG_DISCOVERY),
        COMMAND("set_features", NVME_SET_FEATURES, .cdw10 = FEAT_QUEUES, .cdw11 = 0x30003),
        COMMAND("set_kato", NVME_SET_FEATURES, .cdw10 = FEAT_KATO, .cdw11 = 10000),
        COMMAND("get_behavior", NVME_GET_FEATURES, .sgl = SGL_TRANSPORT, .base.data_len = 512, .cdw10 = FEAT_HOST_BEHAVIOR),
        COMMAND("set_hostid", NVME_SET_FEATURES, .sgl = SGL_IN_CAPSULE, .data = SEQ_PATTERN, .base.data_len = 16, .cdw10 = FEAT_HOSTID),
        COMMAND("get_features", NVME_GET_FEATURES, .cdw10 = FEAT_KATO),
        COMMAND("aer", NVME_AER),
        COMMAND("abort", NVME_ABORT),
        COMMAND("keep_alive", NVME_KEEP_ALIVE),
        COMMAND("flush", NVME_FLUSH, .nsid = 1, .io = true),
        COMMAND("read", NVME_READ, .sgl = SGL_TRANSPORT, .nsid = 1, .base.data_len = 4096, .cdw12 = 7, .io = true),
        COMMAND("write", NVME_WRITE, .sgl = SGL_TRANSPORT, .nsid = 1, .base.data_len = 4096, .cdw12 = 7, .io = true),
        COMMAND("write_icd", NVME_WRITE, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .base.data_len = 512, .io = true),
        COMMAND("compare", NVME_COMPARE, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .base.data_len = 512, .io = true),
        COMMAND("compare_r2t", NVME_COMPARE, .sgl = SGL_TRANSPORT, .nsid = 1, .base.data_len = 4096, .cdw12 = 7, .io = true),
        COMMAND("write_zeroes", NVME_WRITE_ZEROES, .nsid = 1, .cdw12 = 7, .io = true),
        COMMAND("dsm", NVME_DSM, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .base.data_len = sizeof(struct dsm_range), .cdw11 = 4, .io = true),
        { .base.name = "request", .base.type = SEQ_REQUEST },
};
enum { HOST_TCP = 4, HOST_RDMA = 1 };
#undef FABRICS
#undef COMMAND
#define CONTROLLER(called, spec, kind, ...)                                                        \
        { .base.name = (called), .base.message = (spec), .base.side = PARTY_CONTROLLER, .base.type = (kind), ##__VA_ARGS__ }
static const struct nvme_template of_controller[] = {
        CONTROLLER("icresp", "ICResp", PDU_ICRESP),
        CONTROLLER("c2h", "C2HData", PDU_C2H_DATA, .data = SEQ_PATTERN),
        CONTROLLER("r2t", "R2T", PDU_R2T),
        CONTROLLER("c2hterm", "C2HTermReq", PDU_C2H_TERM, .data = SEQ_RETURNED, .base.data_len = 24),
        CONTROLLER("kdresp", "KDResp", PDU_KDRESP),
        CONTROLLER("resp", "CapsuleResp", PDU_CAPSULE_RESP),
        CONTROLLER("accept", NULL, SEQ_ACCEPT),
        CONTROLLER("reject", NULL, SEQ_REJECT),
        CONTROLLER("read", NULL, SEQ_READ),
        CONTROLLER("write", NULL, SEQ_WRITE),
};
/* clang-format on */
enum { CONTROLLER_TCP = 5, CONTROLLER_RDMA = 4 };

#define COUNT(table) (sizeof(table) / sizeof(*(table)))
const struct seq_template *nvme_template_at(unsigned transport, enum party side, unsigned n)
{
        static const struct {
                const struct nvme_template *first;
                size_t n;
        } slices[2][2] = {
                { { of_host, COUNT(of_host) - HOST_RDMA },
                  { of_controller, COUNT(of_controller) - CONTROLLER_RDMA } },
                { { of_host + HOST_TCP, COUNT(of_host) - HOST_TCP },
                  { of_controller + CONTROLLER_TCP, COUNT(of_controller) - CONTROLLER_TCP } },
        };

        return n < slices[transport][side].n ? &slices[transport][side].first[n].base : NULL;
}

const struct seq_template *nvme_template_by_name(unsigned transport, enum party side,
                                                 const char *name)
{
        return seq_template(&nvme_fuzz, transport, side, name);
}

/* --- fields ------------------------------------------------------------------------------------- */

#define CAPSULE_FIELD(called, member)                                                              \
        FIELD_AT(called, offsetof(union seq_work, member), sizeof(((union seq_work *)0)->member))
#define SGL_FIELD(called, at, bytes) FIELD_AT(called, offsetof(union sqe, sgl) + (at), (bytes))

static const struct field of_command[] = {
        CAPSULE_FIELD("len", len),
        SGL_FIELD("sqe.sgl.len", offsetof(struct sgl_keyed, len), 3),
        SGL_FIELD("sqe.sgl.key", offsetof(struct sgl_keyed, key), 4),
        { 0 },
};
static const struct field of_response[] = {
        CAPSULE_FIELD("len", len),
        CAPSULE_FIELD("key", key),
        CAPSULE_FIELD("invalidate", invalidate),
        { 0 },
};
static const struct field of_private[] = {
        CAPSULE_FIELD("len", private_len),
        CAPSULE_FIELD("reads_in", reads_in),
        CAPSULE_FIELD("reads_out", reads_out),
        { 0 },
};
static const struct field of_transfer[] = {
        CAPSULE_FIELD("addr", transfer.addr),
        CAPSULE_FIELD("key", transfer.rkey),
        CAPSULE_FIELD("len", transfer.bytes),
        { 0 },
};

void nvme_template_fields(unsigned transport, const struct seq_template *t,
                          const struct field *table[FUZZ_FIELD_TABLES])
{
        static const struct {
                const struct field *own;
                const struct field *(*others)(void);
        } of_message[] = {
                { of_private, rdma_request_fields },
                { of_private, rdma_accept_fields },
                { of_private, rdma_reject_fields },
                { of_transfer, NULL },
                { of_transfer, NULL },
        };

        if (transport == SEQ_TCP) {
                table[0] = pdu_fields(t->type);
        } else if (t->type == PDU_CAPSULE_CMD || t->type == PDU_CAPSULE_RESP) {
                table[0] = t->type == PDU_CAPSULE_CMD ? of_command : of_response;
                table[1] = t->type == PDU_CAPSULE_CMD ? sqe_fields() : cqe_fields();
        } else {
                table[0] = of_message[t->type - SEQ_REQUEST].own;
                if (of_message[t->type - SEQ_REQUEST].others)
                        table[1] = of_message[t->type - SEQ_REQUEST].others();
        }
}
