/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify (Base 2.2 5.1.13, NVM Command Set 1.1 4.1.5), as the Linux host and nvme-cli ask. */
#include "pdu/nvme/wire/identify.h"

#include <string.h>

#include "admin.h"
#include "nvm.h"

enum {
        FIXED_TEMP_WARNING = 0x157, /* kelvins */
        FIXED_TEMP_CRITICAL = 0x161,
        SGLS_SUPPORTED = 1 << 0,
        SGLS_KEYED = 1 << 2,
        SGLS_OFFSET = 1 << 20, /* in-capsule data */
        SGLS_TRANSPORT = 1 << 21,
        LPA_PAGES = 1 << 5, /* log pages 00h, 12h and 13h, scopes in 05h */
        CMIC_PORTS = 1,     /* several ports */
        CMIC_MULTI = 3,     /* ... and several controllers */
        FRMW_ONE_SLOT = 3,  /* one slot, read only */
        VWC_PRESENT = 1 << 0,
        VWC_FLUSH_ALL = 3 << 1,  /* Flush takes NSID FFFFFFFFh */
        NSFEAT_THINP = 1 << 0,   /* NUSE follows what is allocated */
        NSFEAT_NSABP = 1 << 1,   /* has atomic write units of its own */
        NSFEAT_DAE = 1 << 2,     /* reading deallocated blocks can be made an error */
        NSFEAT_OPTPERF = 1 << 4, /* NPWG to NOWS are said */
        NMIC_SHARED = 1 << 0,
        FLBAS_EXTENDED = 1 << 4, /* metadata follows its block's data */
        MC_EXTENDED = 1 << 0,
        DPC_LAST = 1 << 4, /* protection information is the last bytes of the metadata */
        NSATTR_PROTECTED = 1 << 0,
        NWPC_PROTECT = 1 << 0,  /* No Write Protect and Write Protect */
        DLFEAT_ZEROES = 1 << 0, /* deallocated blocks read as zeroes */
        DLFEAT_DEAC = 1 << 3,   /* Write Zeroes may deallocate */
        NSTAT_READY = 1 << 0,
        SHUTDOWN_TIME = 1000000, /* us: RTD3E */
        PAGE = 4096,             /* CAP.MPSMIN */
        ATOMIC = 128 << 10,      /* bytes that are written at once, whatever else is */
        UUID_ENTRY = 32,
        THERMAL_LEAST = 0x111, /* kelvins: MNTMT */
        OACS_FORMAT = 1 << 1,
        OACS_NAMESPACES = 1 << 3,
        OACS_LOCKDOWN = 1 << 10,
        NSFEAT_UIDREUSE = 1 << 3, /* NGUID and EUI64 are not used again */
        SANICAP_BLOCK_ERASE = 1 << 1,
        SANICAP_NDI = 1 << 29,     /* blocks are deallocated, whatever NDAS says */
        SANICAP_NODMMAS = 1 << 30, /* and no media is modified besides */
        CSI_NVM = 0,
        LIMITED_COMMANDS = ONCS_WRITE_UNCORRECTABLE | ONCS_DSM | ONCS_WRITE_ZEROES | ONCS_VERIFY,
        PIC_STORAGE_TAG = 1 << 0, /* with a 16b guard, too */
        PIC_STCRS = 1 << 2,       /* Copy has STCR */
        IOCS_KEY_VALUE = 1 << 1,
        IOCS_NVM = 1 << 0, /* vector of an I/O command set combination */
};

/* --- controller ------------------------------------------------------------------------------- */

static uint8_t mdts(uint32_t max_transfer)
{
        uint8_t n = 0;

        while (n < 31 && (uint64_t)PAGE << (n + 1) <= max_transfer)
                n++;
        return n;
}

static void fill_tcp(const struct target_limits *l, struct id_ctrl *id)
{
        id->sgls = le32(SGLS_SUPPORTED | SGLS_LLDTS | SGLS_OFFSET | SGLS_TRANSPORT);
        id->ioccsz = le32((uint32_t)(sizeof(union sqe) + l->in_capsule) / 16);
        id->msdbd = 1;
}

