/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme.h"

#include <inttypes.h>
#include <string.h>

#include "fabrics.h"
#include "text.h"

/* --- names ------------------------------------------------------------------------------------ */

static const struct word statuses[] = {
        { NVME_SUCCESS, "Success" },
        { NVME_INVALID_OPCODE, "Invalid Command Opcode" },
        { NVME_INVALID_FIELD, "Invalid Field in Command" },
        { NVME_CID_CONFLICT, "Command ID Conflict" },
        { NVME_DATA_TRANSFER_ERROR, "Data Transfer Error" },
        { NVME_POWER_LOSS_ABORT, "Aborted due to Power Loss Notification" },
        { NVME_INTERNAL_ERROR, "Internal Error" },
        { NVME_ABORT_REQUESTED, "Command Abort Requested" },
        { NVME_ABORT_SQ_DELETED, "Aborted due to SQ Deletion" },
        { NVME_ABORT_FAILED_FUSED, "Aborted due to Failed Fused Command" },
        { NVME_ABORT_MISSING_FUSED, "Aborted due to Missing Fused Command" },
        { NVME_INVALID_NS, "Invalid Namespace or Format" },
        { NVME_SEQUENCE_ERROR, "Command Sequence Error" },
        { NVME_SGL_SEGMENT, "Invalid SGL Segment Descriptor" },
        { NVME_SGL_COUNT, "Invalid Number of SGL Descriptors" },
        { NVME_SGL_LENGTH, "Data SGL Length Invalid" },
        { NVME_SGL_METADATA_LENGTH, "Metadata SGL Length Invalid" },
        { NVME_SGL_TYPE, "SGL Descriptor Type Invalid" },
        { 0x012, "Invalid Use of Controller Memory Buffer" },
        { 0x013, "PRP Offset Invalid" },
        { 0x014, "Atomic Write Unit Exceeded" },
        { NVME_OPERATION_DENIED, "Operation Denied" },
        { NVME_SGL_OFFSET, "SGL Offset Invalid" },
        { NVME_HOSTID_INCONSISTENT, "Host Identifier Inconsistent Format" },
        { NVME_KATO_EXPIRED, "Keep Alive Timer Expired" },
        { NVME_KATO_INVALID, "Keep Alive Timeout Invalid" },
        { NVME_PREEMPTED, "Aborted due to Preempt and Abort" },
        { 0x01c, "Sanitize Failed" },
        { 0x01d, "Sanitize In Progress" },
        { NVME_SGL_GRANULARITY, "SGL Data Block Granularity Invalid" },
        { 0x01f, "Command Not Supported for Queue in CMB" },
        { 0x020, "Namespace is Write Protected" },
        { 0x021, "Command Interrupted" },
        { NVME_TRANSIENT_TRANSPORT, "Transient Transport Error" },
        { 0x023, "Prohibited by Command and Feature Lockdown" },
        { 0x024, "Admin Command Media Not Ready" },
        { NVME_HOSTID_NOT_SET, "Host Identifier Not Initialized" },
        { NVME_LBA_RANGE, "LBA Out of Range" },
        { NVME_CAPACITY_EXCEEDED, "Capacity Exceeded" },
        { NVME_NS_NOT_READY, "Namespace Not Ready" },
        { NVME_RESERVATION_CONFLICT, "Reservation Conflict" },
        { 0x084, "Format In Progress" },
        { 0x100, "Completion Queue Invalid" },
        { NVME_INVALID_QID, "Invalid Queue Identifier" },
        { 0x102, "Invalid Queue Size" },
        { NVME_ABORT_LIMIT, "Abort Command Limit Exceeded" },
        { NVME_AER_LIMIT, "Asynchronous Event Request Limit Exceeded" },
        { 0x106, "Invalid Firmware Slot" },
        { 0x107, "Invalid Firmware Image" },
        { 0x108, "Invalid Interrupt Vector" },
        { NVME_INVALID_LOG_PAGE, "Invalid Log Page" },
        { 0x10a, "Invalid Format" },
        { 0x10b, "Firmware Activation Requires Conventional Reset" },
        { 0x10c, "Invalid Queue Deletion" },
        { NVME_FEATURE_NOT_SAVEABLE, "Feature Identifier Not Saveable" },
        { NVME_FEATURE_NOT_CHANGEABLE, "Feature Not Changeable" },
        { NVME_FEATURE_NOT_NS, "Feature Not Namespace Specific" },
        { 0x110, "Firmware Activation Requires NVM Subsystem Reset" },
        { 0x111, "Firmware Activation Requires Controller Level Reset" },
        { 0x112, "Firmware Activation Requires Maximum Time Violation" },
        { 0x113, "Firmware Activation Prohibited" },
        { 0x114, "Overlapping Range" },
        { 0x115, "Namespace Insufficient Capacity" },
        { 0x116, "Namespace Identifier Unavailable" },
        { 0x118, "Namespace Already Attached" },
        { 0x119, "Namespace Is Private" },
        { 0x11a, "Namespace Not Attached" },
        { 0x11b, "Thin Provisioning Not Supported" },
        { 0x11c, "Controller List Invalid" },
        { 0x11d, "Device Self-test In Progress" },
        { 0x11f, "Invalid Controller Identifier" },
        { 0x124, "ANA Group Identifier Invalid" },
        { 0x125, "ANA Attach Failed" },
        { NVME_CONNECT_FORMAT, "Incompatible Format" },
        { NVME_CONNECT_BUSY, "Controller Busy" },
        { NVME_CONNECT_PARAM, "Connect Invalid Parameters" },
        { NVME_CONNECT_RESTART_DISCOVERY, "Connect Restart Discovery" },
        { NVME_CONNECT_HOST, "Connect Invalid Host" },
        { NVME_INVALID_QUEUE_TYPE, "Invalid Queue Type" },
        { NVME_NO_FAST_COPY, "Fast Copy Not Possible" },
        { NVME_OVERLAP, "Overlapping I/O Range" },
        { NVME_DISCOVER_RESTART, "Discover Restart" },
        { NVME_AUTH_REQUIRED, "Authentication Required" },
        { NVME_WRITE_FAULT, "Write Fault" },
        { NVME_UNRECOVERED_READ, "Unrecovered Read Error" },
        { NVME_GUARD_CHECK, "End-to-end Guard Check Error" },
        { NVME_APP_TAG_CHECK, "End-to-end Application Tag Check Error" },
        { NVME_REF_TAG_CHECK, "End-to-end Reference Tag Check Error" },
        { NVME_COMPARE_FAILURE, "Compare Failure" },
        { NVME_ACCESS_DENIED, "Access Denied" },
        { NVME_DEALLOCATED, "Deallocated or Unwritten Logical Block" },
        { 0x300, "Internal Path Error" },
        { NVME_ANA_LOSS, "Asymmetric Access Persistent Loss" },
        { NVME_ANA_INACCESSIBLE, "Asymmetric Access Inaccessible" },
        { NVME_ANA_TRANSITION, "Asymmetric Access Transition" },
        { 0x360, "Controller Pathing Error" },
        { 0x370, "Host Pathing Error" },
        { 0x371, "Command Aborted By Host" },
        { 0, NULL },
};

