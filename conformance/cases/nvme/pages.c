/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fields of log pages have to be: pdu/nvme/wire/pages.def. */
#include "pdu/nvme/wire/pages.h"
#include <string.h>

#include "conformance/words/case.h"

static const struct asked {
        uint8_t lid, lsp;
        uint16_t bytes;
} pages[] = {
        { LOG_SUPPORTED, 0, 1024 },
        { LOG_ERROR, 0, 1024 },
        { LOG_SMART, 0, 512 },
        { LOG_FW_SLOT, 0, 512 },
        { LOG_CHANGED_NS, 0, 4096 },
        { LOG_EFFECTS, 0, 4096 },
        { LOG_ANA, 0, 4096 },
        { LOG_ANA, 1, 4096 },
        { LOG_FEATURE_EFFECTS, 0, 1024 },
        { LOG_MI_EFFECTS, 0, 4096 },
        { LOG_CHANGED_ALLOCATED, 0, 4096 },
        { LOG_DISCOVERY, 0, 16 * 1024 }, /* or as much as there is */
        { LOG_HOSTS, 0, 1024 },
        { LOG_RESERVATION, 0, 64 },
        { LOG_SANITIZE, 0, 512 },
        { LOG_PERSISTENT, 3, 512 }, /* makes a context if there is none */
        { LOG_PERSISTENT, 0, 8192 },
        { LOG_PERSISTENT, 2, 4 }, /* releases it */
};

static bool asks(enum rule_id rule, uint8_t lid)
{
        for (unsigned i = 0; page_duty(i); i++)
                if (page_duty(i)->rule == rule && page_duty(i)->lid == lid)
                        return true;
        return false;
}

static uint32_t discovery_bytes(struct queue *q)
{
        struct reply r = finish(q, send_get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0));
        uint64_t n =
            r.status ? 0 : le64_get(((const struct disc_header *)(const void *)r.data)->numrec);

        return DISC_HEADER_LEN + (n < 63 ? (uint32_t)n : 63) * DISC_ENTRY_LEN;
}

/* RAE 1: nothing is lost that somebody else waits for. The Error log has one entry at least. */
static struct reply read_page(struct queue *q, const struct asked *a)
{
        uint32_t bytes = a->bytes, entries = (caps(q->t)->id.elpe + 1u) * sizeof(struct log_error);

        if (a->lid == LOG_DISCOVERY)
                entries = discovery_bytes(q);
        if ((a->lid == LOG_DISCOVERY || (a->lid == LOG_ERROR && caps(q->t)->io)) && entries < bytes)
                bytes = entries;
        return finish(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                  .cdw10 = a->lid | (uint32_t)a->lsp << 8 | retain_event(q) |
                                           (bytes / 4 - 1) << 16,
                                  .bytes = bytes));
}

/* Each of the rule's log pages that there is keeps what the rule demands of it. */
static void judge_pages(struct queue *q, enum rule_id rule)
{
        bool discovery = strcmp(q->subnqn, NQN_DISCOVERY) == 0;
        uint32_t vs = (uint32_t)property_get(q, PROP_VS);
        const struct id_ctrl *ctrl = identify_ctrl(q);
        char seen[512];
        struct text text = text_in(seen, sizeof(seen));
        unsigned read = 0, faults = 0;

        for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
                struct reply r;

                if (!asks(rule, pages[i].lid))
                        continue;
                r = read_page(q, &pages[i]);
                if (r.status != NVME_SUCCESS)
                        continue;
                read++;
                faults += page_explain(
                    &(struct page) { .lid = pages[i].lid,
                                     .lsp = pages[i].lsp,
                                     .cntrltype = discovery ? CNTRLTYPE_DISCOVERY : CNTRLTYPE_IO,
                                     .vs = vs,
                                     .ctrl = ctrl,
                                     .data = r.data,
                                     .len = r.got },
                    rule, &text);
        }
        require(q->t, read > 0, "the controller has none of these log pages");
        want(q->t, !faults, "fields as the specification requires them", "%s", seen);
}

CASE("base/log/supported-fields", MUST, RULES(LOG_SUPPORTED_FIELDS),
     "Supported Log Pages fits the type of the controller and its Identify data")
{
        judge_pages(admin_queue(t), LOG_SUPPORTED_FIELDS);
}

CASE(
    "fab/discovery/log-supported", MUST, RULES(LOG_SUPPORTED_FIELDS),
    "Supported Log Pages of a discovery controller names the log pages that it has to have, and no "
    "other type's",
    .needs = DISCOVERY)
{
        judge_pages(discovery_queue(t), LOG_SUPPORTED_FIELDS);
}