static void fill_rdma(const struct rdma_format *f, struct id_ctrl *id)
{
        uint32_t behind = f->in_capsule ? f->icdoff * 16u + f->in_capsule : 0;

        id->sgls = le32(SGLS_SUPPORTED | SGLS_LLDTS | SGLS_KEYED | (behind ? SGLS_OFFSET : 0u));
        id->ioccsz = le32((uint32_t)(sizeof(union sqe) + behind) / 16);
        id->icdoff = le16(behind ? f->icdoff : 0);
        id->msdbd = f->msdbd;
}

/* All entries of a queue, as far as 16 bits can say that; 0 would be "not told". */
static uint16_t maxcmd(uint16_t mqes)
{
        return mqes < UINT16_MAX ? mqes + 1 : UINT16_MAX;
}

static void fill_common(const struct ctrl *c, struct id_ctrl *id)
{
        const struct target_limits *l = c->env->limits;

        id->mdts = mdts(l->max_transfer);
        id->cntlid = le16(c->m.cntlid);
        id->ver = le32(controller_vs());
        id->ctratt = le32(CTRATT_TBKAS);
        id->aerl = c->m.cfg.aerl;
        id->lpa = LPA_EFFECTS | LPA_EXTENDED | LPA_PAGES;
        id->kas = le16(c->m.cfg.kas);
        id->maxcmd = le16(maxcmd(c->m.cfg.mqes));
        text_fill(id->subnqn, sizeof(id->subnqn), c->subsystem ? c->subsystem->nqn : NQN_DISCOVERY);
        if (c->trtype == TRTYPE_RDMA)
                fill_rdma(&c->env->rdma, id);
        else
                fill_tcp(l, id);
}

/* It has no I/O queues, and so none of what is said of them. */
static void fill_discovery(struct id_ctrl *id)
{
        id->ioccsz = le32(0);
        id->icdoff = le16(0);
        id->msdbd = 0;
        text_pad(id->sn, sizeof(id->sn), "nvmfspec");
        text_pad(id->mn, sizeof(id->mn), "nvmfspec discovery");
        text_pad(id->fr, sizeof(id->fr), "0.1");
        id->oaes = le32(OAES_DISCOVERY);
        id->cntrltype = CNTRLTYPE_DISCOVERY;
        id->dctype = 1;
}

static void fill_io_commands(const struct subsystem *s, struct id_ctrl *id)
{
        id->sqes = 0x66;
        id->cqes = 0x44;
        id->nn = le32(CTRL_NSID_MAX);
        id->mnan = le32(CTRL_NSID_MAX);
        id->oncs = le16(ONCS_COMPARE | ONCS_WRITE_UNCORRECTABLE | ONCS_DSM | ONCS_WRITE_ZEROES |
                        ONCS_SAVE | ONCS_RESERVATIONS | ONCS_TIMESTAMP | ONCS_VERIFY | ONCS_COPY |
                        ONCS_COPY_ATOMIC | ONCS_COPY_FAST);
        if (s->whole)
                id->oncs = le16(le16_get(id->oncs) | ONCS_NSZ);
        if (s->limited) /* then limits say what is supported (N1.2 4.1.5.4) */
                id->oncs = le16(le16_get(id->oncs) & (uint16_t)~LIMITED_COMMANDS);
        id->cdfs = le16((1 << (COPY_FORMAT_MAX + 1)) - 1);
        id->fuses = le16(FUSES_COMPARE_WRITE);
        id->nwpc = NWPC_PROTECT;
        id->vwc = VWC_PRESENT | VWC_FLUSH_ALL;
}

/* ANA_SUPPORTED broken: each second controller says that its subsystem has no ANA. */
static void fill_ana(const struct ctrl *c, struct id_ctrl *id)
{
        if (c->m.cntlid & 1 && violates(c->env, ANA_SUPPORTED))
                return;
        id->cmic |= CMIC_ANA;
        id->anatt = ANA_TRANSITION_TIME;
        id->anacap =
            (uint8_t)(ANA_CAPABILITIES_ALL | (has_flaw(c->env, FLAW_ANA_FIXED) ? ANACAP_FIXED : 0));
        id->anagrpmax = le32(ANA_GROUPS);
        id->nanagrpid = le32(ana_groups_most(c));
}

/* ANA_SAME_GROUP broken: each second controller has groups of its own. */
static uint32_t group_of(const struct ctrl *c, const struct ns *ns)
{
        uint32_t group = ana_group(c->ana, ns);

        return group + (group && c->m.cntlid & 1 && violates(c->env, ANA_SAME_GROUP));
}