const char *status_name(uint16_t status)
{
        const char *name = word_for(statuses, status & STATUS_MASK);

        return name ? name : "Unknown Status";
}

/* The numbers that I/O commands have in common with Connect. */
static const struct word io_statuses[] = {
        { 0x180, "Conflicting Attributes" },
        { NVME_INVALID_PROTECTION, "Invalid Protection Information" },
        { 0x182, "Attempted Write to Read Only Range" },
        { NVME_COMMAND_SIZE, "Command Size Limit Exceeded" },
        { 0x184, "Invalid Command ID" },
        { NVME_INCOMPATIBLE, "Incompatible Namespace or Format" },
        { 0x188, "Namespace Not Reachable" },
        { 0x189, "Insufficient Resources" },
        { 0, NULL },
};

const char *status_name_of(const union sqe *s, uint16_t status)
{
        const char *name =
            s->opc == NVME_FABRICS ? NULL : word_for(io_statuses, status & STATUS_MASK);

        return name ? name : status_name(status);
}

static const struct word logs[] = {
        { LOG_SUPPORTED, "Supported Log Pages" },
        { LOG_ERROR, "Error Information" },
        { LOG_SMART, "SMART / Health" },
        { LOG_FW_SLOT, "Firmware Slot" },
        { LOG_CHANGED_NS, "Changed Namespaces" },
        { LOG_EFFECTS, "Commands Supported and Effects" },
        { LOG_ANA, "Asymmetric Namespace Access" },
        { LOG_FEATURE_EFFECTS, "Features Supported and Effects" },
        { LOG_MI_EFFECTS, "NVMe-MI Commands Supported and Effects" },
        { LOG_DISCOVERY, "Discovery" },
        { LOG_RESERVATION, "Reservation Notification" },
        { 0, NULL },
};

