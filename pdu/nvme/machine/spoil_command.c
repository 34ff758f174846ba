/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be wrong with a command, whatever transport it goes by: its SQE and Connect's data. */
#include <string.h>

#include "pdu/nvme/wire/commands.h"
#include "spoil_table.h"

/* --- which command ---------------------------------------------------------------------------- */

typedef bool fits_fn(const struct spoil_sqe *s);

static bool is_fabrics(const struct spoil_sqe *s, enum fctype type)
{
        return sqe_is_fabrics(s->sqe, type);
}

static bool is_connect(const struct spoil_sqe *s)
{
        return is_fabrics(s, FCTYPE_CONNECT);
}

static bool is_admin_connect(const struct spoil_sqe *s)
{
        return is_connect(s) && le16_get(s->sqe->connect.qid) == 0;
}

static bool is_io_connect(const struct spoil_sqe *s)
{
        return is_connect(s) && le16_get(s->sqe->connect.qid) != 0;
}

static bool is_disconnect(const struct spoil_sqe *s)
{
        return is_fabrics(s, FCTYPE_DISCONNECT);
}

static bool is_property_get(const struct spoil_sqe *s)
{
        return is_fabrics(s, FCTYPE_PROPERTY_GET);
}

/* Not the one that enables the controller: then other rules would be broken after it. */
static bool is_shutdown(const struct spoil_sqe *s)
{
        return is_fabrics(s, FCTYPE_PROPERTY_SET) && CC_SHN(le64_get(s->sqe->property.value)) != 0;
}

static bool is_keep_alive(const struct spoil_sqe *s)
{
        return s->sqe->opc == NVME_KEEP_ALIVE;
}

static bool is_identify_buffer(const struct spoil_sqe *s)
{
        return s->sqe->opc == NVME_IDENTIFY &&
               (s->sqe->sgl.id == SGL_TRANSPORT || sgl_is_keyed(&s->sqe->sgl));
}

/* On an I/O queue the opcode is Dataset Management, which has data. */
static bool is_kato(const struct spoil_sqe *s)
{
        return s->sqe->opc == NVME_SET_FEATURES && sgl_len(&s->sqe->sgl) == 0 &&
               (le32_get(s->sqe->cdw10) & 0xff) == FEAT_KATO;
}

static bool is_get_features(const struct spoil_sqe *s)
{
        return s->sqe->opc == NVME_GET_FEATURES;
}

static bool is_log(const struct spoil_sqe *s)
{
        return s->sqe->opc == NVME_GET_LOG_PAGE && !spoil_has_nsid(s->sqe);
}

static bool is_io(const struct spoil_sqe *s)
{
        uint8_t opc = s->sqe->opc;

        return (opc == NVME_READ || opc == NVME_WRITE || opc == NVME_FLUSH) &&
               spoil_has_nsid(s->sqe);
}

static bool is_read_write(const struct spoil_sqe *s)
{
        return (s->sqe->opc == NVME_READ || s->sqe->opc == NVME_WRITE) && spoil_has_nsid(s->sqe);
}

/* --- Connect's data -------------------------------------------------------------------------- */

typedef bool break_fn(struct spoil_sqe *s);

static bool fill_nqn(struct spoil_sqe *s, size_t offset)
{
        memset(s->connect_data + offset, 'x', NQN_FIELD);
        return true;
}

static bool fill_subnqn(struct spoil_sqe *s)
{
        return fill_nqn(s, offsetof(struct connect_data, subnqn));
}

static bool fill_hostnqn(struct spoil_sqe *s)
{
        return fill_nqn(s, offsetof(struct connect_data, hostnqn));
}

static bool change_nqn(struct spoil_sqe *s, size_t offset)
{
        char *nqn = (char *)s->connect_data + offset;
        size_t len = strnlen(nqn, NQN_FIELD);

        if (len == 0 || len == NQN_FIELD)
                return false;
        nqn[len - 1] ^= 1;
        return true;
}

static bool change_subnqn(struct spoil_sqe *s)
{
        return change_nqn(s, offsetof(struct connect_data, subnqn));
}

static bool change_hostnqn(struct spoil_sqe *s)
{
        return change_nqn(s, offsetof(struct connect_data, hostnqn));
}

static bool other_hostid(struct spoil_sqe *s)
{
        s->connect_data[offsetof(struct connect_data, hostid)] ^= 1;
        return true;
}

static bool zero_hostid(struct spoil_sqe *s)
{
        memset(s->connect_data, 0, SIZE(struct connect_data, hostid));
        return true;
}

/* --- violators -------------------------------------------------------------------------------- */

struct violator {
        enum rule_id rule;
        bool in_data; /* Connect's, not the SQE */
        fits_fn *fits;
        break_fn *call; /* false: it cannot be done to this one; NULL: */
        struct change change;
};

#define CHANGE(name, when, member, ...)                                                            \
        {                                                                                          \
                .rule = (name), .fits = (when), .change = { AT(union sqe, member), __VA_ARGS__ },  \
        }
#define BYTES(name, when, member, ...)                                                             \
        {                                                                                          \
                .rule = (name), .fits = (when),                                                    \
                .change = { offsetof(union sqe, member), __VA_ARGS__ },                            \
        }
#define DATA(name, when, member, ...)                                                              \
        {                                                                                          \
                .rule = (name), .fits = (when), .in_data = true,                                   \
                .change = { AT(struct connect_data, member), __VA_ARGS__ },                        \
        }
#define CALL_DATA(name, when, function)                                                            \
        {                                                                                          \
                .rule = (name), .fits = (when), .in_data = true, .call = (function),               \
        }