/* Sanitize, namespaces that hosts make. */
static void fill_whole(const struct subsystem *s, struct id_ctrl *id)
{
        id->sanicap = le32(SANICAP_BLOCK_ERASE | SANICAP_NDI | SANICAP_NODMMAS);
        le_put(id->tnvmcap, 8, SUBSYSTEM_CAPACITY);
        le_put(id->unvmcap, 8, subsystem_unallocated(s));
        id->maxcna = le32(ATTACHED_MAX);
}

static void fill_io(const struct ctrl *c, struct id_ctrl *id)
{
        const struct subsystem *s = c->subsystem;

        id->fcatt = s->fixed ? FCATT_STATIC : 0;
        id->oacs = le16(OACS_LBA_STATUS | (s->whole ? OACS_FORMAT | OACS_NAMESPACES | OACS_LOCKDOWN
                                                    : 0)); /* FNA 0: of one namespace, or of all */
        id->ctratt = le32(CTRATT_HOSTID128 | CTRATT_ULIST | CTRATT_RHII |
                          (c->m.cfg.command_based ? 0u : CTRATT_TBKAS) |
                          (subsystem_is_extended(s) ? CTRATT_ELBAS : 0u));
        if (violates(c->env, NVM_ATOMIC_SAME))
                id->awun = le16((uint16_t)(atomic_load(&s->formats) % 8));
        id->acl = ABORT_MAX - 1;
        id->iorcsz = le32(sizeof(struct cqe) / 16);
        text_pad(id->sn, sizeof(id->sn), s->serial);
        if (has_flaw(c->env, FLAW_SN_DIFFERS))
                id->sn[0] = (char)('A' + c->m.cntlid % 26);
        text_pad(id->mn, sizeof(id->mn), s->model);
        text_pad(id->fr, sizeof(id->fr), s->firmware);
        id->cmic = has_flaw(c->env, FLAW_CMIC_SINGLE) ? CMIC_PORTS : CMIC_MULTI;
        if (c->ana)
                fill_ana(c, id);
        id->rtd3e = le32(SHUTDOWN_TIME);
        id->oaes = le32(OAES_NS | OAES_LBA_STATUS | (c->ana ? OAES_ANA : 0u) |
                        (s->whole ? OAES_ALLOCATED : 0u));
        id->cntrltype = CNTRLTYPE_IO;
        id->frmw = FRMW_ONE_SLOT;
        id->elpe = ERROR_ENTRIES - 1;
        id->lpa |= LPA_PERSISTENT | (s->whole ? LPA_SMART_NS : 0);
        if (s->whole)
                fill_whole(s, id);
        id->pels = le32(PEL_UNITS);
        id->wctemp = le16(FIXED_TEMP_WARNING);
        id->cctemp = le16(FIXED_TEMP_CRITICAL);
        id->hctma = le16(1);
        id->mntmt = le16(THERMAL_LEAST);
        id->mxtmt = le16(FIXED_TEMP_CRITICAL);
        id->ofcs = le16(OFCS_DISCONNECT);
        fill_io_commands(s, id);
        if (has_flaw(c->env, FLAW_NN_ZERO))
                id->nn = le32(0);
}

/* What an I/O controller says of I/O is not there. */
static void fill_administrative(struct id_ctrl *id)
{
        id->cntrltype = CNTRLTYPE_ADMIN;
        id->sqes = id->cqes = id->vwc = id->nwpc = 0;
        id->fuses = id->cdfs = le16(0);
        id->oncs = le16(ONCS_SAVE | ONCS_TIMESTAMP);
        id->oacs = le16(0);
        id->oaes = le32(0);
        id->ioccsz = le32(0);
        id->icdoff = le16(0);
        id->msdbd = 0;
}

void identify_fill(const struct ctrl *c, struct id_ctrl *id)
{
        fill_common(c, id);
        if (is_discovery(c))
                fill_discovery(id);
        else
                fill_io(c, id);
        if (c->m.cfg.administrative)
                fill_administrative(id);
}

static uint16_t identify_ctrl(struct admin *a)
{
        identify_fill(a->ctrl, (struct id_ctrl *)a->r->data);
        return 0;
}

/* --- namespaces ------------------------------------------------------------------------------- */