const char *log_name(uint8_t lid)
{
        return word_for(logs, lid);
}

static const struct word features[] = {
        { FEAT_ARBITRATION, "Arbitration" },
        { FEAT_POWER, "Power Management" },
        { FEAT_TEMP, "Temperature Threshold" },
        { FEAT_ERROR_RECOVERY, "Error Recovery" },
        { FEAT_WRITE_CACHE, "Volatile Write Cache" },
        { FEAT_QUEUES, "Number of Queues" },
        { FEAT_WRITE_ATOMICITY, "Write Atomicity Normal" },
        { FEAT_AEC, "Asynchronous Event Configuration" },
        { FEAT_TIMESTAMP, "Timestamp" },
        { FEAT_KATO, "Keep Alive Timer" },
        { FEAT_HOST_BEHAVIOR, "Host Behavior Support" },
        { FEAT_HOSTID, "Host Identifier" },
        { FEAT_RESERVATION_MASK, "Reservation Notification Mask" },
        { FEAT_RESERVATION_PERSISTENCE, "Reservation Persistence" },
        { FEAT_WRITE_PROTECT, "Namespace Write Protection Config" },
        { 0, NULL },
};

const char *feature_name(uint8_t fid)
{
        return word_for(features, fid);
}

static const struct word cnses[] = {
        { CNS_NS, "Namespace" },
        { CNS_CTRL, "Controller" },
        { CNS_NS_LIST, "Active Namespace List" },
        { CNS_NS_DESCS, "Namespace Identification Descriptors" },
        { CNS_IOCS_NS, "I/O Command Set Namespace" },
        { CNS_IOCS_CTRL, "I/O Command Set Controller" },
        { CNS_IOCS_NS_LIST, "I/O Command Set Active Namespace List" },
        { CNS_NS_INDEPENDENT, "Command Set Independent Namespace" },
        { CNS_ALLOCATED_NS_LIST, "Allocated Namespace List" },
        { CNS_ALLOCATED_NS, "Allocated Namespace" },
        { CNS_IOCS_ALLOCATED_NS_LIST, "I/O Command Set Allocated Namespace List" },
        { CNS_NS_CTRL_LIST, "Namespace Attached Controller List" },
        { CNS_CTRL_LIST, "Controller List" },
        { CNS_IOCS, "I/O Command Sets" },
        { 0, NULL },
};

/* --- commands: their name and the fields after the SGL --------------------------------------- */

