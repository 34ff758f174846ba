/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify (Base 2.2 5.1.13, NVM Command Set 1.1 4.1.5), as the Linux host and nvme-cli ask. */
#include "pdu/nvme/wire/identify.h"

#include <string.h>

#include "admin.h"

enum {
        FIXED_TEMP_WARNING = 0x157, /* kelvins */
        FIXED_TEMP_CRITICAL = 0x161,
        SGLS_SUPPORTED = 1 << 0,
        SGLS_KEYED = 1 << 2,
        SGLS_LONGER = 1 << 18, /* descriptors may describe more than the transfer */
        SGLS_OFFSET = 1 << 20, /* in-capsule data */
        SGLS_TRANSPORT = 1 << 21,
        LPA_PAGES = 1 << 5, /* log pages 00h, 12h and 13h, scopes in 05h */
        CMIC_MULTI = 3,     /* several ports, several controllers */
        FRMW_ONE_SLOT = 3,  /* one slot, read only */
        VWC_PRESENT = 1 << 0,
        VWC_FLUSH_ALL = 3 << 1, /* Flush takes NSID FFFFFFFFh */
        NMIC_SHARED = 1 << 0,
        DLFEAT_ZEROES = 1 << 0, /* deallocated blocks read as zeroes */
        DLFEAT_DEAC = 1 << 3,   /* Write Zeroes may deallocate */
        NSTAT_READY = 1 << 0,
        SHUTDOWN_TIME = 1000000, /* us: RTD3E */
        PAGE = 4096,             /* CAP.MPSMIN */
        CSI_NVM = 0,
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
        id->sgls = le32(SGLS_SUPPORTED | SGLS_LONGER | SGLS_OFFSET | SGLS_TRANSPORT);
        id->ioccsz = le32((uint32_t)(sizeof(union sqe) + l->in_capsule) / 16);
        id->msdbd = 1;
}

static void fill_rdma(const struct rdma_format *f, struct id_ctrl *id)
{
        uint32_t behind = f->in_capsule ? f->icdoff * 16u + f->in_capsule : 0;

        id->sgls = le32(SGLS_SUPPORTED | SGLS_KEYED | (behind ? SGLS_OFFSET : 0u));
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
        id->ctratt = le32(CTRATT_HOSTID128 | CTRATT_TBKAS);
        id->acl = ABORT_MAX - 1;
        id->aerl = c->m.cfg.aerl;
        id->lpa = LPA_EFFECTS | LPA_EXTENDED | LPA_PAGES;
        id->kas = le16(c->m.cfg.kas);
        id->maxcmd = le16(maxcmd(c->m.cfg.mqes));
        text_fill(id->subnqn, sizeof(id->subnqn), c->subsystem ? c->subsystem->nqn : NQN_DISCOVERY);
        id->iorcsz = le32(sizeof(struct cqe) / 16);
        if (c->trtype == TRTYPE_RDMA)
                fill_rdma(&c->env->rdma, id);
        else
                fill_tcp(l, id);
}

static void fill_discovery(struct id_ctrl *id)
{
        text_pad(id->sn, sizeof(id->sn), "nvmfspec");
        text_pad(id->mn, sizeof(id->mn), "nvmfspec discovery");
        text_pad(id->fr, sizeof(id->fr), "0.1");
        id->oaes = le32(OAES_DISCOVERY);
        id->cntrltype = CNTRLTYPE_DISCOVERY;
        id->dctype = 1;
}

static void fill_io_commands(struct id_ctrl *id)
{
        id->sqes = 0x66;
        id->cqes = 0x44;
        id->nn = le32(CTRL_NSID_MAX);
        id->mnan = le32(CTRL_NSID_MAX);
        id->oncs = le16(ONCS_COMPARE | ONCS_WRITE_UNCORRECTABLE | ONCS_DSM | ONCS_WRITE_ZEROES |
                        ONCS_SAVE | ONCS_TIMESTAMP | ONCS_VERIFY);
        id->fuses = le16(FUSES_COMPARE_WRITE);
        id->vwc = VWC_PRESENT | VWC_FLUSH_ALL;
}

static void fill_io(const struct subsystem *s, struct id_ctrl *id)
{
        text_pad(id->sn, sizeof(id->sn), s->serial);
        text_pad(id->mn, sizeof(id->mn), s->model);
        text_pad(id->fr, sizeof(id->fr), s->firmware);
        id->cmic = CMIC_MULTI;
        id->rtd3e = le32(SHUTDOWN_TIME);
        id->oaes = le32(OAES_NS);
        id->cntrltype = CNTRLTYPE_IO;
        id->frmw = FRMW_ONE_SLOT;
        id->elpe = ERROR_ENTRIES - 1;
        id->wctemp = le16(FIXED_TEMP_WARNING);
        id->cctemp = le16(FIXED_TEMP_CRITICAL);
        id->ofcs = le16(OFCS_DISCONNECT);
        fill_io_commands(id);
}

static uint16_t identify_ctrl(struct admin *a)
{
        struct id_ctrl *id = (struct id_ctrl *)a->r->data;

        fill_common(a->ctrl, id);
        if (is_discovery(a->ctrl))
                fill_discovery(id);
        else
                fill_io(a->ctrl->subsystem, id);
        return 0;
}

/* --- namespaces ------------------------------------------------------------------------------- */

static uint32_t nsid_of(const struct admin *a)
{
        return le32_get(a->r->sqe.nsid);
}