static uint32_t nsid_of(const struct admin *a)
{
        return le32_get(a->r->sqe.nsid);
}

static uint16_t check_nsid(const struct admin *a)
{
        uint32_t nsid = nsid_of(a);

        return nsid == 0 || nsid > CTRL_NSID_MAX ? rule_refuse(a->env->policy, FAB_NSID) : 0;
}

/* The namespace, or the status; both absent: NSID is valid but not active. */
static uint16_t find_ns(const struct admin *a, struct ns **ns)
{
        *ns = ctrl_ns(a->ctrl, nsid_of(a));
        return check_nsid(a);
}

/* The same whether it is attached or not. */
static uint16_t find_allocated_ns(const struct admin *a, struct ns **ns)
{
        *ns = subsystem_ns(a->ctrl->subsystem, nsid_of(a));
        return check_nsid(a);
}

/* Where that is an error. */
static uint16_t refuse_none(const struct admin *a, const struct ns *ns, uint16_t status)
{
        return !status && !ns ? rule_refuse(a->env->policy, FAB_NSID_INACTIVE) : status;
}

/* 0's based, at least one. */
static uint16_t blocks_of(uint32_t bytes, unsigned lbads)
{
        uint32_t n = bytes >> lbads;

        return (uint16_t)(n > 0 ? n - 1 : 0);
}

static uint8_t nsattr(const struct admin *a, const struct ns *ns)
{
        return atomic_load(&ns->protection) && !has_flaw(a->env, FLAW_PROTECTED_HIDDEN)
                   ? NSATTR_PROTECTED
                   : 0;
}

/* RESCAP: the types of reservations that it takes, and how. */
static uint8_t reservations_of(const struct ns *ns)
{
        return ns_resv_supported(ns) ? RESCAP_PTPL | RESCAP_TYPES | RESCAP_IEKEY : 0;
}

static void describe_ns(struct admin *a, struct ns *ns)
{
        struct id_ns *id = (struct id_ns *)a->r->data;
        const struct ns *first = a->ctrl->subsystem->ns;
        uint64_t blocks;

        blocks = atomic_load(&(has_flaw(a->env, FLAW_NS_SIZE_FIRST) ? first : ns)->blocks);
        id->nsze = id->ncap = id->nuse = le64(blocks);
        id->anagrpid = le32(group_of(a->ctrl, ns));
        if (!has_flaw(a->env, FLAW_NUSE_STILL))
                id->nuse = le64(ns_used(ns));
        id->nsfeat = NSFEAT_THINP | NSFEAT_NSABP | NSFEAT_DAE | NSFEAT_OPTPERF;
        id->nawun = le16(blocks_of(ATOMIC, ns->lbads));
        id->npwg = id->npwa = id->npdg = id->npda = id->nows = le16(blocks_of(PAGE, ns->lbads));
        if (nvme_ns(ns)->made)
                id->nsfeat |= NSFEAT_UIDREUSE;
        id->nmic = has_flaw(a->env, FLAW_NS_PRIVATE) ? 0 : NMIC_SHARED;
        id->rescap = reservations_of(ns);
        id->dlfeat = DLFEAT_ZEROES | DLFEAT_DEAC;
        if (!(ns->nsid & 1) && has_flaw(a->env, FLAW_NS_ALIKE))
                id->dlfeat = DLFEAT_ZEROES;
        id->nsattr = nsattr(a, ns);
        id->mssrl = le16(COPY_RANGE_BLOCKS);
        id->mcl = le32(COPY_BLOCKS);
        id->msrc = COPY_RANGES - 1;
        le_put(id->nvmcap, 8, blocks << ns->lbads);
        if (ana_hides_capacity(a->ctrl->ana, ns)) {
                id->nuse = le64(0);
                memset(id->nvmcap, 0, sizeof(id->nvmcap));
        }
        memcpy(id->nguid, nvme_ns(ns)->nguid, sizeof(id->nguid));
        id->lbaf[0].ms = le16(ns->ms);
        if (ns->ms) {
                id->flbas = FLBAS_EXTENDED;
                id->mc = MC_EXTENDED;
        }
        if (ns->pi) {
                id->dpc = (uint8_t)(DPC_LAST | 1u << (ns->pi - 1));
                id->dps = ns->pi;
        }
        if (subsystem_is_extended(a->ctrl->subsystem)) {
                id->nlbaf = 1; /* 0's based */
                id->lbaf[1] = (struct lbaf) { .ms = le16(PI_LEN_WIDE), .lbads = 12 };
                id->mc = MC_EXTENDED;
                id->dpc |= DPC_LAST | 1;
        }
        id->lbaf[0].lbads = (has_flaw(a->env, FLAW_NS_FORMAT_FIRST) ? first : ns)->lbads;
}