static const struct field log_page_fields[] = {
        FIELD_AT("lid", 40, 1, .key = true, .words = logs),
        FIELD_AT("lsp", 41, 1, .bits = 7),
        FIELD_AT("rae", 41, 1, .shift = 7, .bits = 1),
        FIELD_AT("numdl", 42, 2),
        FIELD_AT("numdu", 44, 2),
        FIELD_AT("lsi", 46, 2),
        FIELD_AT("lpo", 48, 8),
        FIELD_AT("ot", 58, 1, .shift = 7, .bits = 1),
        FIELD_AT("csi", 59, 1),
        { 0 },
};
static const struct field identify_fields[] = {
        FIELD_AT("cns", 40, 1, .key = true, .words = cnses),
        FIELD_AT("cntid", 42, 2),
        FIELD_AT("csi", 47, 1),
        { 0 },
};
static const struct field abort_fields[] = {
        FIELD_AT("sqid", 40, 2),
        FIELD_AT("cdid", 42, 2, .key = true), /* CID of the command to abort */
        { 0 },
};
static const struct field set_features_fields[] = {
        FIELD_AT("fid", 40, 1, .key = true, .words = features),
        FIELD_AT("sv", 43, 1, .shift = 7, .bits = 1),
        FIELD_AT("cdw11", 44, 4),
        { 0 },
};
static const struct field get_features_fields[] = {
        FIELD_AT("fid", 40, 1, .key = true, .words = features),
        FIELD_AT("sel", 41, 1, .bits = 3,
                 .words = WORDS({ 0, "current" }, { 1, "default" }, { 2, "saved" },
                                { 3, "capabilities" })),
        FIELD_AT("cdw11", 44, 4),
        { 0 },
};
static const struct field blocks_fields[] = {
        /* Read, Write, Compare, ... */
        FIELD_AT("slba", 40, 8, .key = true),
        FIELD_AT("nlb", 48, 2, .kind = FIELD_ZERO_BASED),
        FIELD_AT("deac", 51, 1, .shift = 1, .bits = 1),
        FIELD_AT("prinfo", 51, 1, .shift = 2, .bits = 4),
        FIELD_AT("fua", 51, 1, .shift = 6, .bits = 1),
        FIELD_AT("lr", 51, 1, .shift = 7, .bits = 1),
        { 0 },
};
static const struct field dsm_fields[] = {
        FIELD_AT("nr", 40, 1, .kind = FIELD_ZERO_BASED),
        FIELD_AT("attributes", 44, 4, .kind = FIELD_BITS,
                 .words = WORDS({ 1 << 0, "integral read" }, { 1 << 1, "integral write" },
                                { 1 << 2, "deallocate" })),
        { 0 },
};
static const struct word reservation_types[] = {
        { 1, "Write Exclusive" },
        { 2, "Exclusive Access" },
        { 3, "Write Exclusive - Registrants Only" },
        { 4, "Exclusive Access - Registrants Only" },
        { 5, "Write Exclusive - All Registrants" },
        { 6, "Exclusive Access - All Registrants" },
        { 0, NULL },
};
static const struct field register_fields[] = {
        FIELD_AT("rrega", 40, 1, .bits = 3,
                 .words = WORDS({ 0, "register" }, { 1, "unregister" }, { 2, "replace" })),
        FIELD_AT("iekey", 40, 1, .shift = 3, .bits = 1),
        FIELD_AT("cptpl", 43, 1, .shift = 6, .bits = 2),
        { 0 },
};
static const struct field acquire_fields[] = {
        FIELD_AT("racqa", 40, 1, .bits = 3,
                 .words = WORDS({ 0, "acquire" }, { 1, "preempt" }, { 2, "preempt and abort" })),
        FIELD_AT("iekey", 40, 1, .shift = 3, .bits = 1),
        FIELD_AT("rtype", 41, 1, .words = reservation_types),
        { 0 },
};
static const struct field release_fields[] = {
        FIELD_AT("rrela", 40, 1, .bits = 3, .words = WORDS({ 0, "release" }, { 1, "clear" })),
        FIELD_AT("iekey", 40, 1, .shift = 3, .bits = 1),
        FIELD_AT("rtype", 41, 1, .words = reservation_types),
        { 0 },
};
static const struct field report_fields[] = {
        FIELD_AT("numd", 40, 4, .kind = FIELD_ZERO_BASED),
        FIELD_AT("eds", 44, 1, .bits = 1),
        { 0 },
};
static const struct field no_fields[] = { { 0 } };

struct command {
        const char *name;
        const struct field *fields;
};

static const struct command admin_commands[] = {
        [NVME_DELETE_SQ] = { "Delete I/O Submission Queue", no_fields },
        [NVME_CREATE_SQ] = { "Create I/O Submission Queue", no_fields },
        [NVME_GET_LOG_PAGE] = { "Get Log Page", log_page_fields },
        [NVME_DELETE_CQ] = { "Delete I/O Completion Queue", no_fields },
        [NVME_CREATE_CQ] = { "Create I/O Completion Queue", no_fields },
        [NVME_IDENTIFY] = { "Identify", identify_fields },
        [NVME_ABORT] = { "Abort", abort_fields },
        [NVME_SET_FEATURES] = { "Set Features", set_features_fields },
        [NVME_GET_FEATURES] = { "Get Features", get_features_fields },
        [NVME_AER] = { "Asynchronous Event Request", no_fields },
        [NVME_KEEP_ALIVE] = { "Keep Alive", no_fields },
};
static const struct command io_commands[] = {
        [NVME_FLUSH] = { "Flush", no_fields },
        [NVME_WRITE] = { "Write", blocks_fields },
        [NVME_READ] = { "Read", blocks_fields },
        [NVME_WRITE_UNCORRECTABLE] = { "Write Uncorrectable", blocks_fields },
        [NVME_COMPARE] = { "Compare", blocks_fields },
        [NVME_WRITE_ZEROES] = { "Write Zeroes", blocks_fields },
        [NVME_DSM] = { "Dataset Management", dsm_fields },
        [NVME_VERIFY] = { "Verify", blocks_fields },
        [NVME_RESERVATION_REGISTER] = { "Reservation Register", register_fields },
        [NVME_RESERVATION_REPORT] = { "Reservation Report", report_fields },
        [NVME_RESERVATION_ACQUIRE] = { "Reservation Acquire", acquire_fields },
        [NVME_RESERVATION_RELEASE] = { "Reservation Release", release_fields },
        [NVME_COPY] = { "Copy", no_fields },
};