CASE("base/log/error-fields", MUST, RULES(LOG_ERROR_FIELDS),
     "Entries of Error Information have values that are allowed, and error counts that decrease")
{
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 3; i++)
                finish(q, send_get_log(q, 0x6f, 512, 0));
        judge_pages(q, LOG_ERROR_FIELDS);
}

CASE(
    "base/log/smart-fields", MUST, RULES(LOG_SMART_FIELDS),
    "Percentages of SMART / Health are at most 100, and its times fit the temperatures of Identify "
    "Controller")
{
        judge_pages(admin_queue(t), LOG_SMART_FIELDS);
}

CASE("base/log/firmware-fields", MUST, RULES(LOG_FIRMWARE_FIELDS),
     "Firmware Slot Information has no slot beyond those of FRMW")
{
        judge_pages(admin_queue(t), LOG_FIRMWARE_FIELDS);
}

CASE("base/log/changed-list", MUST, RULES(LOG_LIST_FIELDS),
     "Lists of changed namespaces rise and end with zeroes")
{
        judge_pages(admin_queue(t), LOG_LIST_FIELDS);
}

CASE("base/log/effects-fields", MUST, RULES(LOG_EFFECTS_FIELDS),
     "Commands Supported and Effects fits the type of the controller, OACS and ONCS")
{
        judge_pages(admin_queue(t), LOG_EFFECTS_FIELDS);
}

CASE("fab/discovery/log-effects", MUST, RULES(LOG_EFFECTS_FIELDS),
     "Commands Supported and Effects of a discovery controller names its commands, and no other "
     "type's",
     .needs = DISCOVERY)
{
        judge_pages(discovery_queue(t), LOG_EFFECTS_FIELDS);
}

CASE("base/log/features-fields", MUST, RULES(LOG_FEATURE_FIELDS),
     "Feature Identifiers Supported and Effects names the features of the controller with their "
     "scopes")
{
        judge_pages(admin_queue(t), LOG_FEATURE_FIELDS);
}

CASE("fab/discovery/log-features", MUST, RULES(LOG_FEATURE_FIELDS),
     "Feature Identifiers Supported and Effects of a discovery controller names no feature of "
     "another type's",
     .needs = DISCOVERY)
{
        judge_pages(discovery_queue(t), LOG_FEATURE_FIELDS);
}

CASE("base/log/ana-fields", MUST, RULES(LOG_ANA_FIELDS),
     "ANA groups and their namespaces come in order, with an assigned state")
{
        judge_pages(ana_queue(t), LOG_ANA_FIELDS);
}

CASE("base/ana/states", MUST, RULES(ANA_STATES),
     "States of ANA groups are those that ANACAP announces, and there are at most NANAGRPID groups")
{
        judge_pages(ana_queue(t), ANA_STATES);
}

CASE("base/log/persistent-fields", MUST, RULES(LOG_PEL_FIELDS),
     "The header of the Persistent Event log names itself, the subsystem and the reporting context")
{
        judge_pages(admin_queue(t), LOG_PEL_FIELDS);
}

CASE("base/log/reservation-fields", MUST, RULES(LOG_RESERVATION_FIELDS),
     "A Reservation Notification log page has an assigned type and a count, or is all zero")
{
        judge_pages(admin_queue(t), LOG_RESERVATION_FIELDS);
}

CASE("base/log/sanitize-fields", MUST, RULES(LOG_SANITIZE_FIELDS),
     "Progress, status and passes of the Sanitize Status log fit each other")
{
        struct queue *q = admin_queue(t);

        if (!le32_get(identify_ctrl(q)->sanicap) && caps(t)->expendable)
                q = admin_queue(t, .subnqn = caps(t)->expendable);
        judge_pages(q, LOG_SANITIZE_FIELDS);
}

CASE("fab/discovery/log-fields", MUST, RULES(DISC_LOG_FIELDS),
     "CNTLID, TREQ and EFLAGS of discovery log entries have values that are allowed",
     .needs = DISCOVERY)
{
        judge_pages(discovery_queue(t), DISC_LOG_FIELDS);
}

CASE("fab/discovery/log-reserved", SHOULD, RULES(LOG_RESERVED),
     "Reserved fields of the log pages of a discovery controller are 0", .needs = DISCOVERY)
{
        judge_pages(discovery_queue(t), LOG_RESERVED);
}

CASE("base/log/reserved", SHOULD, RULES(LOG_RESERVED), "Reserved fields of log pages are 0")
{
        judge_pages(admin_queue(t), LOG_RESERVED);
}