static const struct violator violators[] = {
        /* clang-format off */
        /* commands */
        CHANGE(FAB_FCTYPE, is_property_get, fctype, PUT, 0x0c),
        CHANGE(FAB_PSDT, is_property_get, flags, PUT, SQE_PSDT_MASK),
        CHANGE(FAB_FUSE, is_property_get, flags, FLIP, SQE_FUSE_FIRST),
        CHANGE(FAB_NSID_UNUSED, is_keep_alive, nsid, PUT, 1),
        CHANGE(FAB_OPCODE, is_keep_alive, opc, PUT, NVME_DELETE_SQ),
        CHANGE(FAB_FIRST_CONNECT, is_connect, opc, PUT, NVME_KEEP_ALIVE),
        BYTES(FAB_SGL_SHORT, is_identify_buffer, sgl.len, 3, ADD, (uint64_t)-4),
        CHANGE(FAB_NSID, is_io, nsid, PUT, 0xfffffff0),
        CHANGE(FAB_NSID_INACTIVE, is_io, nsid, PUT, 1000),
        CHANGE(FAB_NSID_ALL, is_io, nsid, PUT, NSID_ALL),
        CHANGE(NVM_RANGE, is_read_write, cdw11, PUT, 0x7fffffff),
        BYTES(ID_CNS, is_identify_buffer, cdw10, 1, PUT, 0x7f),
        CHANGE(FUSE_ALONE, is_io, flags, FLIP, SQE_FUSE_SECOND),
        CHANGE(FUSE_RESERVED, is_io, flags, FLIP, SQE_FUSE_MASK),
        CHANGE(FUSE_UNSUPPORTED, is_keep_alive, flags, FLIP, SQE_FUSE_FIRST),
        CHANGE(FAB_DISCONNECT_RECFMT, is_disconnect, disconnect.recfmt, PUT, 1),
        CHANGE(FAB_PROP_OFFSET, is_property_get, property.ofst, PUT, 0x04),
        CHANGE(FAB_PROP_SIZE, is_property_get, property.attrib, FLIP, 1),
        CHANGE(FAB_PROP_RO, is_shutdown, property.ofst, PUT, PROP_VS),
        CHANGE(KA_ZERO, is_kato, cdw11, PUT, 0),
        BYTES(FEAT_UNKNOWN, is_get_features, cdw10, 1, PUT, 0x77),
        BYTES(LOG_UNKNOWN, is_log, cdw10, 1, PUT, 0x6f),
        CHANGE(LOG_INDEX, is_log, cdw14, FLIP, 1 << 23),
        CHANGE(LOG_OFFSET, is_log, cdw13, PUT, 0x7fffffff),
        /* Connect */
        CHANGE(FAB_CONNECT_RECFMT, is_connect, connect.recfmt, PUT, 1),
        CHANGE(FAB_CONNECT_SQSIZE_ZERO, is_connect, connect.sqsize, PUT, 0),
        CHANGE(FAB_CONNECT_SQSIZE_MAX, is_connect, connect.sqsize, PUT, 0xffff),
        CHANGE(FAB_CONNECT_QID, is_io_connect, connect.qid, PUT, 0xffff),
        CHANGE(FAB_CONNECT_NVMSET, is_io_connect, connect.nvmsetid, PUT, 0x7777),
        DATA(FAB_CONNECT_CNTLID_RSVD, is_admin_connect, cntlid, PUT, 0xfff5),
        DATA(FAB_CONNECT_CNTLID_DYN, is_admin_connect, cntlid, PUT, CNTLID_MIN),
        DATA(FAB_CONNECT_CNTLID_IO, is_io_connect, cntlid, FLIP, STRANGE),
        CALL_DATA(FAB_CONNECT_SUBNQN, is_admin_connect, change_subnqn),
        CALL_DATA(FAB_CONNECT_SUBNQN_SYNTAX, is_connect, fill_subnqn),
        CALL_DATA(FAB_CONNECT_HOSTNQN_SYNTAX, is_connect, fill_hostnqn),
        CALL_DATA(FAB_CONNECT_HOST, is_admin_connect, change_hostnqn),
        CALL_DATA(FAB_CONNECT_IO_SUBNQN, is_io_connect, change_subnqn),
        CALL_DATA(FAB_CONNECT_IO_HOSTNQN, is_io_connect, change_hostnqn),
        CALL_DATA(FAB_CONNECT_IO_HOSTID, is_io_connect, other_hostid),
        CALL_DATA(FAB_CONNECT_HOSTID_ZERO, is_admin_connect, zero_hostid),
        /* clang-format on */
};

enum { VIOLATORS = sizeof(violators) / sizeof(violators[0]) };

static bool apply(const struct violator *v, struct spoil_sqe *s)
{
        if (!v->fits(s) || (v->in_data && !s->connect_data))
                return false;
        if (v->call)
                return v->call(s);
        spoil_make(v->in_data ? s->connect_data : s->sqe->bytes, &v->change);
        return true;
}

bool spoil_sqe(const struct rule_set *violated, struct spoil_sqe *s)
{
        bool any = command_spoil(violated, s->sqe);

        for (unsigned i = 0; i < VIOLATORS; i++)
                if (rule_in(violated, violators[i].rule))
                        any |= apply(&violators[i], s);
        return any;
}

unsigned spoil_kinds_sqe(enum rule_id rule)
{
        const struct command_duty *d;

        for (unsigned i = 0; (d = command_duty(i)); i++)
                if (d->rule == rule && d->breakable)
                        return V_SQE;
        return TABLE_HAS(violators, rule) ? V_SQE : 0;
}