#define IN(table, i)                                                                               \
        ((i) < sizeof(table) / sizeof((table)[0]) && (table)[i].name ? &(table)[i] : NULL)

static struct command command_of(const union sqe *s, bool admin)
{
        static const struct command unknown = { "Unknown", NULL };
        const struct command *c;

        if (s->opc == NVME_FABRICS)
                return (struct command) { fctype_name(s->fctype) ? fctype_name(s->fctype)
                                                                 : "Unknown Fabrics",
                                          fabrics_fields(s->fctype) };
        c = admin ? IN(admin_commands, s->opc) : IN(io_commands, s->opc);
        return c ? *c : unknown;
}

const char *sqe_name(const union sqe *s, bool admin)
{
        return command_of(s, admin).name;
}

bool sqe_blocks(const union sqe *s, uint64_t *slba, uint32_t *blocks)
{
        static const uint8_t with[] = { NVME_READ,         NVME_WRITE,  NVME_COMPARE,
                                        NVME_WRITE_ZEROES, NVME_VERIFY, NVME_WRITE_UNCORRECTABLE };

        *slba = (uint64_t)le32_get(s->cdw11) << 32 | le32_get(s->cdw10);
        *blocks = (le32_get(s->cdw12) & RW_NLB_MASK) + 1u;
        return memchr(with, s->opc, sizeof(with)) != NULL;
}

/* --- description ------------------------------------------------------------------------------ */

static const struct word sgl_ids[] = {
        { SGL_DATA_BLOCK, "Data Block, address" },
        { SGL_IN_CAPSULE, "Data Block, offset" },
        { SGL_LAST_IN_CAPSULE, "Last Segment, offset" },
        { SGL_KEYED, "Keyed Data Block" },
        { SGL_KEYED_INVALIDATE, "Keyed Data Block, invalidate" },
        { SGL_TRANSPORT, "Transport Data Block" },
        { 0, NULL },
};
static const struct word sqe_flags[] = {
        { SQE_FUSE_FIRST, "first fused" },
        { SQE_FUSE_SECOND, "second fused" },
        { SQE_PSDT_SGL, "SGL" },
        { SQE_PSDT_MASK & ~SQE_PSDT_SGL, "SGL segment" },
        { 0, NULL },
};

static const struct field sqe_head_fields[] = {
        FIELD(union sqe, flags, .kind = FIELD_BITS, .words = sqe_flags),
        FIELD(union sqe, cid),
        { 0 },
};
static const struct field sqe_nvm_fields[] = {
        /* not of Fabrics commands */
        FIELD(union sqe, nsid),
        FIELD(union sqe, cdw2),
        FIELD(union sqe, cdw3),
        FIELD(union sqe, mptr),
        { 0 },
};
static const struct field sgl_fields[] = {
        FIELD(struct sgl, addr),
        FIELD(struct sgl, len),
        FIELD(struct sgl, id, .words = sgl_ids),
        { 0 },
};
static const struct field sgl_keyed_fields[] = {
        FIELD(struct sgl_keyed, addr),
        FIELD(struct sgl_keyed, len),
        FIELD(struct sgl_keyed, key),
        FIELD(struct sgl_keyed, id, .words = sgl_ids),
        { 0 },
};
static const struct field cdw_fields[] = {
        /* of a command that is not known */
        FIELD(union sqe, cdw10),
        FIELD(union sqe, cdw11),
        FIELD(union sqe, cdw12),
        FIELD(union sqe, cdw13),
        FIELD(union sqe, cdw14),
        FIELD(union sqe, cdw15),
        { 0 },
};