/* What all namespaces have in common that a host makes (NSID FFFFFFFFh). */
static void describe_all(struct admin *a)
{
        struct id_ns *id = (struct id_ns *)a->r->data;

        id->nsfeat = NSFEAT_UIDREUSE | NSFEAT_NSABP | NSFEAT_DAE;
        id->dlfeat = DLFEAT_ZEROES | DLFEAT_DEAC;
        id->lbaf[0].lbads = 9;
}

/* An inactive namespace is all zeroes. */
static uint16_t identify_ns(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);

        if (a->ctrl->subsystem->whole && nsid_of(a) == NSID_ALL) {
                describe_all(a);
                return 0;
        }
        if (!status && !ns && has_flaw(a->env, FLAW_NS_ABSENT))
                ns = a->ctrl->subsystem->ns;
        if (!status && !ns && has_flaw(a->env, FLAW_MASKED_SHOWN))
                find_allocated_ns(a, &ns);
        if (!status && ns)
                describe_ns(a, ns);
        return status;
}

static uint16_t identify_allocated_ns(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_allocated_ns(a, &ns);

        if (!status && ns)
                describe_ns(a, ns);
        return status;
}

static bool is_set(const uint8_t id[16])
{
        static const uint8_t zero[16];

        return memcmp(id, zero, sizeof(zero)) != 0;
}

static uint16_t identify_ns_descs(struct admin *a)
{
        static const uint8_t csi[1] = { CSI_NVM }, nil[16];
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);
        const uint8_t *uuid;
        size_t at = 0;

        if (!status && !ns && has_flaw(a->env, FLAW_MASKED_DESCS))
                find_allocated_ns(a, &ns);
        status = refuse_none(a, ns, status);
        if (!ns && has_flaw(a->env, FLAW_DESCS_INACTIVE))
                return 0;
        if (status || !ns)
                return status;
        uuid = has_flaw(a->env, FLAW_UUID_SAME)  ? atomic_load(&a->ctrl->subsystem->ns)->uuid
               : has_flaw(a->env, FLAW_UUID_NIL) ? nil
                                                 : ns->uuid;
        ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_UUID, 16, uuid });
        if (has_flaw(a->env, FLAW_NGUID_NIL)) {
                ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_NGUID, 16, nil });
                ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_EUI64, 8, nil });
        } else if (is_set(nvme_ns(ns)->nguid)) {
                ns_desc_put(a->r->data, IDENTIFY_LEN, &at,
                            &(struct ns_id) { NIDT_NGUID, 16, nvme_ns(ns)->nguid });
        }
        ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_CSI, 1, csi });
        a->r->data[IDENTIFY_LEN - 1] = violates(a->env, ID_DESCS_END);
        return 0;
}

/* I/O command set independent: what is not there is zero, all of an inactive namespace. */
static uint16_t identify_ns_independent(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);

        if (status || !ns)
                return status;
        a->r->data[1] = NMIC_SHARED;
        le_put(a->r->data + offsetof(struct id_ns_independent, anagrpid), 4, group_of(a->ctrl, ns));
        a->r->data[8] = nsattr(a, ns);
        a->r->data[2] = reservations_of(ns);
        a->r->data[14] = has_flaw(a->env, FLAW_NS_NOT_READY) ? 0 : NSTAT_READY;
        return 0;
}

/* An extended LBA format: STS and PIF. */
static le32_t elbaf(uint8_t sts, uint8_t guard)
{
        enum { PIF_SHIFT = 7 };
        uint32_t pif = guard == 64 ? 2 : guard == 32 ? 1 : 0;

        return le32(sts | pif << PIF_SHIFT);
}

