/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_templates.h"

/* clang-format off */
#define CDB(...) .cdb = { __VA_ARGS__ }
#define COMMAND(called, bytes, ...)                                                                \
        { .base = { .name = (called), .message = "SRP_CMD", .type = SRP_CMD, .command = true, .data_len = (bytes) }, ##__VA_ARGS__ }
#define NOTHING(called, ...) COMMAND(called, 0, ##__VA_ARGS__)
#define IN(called, bytes, ...) COMMAND(called, bytes, .way = SRP_FROM_TARGET, ##__VA_ARGS__)
#define OUT(called, bytes, ...) COMMAND(called, bytes, .way = SRP_TO_TARGET, ##__VA_ARGS__)
#define MANAGE(called, code)                                                                       \
        { .base = { .name = (called), .message = "SRP_TSK_MGMT", .type = SRP_TSK_MGMT }, .function = (code) }
#define PLAIN(called, spec, code) { .base = { .name = (called), .message = (spec), .type = (code) } }

static const struct srp_template templates[] = {
        PLAIN("login", "SRP_LOGIN_REQ", SRP_LOGIN_REQ),
        PLAIN("logout", "SRP_I_LOGOUT", SRP_I_LOGOUT),
        PLAIN("cred_rsp", "SRP_CRED_RSP", SRP_CRED_RSP),
        PLAIN("aer_rsp", "SRP_AER_RSP", SRP_AER_RSP),
        NOTHING("ready", CDB(SCSI_TEST_UNIT_READY)),
        NOTHING("sync", CDB(SCSI_SYNC_CACHE_10)),
        NOTHING("verify", CDB(SCSI_VERIFY_10, [8] = 8)),
        NOTHING("long_cdb", CDB(0x7f, [7] = 8), .add_cdb = 16),
        IN("inquiry", 36, CDB(SCSI_INQUIRY, [4] = 36)),
        IN("page", 255, CDB(SCSI_INQUIRY, 1, 0x83, 0, 255)),
        IN("luns", 256, CDB(SCSI_REPORT_LUNS, [8] = 1)),
        IN("capacity", 8, CDB(SCSI_READ_CAPACITY_10)),
        IN("capacity16", 32, CDB(SCSI_SERVICE_IN_16, SCSI_READ_CAPACITY_16, [13] = 32)),
        IN("mode", 192, CDB(SCSI_MODE_SENSE_6, 0, 0x3f, 0, 192)),
        IN("sense", 18, CDB(SCSI_REQUEST_SENSE, [4] = 18)),
        IN("opcodes", 256, CDB(SCSI_MAINTENANCE_IN, SCSI_REPORT_OPCODES, [8] = 1)),
        IN("read", 4096, CDB(SCSI_READ_10, [8] = 8)),
        IN("read16", 4096, CDB(SCSI_READ_16, [13] = 8)),
        IN("read_table", 4096, CDB(SCSI_READ_10, [8] = 8), .shape = SRP_AS_TABLE),
        IN("read_external", 4096, CDB(SCSI_READ_10, [8] = 8), .shape = SRP_AS_EXTERNAL),
        OUT("write", 4096, CDB(SCSI_WRITE_10, [8] = 8)),
        OUT("write16", 4096, CDB(SCSI_WRITE_16, [13] = 8)),
        OUT("write_table", 4096, CDB(SCSI_WRITE_10, [8] = 8), .shape = SRP_AS_TABLE),
        OUT("write_external", 4096, CDB(SCSI_WRITE_10, [8] = 8), .shape = SRP_AS_EXTERNAL),
        OUT("write_immediate", 512, CDB(SCSI_WRITE_10, [8] = 1), .shape = SRP_AS_IMMEDIATE),
        OUT("write_same", 512, CDB(SCSI_WRITE_SAME_16, [13] = 8)),
        OUT("compare_write", 1024, CDB(SCSI_COMPARE_WRITE, [13] = 1)),
        OUT("unmap", 24, CDB(SCSI_UNMAP, [8] = 24)),
        COMMAND("both", 512, CDB(0x53, [8] = 1), .way = SRP_BOTH_WAYS),
        MANAGE("abort_task", SRP_TM_ABORT_TASK),
        MANAGE("abort_set", SRP_TM_ABORT_TASK_SET),
        MANAGE("clear_set", SRP_TM_CLEAR_TASK_SET),
        MANAGE("reset_lun", SRP_TM_LUN_RESET),
        MANAGE("clear_aca", SRP_TM_CLEAR_ACA),
};
/* clang-format on */
enum { TEMPLATES = sizeof(templates) / sizeof(templates[0]) };

const struct seq_template *srp_template_at(unsigned transport, enum party side, unsigned n)
{
        return transport == 0 && side == PARTY_HOST && n < TEMPLATES ? &templates[n].base : NULL;
}

/* --- fields ------------------------------------------------------------------------------------ */

#define WORK(called, member)                                                                       \
        FIELD_AT(called, offsetof(struct srp_said, member), sizeof(((struct srp_said *)0)->member))
#define OF_CDB(called, at, size)                                                                   \
        FIELD_AT(called, offsetof(struct srp_said, iu.cmd.cdb) + (at), (size), .big = true)

static const struct field of_login[] = {
        WORK("len", len),
        WORK("reads_in", reads_in),
        WORK("reads_out", reads_out),
        { 0 },
};
static const struct field of_command[] = {
        WORK("len", len),          WORK("addr", addr),
        WORK("key", key),          WORK("bytes", bytes),
        WORK("total", total),      OF_CDB("op", 0, 1),
        OF_CDB("service", 1, 1),   OF_CDB("page", 2, 1),
        OF_CDB("lba", 2, 4), /* of a CDB of ten bytes, and its blocks */
        OF_CDB("blocks", 7, 2),    OF_CDB("lba16", 2, 8),
        OF_CDB("blocks16", 10, 4), { 0 },
};
static const struct field of_others[] = { WORK("len", len), { 0 } };

void srp_template_fields(unsigned transport, const struct seq_template *t,
                         const struct field *table[FUZZ_FIELD_TABLES])
{
        (void)transport;
        table[0] = t->type == SRP_LOGIN_REQ ? of_login
                   : t->type == SRP_CMD     ? of_command
                                            : of_others;
        table[1] = srp_info(t->type)->fields;
}