void describe_sqe(const struct describe *d, const union sqe *s, bool admin)
{
        struct command c = command_of(s, admin);

        d->group(d->arg, "sqe");
        d->number(d->arg, "opc", s->opc, 8, c.name);
        describe_fields(d, sqe_head_fields, s);
        if (s->opc == NVME_FABRICS)
                d->number(d->arg, "fctype", s->fctype, 8, fctype_name(s->fctype));
        else
                describe_fields(d, sqe_nvm_fields, s);
        d->group(d->arg, "sgl");
        describe_fields(d, sgl_is_keyed(&s->sgl) ? sgl_keyed_fields : sgl_fields, &s->sgl);
        d->group(d->arg, NULL);
        describe_fields(d, c.fields ? c.fields : cdw_fields, s);
        d->group(d->arg, NULL);
}

static void status_text(struct text *t, uint64_t status)
{
        text_add(t, "%s", status_name((uint16_t)status));
}

static const struct field cqe_described[] = {
        FIELD(struct cqe, dw0),
        FIELD(struct cqe, dw1),
        FIELD(struct cqe, sqhd),
        FIELD(struct cqe, sqid),
        FIELD(struct cqe, cid),
        FIELD_AT("p", offsetof(struct cqe, sf), 2, .bits = 1),
        FIELD_AT("status", offsetof(struct cqe, sf), 2, .shift = 1, .bits = 11, .say = status_text),
        FIELD_AT("crd", offsetof(struct cqe, sf), 2, .shift = 12, .bits = 2),
        FIELD_AT("m", offsetof(struct cqe, sf), 2, .shift = 14, .bits = 1),
        FIELD_AT("dnr", offsetof(struct cqe, sf), 2, .shift = 15, .bits = 1),
        { 0 },
};

void describe_cqe(const struct describe *d, const struct cqe *c)
{
        d->group(d->arg, "cqe");
        describe_fields(d, cqe_described, c);
        d->group(d->arg, NULL);
}

const struct field *sqe_fields(void)
{
        static const struct field fields[] = { SQE_FIELDS(0), { 0 } };

        return fields;
}

const struct field *cqe_fields(void)
{
        static const struct field fields[] = { CQE_FIELDS(0), { 0 } };

        return fields;
}

static void line_field(struct text *t, const struct field *f, const union sqe *s)
{
        uint64_t v = field_get(f, s);
        bool counts = f->kind == FIELD_ZERO_BASED;
        const char *word = f->kind == FIELD_BITS ? NULL : word_for(f->words, v);

        if (word)
                text_add(t, " %s %s", f->name, word);
        else if (v || counts || f->key)
                text_add(t, " %s %" PRIu64, f->name, counts ? v + 1 : v);
}

void sqe_line(struct text *t, const union sqe *s, bool admin)
{
        struct command c = command_of(s, admin);

        text_add(t, "cid %u %s", le16_get(s->cid), c.name);
        if (s->opc != NVME_FABRICS && le32_get(s->nsid))
                text_add(t, " nsid %u", le32_get(s->nsid));
        for (const struct field *f = c.fields ? c.fields : cdw_fields; f->name; f++)
                line_field(t, f, s);
        if (le32_get(s->sgl.len) || s->sgl.id)
                text_add(t, " sgl %02Xh %u", s->sgl.id, sgl_len(&s->sgl));
        if (sgl_is_keyed(&s->sgl))
                text_add(t, " key %" PRIx64, field_get(&sgl_keyed_fields[2], &s->sgl));
}

void cqe_line(struct text *t, const struct cqe *c)
{
        text_add(t, "cid %u sqhd %u %s", le16_get(c->cid), le16_get(c->sqhd),
                 status_name(cqe_status(c)));
        if (cqe_status(c) && word_for(statuses, cqe_status(c)) == NULL)
                text_add(t, " %Xh/%02Xh", cqe_status(c) >> 8, cqe_status(c) & 0xff);
        if (cqe_more(c))
                text_add(t, " M");
        if (cqe_dnr(c))
                text_add(t, " DNR");
        if (le64_get(c->result))
                text_add(t, " dw0 %08Xh dw1 %08Xh", le32_get(c->dw0), le32_get(c->dw1));
}