/* Deallocated blocks are told one by one. */
static void describe_iocs_ns(struct admin *a, const struct ns *ns)
{
        struct id_nvm_ns *id = (struct id_nvm_ns *)a->r->data;

        id->tlbaag = le32(1);
        if (!subsystem_is_extended(a->ctrl->subsystem))
                return;
        id->pic = PIC_STORAGE_TAG | PIC_STCRS;
        id->elbaf[0] = elbaf(ns->sts, ns->guard);
        id->elbaf[1] = elbaf(EXTENDED_STS, 32);
        if (ns->sts > 0)
                id->lbstm = le64(UINT64_MAX >> (64 - ns->sts));
}

/* Of the NVM command set. */
static uint16_t identify_iocs_ns(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);

        if (!status && ns)
                describe_iocs_ns(a, ns);
        return status;
}

static uint16_t identify_iocs_allocated_ns(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_allocated_ns(a, &ns);

        if (!status && ns)
                describe_iocs_ns(a, ns);
        return status;
}

/* Of the NVM command set: no limits but MDTS, unless the subsystem has them. */
static uint16_t identify_iocs_ctrl(struct admin *a)
{
        struct id_nvm_ctrl *id = (struct id_nvm_ctrl *)a->r->data;

        id->aocs = le16(AOCS_ALLOCATED);
        if (!a->ctrl->subsystem->limited)
                return 0;
        id->vsl = LIMIT_VERIFY;
        id->wzsl = LIMIT_ZEROES;
        id->wzdsl = LIMIT_ZEROES_DEAC;
        id->wusl = LIMIT_UNCORRECTABLE;
        id->dmrl = LIMIT_RANGES;
        id->dmrsl = le32(LIMIT_RANGE);
        id->dmsl = le64(LIMIT_BLOCKS);
        return 0;
}

static uint16_t list_namespaces(struct admin *a, bool attached)
{
        le32_t *list = (le32_t *)a->r->data;
        size_t n = 0;

        if (nsid_of(a) >= UINT32_MAX - 1)
                return has_flaw(a->env, FLAW_NS_LIST_RESERVED) ? 0 : NVME_INVALID_NS;
        for (struct ns *ns = a->ctrl->subsystem->ns; ns && n < IDENTIFY_LEN / 4; ns = ns->next)
                if ((ns->nsid > nsid_of(a) ||
                     (ns->nsid == nsid_of(a) && has_flaw(a->env, FLAW_NS_LIST_FROM))) &&
                    (!attached || has_flaw(a->env, FLAW_MASKED_LISTED) ||
                     ns_is_attached(ns, a->ctrl->m.hostnqn, a->ctrl->m.cntlid)))
                        list[n++] = le32(ns->nsid);
        if (n > 0 && (has_flaw(a->env, FLAW_NS_LIST_SHORT) ||
                      (violates(a->env, ASSOC_ALIKE) && a->ctrl->m.cntlid & 1)))
                list[n - 1] = le32(0);
        return 0;
}

static uint16_t identify_ns_list(struct admin *a)
{
        if (a->ctrl->m.cfg.administrative && has_flaw(a->env, FLAW_ADMIN_NS))
                le_put(a->r->data, 4, 1);
        return a->ctrl->m.cfg.administrative ? 0 : list_namespaces(a, true);
}

static uint16_t identify_allocated(struct admin *a)
{
        le32_t *list = (le32_t *)a->r->data;
        uint16_t status = list_namespaces(a, false);
        size_t n = 0;

        while (n < IDENTIFY_LEN / 4 && le32_get(list[n]))
                n++;
        if (n > 0 && has_flaw(a->env, FLAW_NS_LIST_ALLOCATED))
                list[n - 1] = le32(0);
        return status;
}

static uint16_t identify_iocs_ns_list(struct admin *a)
{
        return has_flaw(a->env, FLAW_IOCS_LIST) ? 0 : identify_ns_list(a);
}

/* --- lists of controllers, command sets ------------------------------------------------------- */

/* Those that the namespace is attached to; NULL: all. */
static uint16_t list_controllers(struct admin *a, const struct ns *ns, bool self)
{
        le16_t *list = (le16_t *)a->r->data;
        uint16_t from = (uint16_t)(le32_get(a->r->sqe.cdw10) >> 16);
        unsigned n;

        if (has_flaw(a->env, FLAW_CTRL_LIST_START))
                from = 0;
        if (!self && from <= a->ctrl->m.cntlid)
                from = a->ctrl->m.cntlid + 1;
        n = ctrl_table_list(a->env->table, a->ctrl->subsystem, ns, from, list + 1,
                            IDENTIFY_LEN / 2 - 1);
        list[0] = le16((uint16_t)(n - (n > 0 && has_flaw(a->env, FLAW_CTRL_LIST_COUNT))));
        return 0;
}