/* The namespace, or the status; both absent: NSID is valid but not active. */
static uint16_t find_ns(const struct admin *a, struct ns **ns)
{
        uint32_t nsid = nsid_of(a);

        *ns = subsystem_ns(a->ctrl->subsystem, nsid);
        if (nsid == 0 || nsid > CTRL_NSID_MAX)
                return rule_refuse(a->env->policy, FAB_NSID);
        return 0;
}

/* The same where an inactive one is an error. */
static uint16_t find_active_ns(const struct admin *a, struct ns **ns)
{
        uint16_t status = find_ns(a, ns);

        if (!status && !*ns && rule_refuse(a->env->policy, FAB_NSID))
                return NVME_INVALID_FIELD;
        return status;
}

/* An inactive namespace is all zeroes. */
static uint16_t identify_ns(struct admin *a)
{
        struct id_ns *id = (struct id_ns *)a->r->data;
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);
        uint64_t blocks;

        if (status || !ns)
                return status;
        blocks = atomic_load(&ns->blocks);
        id->nsze = id->ncap = id->nuse = le64(blocks);
        id->nmic = NMIC_SHARED;
        id->dlfeat = DLFEAT_ZEROES | DLFEAT_DEAC;
        le_put(id->nvmcap, 8, blocks << ns->lbads);
        memcpy(id->nguid, ns->nguid, sizeof(id->nguid));
        id->lbaf[0].lbads = ns->lbads;
        return 0;
}

static bool is_set(const uint8_t id[16])
{
        static const uint8_t zero[16];

        return memcmp(id, zero, sizeof(zero)) != 0;
}

static uint16_t identify_ns_descs(struct admin *a)
{
        static const uint8_t csi[1] = { CSI_NVM };
        struct ns *ns;
        uint16_t status = find_active_ns(a, &ns);
        size_t at = 0;

        if (status || !ns)
                return status;
        ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_UUID, 16, ns->uuid });
        if (is_set(ns->nguid))
                ns_desc_put(a->r->data, IDENTIFY_LEN, &at,
                            &(struct ns_id) { NIDT_NGUID, 16, ns->nguid });
        ns_desc_put(a->r->data, IDENTIFY_LEN, &at, &(struct ns_id) { NIDT_CSI, 1, csi });
        return 0;
}

/* I/O command set independent: what is not there is zero. */
static uint16_t identify_ns_independent(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_active_ns(a, &ns);

        if (status || !ns)
                return status;
        a->r->data[1] = NMIC_SHARED;
        a->r->data[14] = NSTAT_READY;
        return 0;
}

/* Of the NVM command set: no protection information, nothing beyond Identify Namespace. */
static uint16_t identify_iocs_ns(struct admin *a)
{
        struct ns *ns;

        return find_ns(a, &ns);
}

/* Of the NVM command set: no limits but MDTS. */
static uint16_t identify_nothing(struct admin *a)
{
        (void)a;
        return 0;
}

static uint16_t identify_ns_list(struct admin *a)
{
        le32_t *list = (le32_t *)a->r->data;
        size_t n = 0;

        if (nsid_of(a) >= UINT32_MAX - 1)
                return NVME_INVALID_NS;
        for (struct ns *ns = a->ctrl->subsystem->ns; ns && n < IDENTIFY_LEN / 4; ns = ns->next)
                if (ns->nsid > nsid_of(a))
                        list[n++] = le32(ns->nsid);
        return 0;
}

/* --- lists of controllers, command sets ------------------------------------------------------- */

static uint16_t identify_ctrl_list(struct admin *a)
{
        le16_t *list = (le16_t *)a->r->data;
        uint16_t from = (uint16_t)(le32_get(a->r->sqe.cdw10) >> 16);

        list[0] = le16((uint16_t)ctrl_table_list(a->env->table, a->ctrl->subsystem, from, list + 1,
                                                 IDENTIFY_LEN / 2 - 1));
        return 0;
}

static uint16_t identify_ns_ctrl_list(struct admin *a)
{
        struct ns *ns;
        uint16_t status = find_active_ns(a, &ns);

        return status || !ns ? status : identify_ctrl_list(a);
}

static uint16_t identify_iocs(struct admin *a)
{
        a->r->data[0] = IOCS_NVM;
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
        [CNS_IOCS_CTRL] = { identify_nothing, false, true },
        [CNS_IOCS_NS_LIST] = { identify_ns_list, false, true },
        [CNS_NS_INDEPENDENT] = { identify_ns_independent, false, false },
        [CNS_ALLOCATED_NS_LIST] = { identify_ns_list, false, false },
        [CNS_ALLOCATED_NS] = { identify_ns, false, false },
        [CNS_NS_CTRL_LIST] = { identify_ns_ctrl_list, false, false },
        [CNS_CTRL_LIST] = { identify_ctrl_list, false, false },
        [CNS_IOCS] = { identify_iocs, false, false },
};

uint16_t admin_identify(struct admin *a)
{
        const struct structure *s = &structures[(uint8_t)le32_get(a->r->sqe.cdw10)];
        uint8_t csi = (uint8_t)(le32_get(a->r->sqe.cdw11) >> 24);
        uint16_t status;

        if (!s->fill || (is_discovery(a->ctrl) && !s->discovery))
                return NVME_INVALID_FIELD;
        if (s->by_csi && csi != CSI_NVM)
                return NVME_INVALID_FIELD;
        memset(a->r->data, 0, a->r->len);
        pthread_rwlock_rdlock(&a->env->inv->lock);
        status = s->fill(a);
        pthread_rwlock_unlock(&a->env->inv->lock);
        return status;
}