static uint16_t identify_ctrl_list(struct admin *a)
{
        return list_controllers(a, NULL, !has_flaw(a->env, FLAW_CTRL_LIST_SELF));
}

/* Of an allocated namespace, whoever asks. */
static uint16_t identify_ns_ctrl_list(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_allocated_ns(a, &ns);

        status = refuse_none(a, ns, status);
        if (nsid_of(a) == NSID_ALL) /* 5.1.13.2.11 has a status of its own */
                return has_flaw(a->env, FLAW_NS_CTRL_LIST_ALL) ? identify_ctrl_list(a)
                                                               : NVME_INVALID_FIELD;
        return status || !ns ? status
                             : list_controllers(a, ns, !has_flaw(a->env, FLAW_CTRL_LIST_OF_NS));
}

static uint16_t identify_iocs(struct admin *a)
{
        a->r->data[0] = has_flaw(a->env, FLAW_IOCS_OTHER) ? IOCS_KEY_VALUE : IOCS_NVM;
        if (has_flaw(a->env, FLAW_IOCS_UNANNOUNCED))
                a->r->data[0] |= IOCS_KEY_VALUE;
        a->r->data[16] = has_flaw(a->env, FLAW_IOCS_GAP) ? IOCS_NVM : 0;
        return 0;
}

/* One UUID, that of the vendor's own. */
static uint16_t identify_uuids(struct admin *a)
{
        static const uint8_t own[16] = "nvmfspec vendor";

        memcpy(a->r->data + UUID_ENTRY + 16 +
                   (has_flaw(a->env, FLAW_UUIDS_EMPTY) ? UUID_ENTRY : 0u),
               own, sizeof(own));
        return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static const struct structure {
        uint16_t (*fill)(struct admin *a); /* zeroed data, under the inventory's lock */
        bool discovery;                    /* discovery controllers have it too */
        bool by_csi;                       /* CSI selects the command set */
} structures[256] = {
        [CNS_NS] = { identify_ns, false, false },
        [CNS_CTRL] = { identify_ctrl, true, false },
        [CNS_NS_LIST] = { identify_ns_list, false, false },
        [CNS_NS_DESCS] = { identify_ns_descs, false, false },
        [CNS_IOCS_NS] = { identify_iocs_ns, false, true },
        [CNS_IOCS_CTRL] = { identify_iocs_ctrl, false, true },
        [CNS_IOCS_NS_LIST] = { identify_iocs_ns_list, false, true },
        [CNS_NS_INDEPENDENT] = { identify_ns_independent, false, false },
        [CNS_ALLOCATED_NS_LIST] = { identify_allocated, false, false },
        [CNS_ALLOCATED_NS] = { identify_allocated_ns, false, false },
        [CNS_IOCS_ALLOCATED_NS_LIST] = { identify_allocated, false, true },
        [CNS_IOCS_ALLOCATED_NS] = { identify_iocs_allocated_ns, false, true },
        [CNS_NS_CTRL_LIST] = { identify_ns_ctrl_list, false, false },
        [CNS_CTRL_LIST] = { identify_ctrl_list, false, false },
        [CNS_UUIDS] = { identify_uuids, false, false },
        [CNS_IOCS] = { identify_iocs, false, false },
};

uint16_t admin_identify(struct admin *a)
{
        const struct structure *s = &structures[(uint8_t)le32_get(a->r->sqe.cdw10)];
        uint8_t csi = (uint8_t)(le32_get(a->r->sqe.cdw11) >> 24);
        uint16_t status;

        memset(a->r->data, 0, a->r->len);
        if (!s->fill || (is_discovery(a->ctrl) && !s->discovery))
                return rule_refuse(a->env->policy, ID_CNS);
        if (s->by_csi && csi != CSI_NVM)
                return NVME_INVALID_FIELD;
        pthread_rwlock_rdlock(&a->env->inv->lock);
        status = s->fill(a);
        pthread_rwlock_unlock(&a->env->inv->lock);
        return status;
}
