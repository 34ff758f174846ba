/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host and controller over NVMe/RDMA, joined by verbs in memory that the input plays fate for: the
 * shape of the connections, the order in which everything happens, what fails and when, rules that
 * either end breaks on purpose or does not check; with a listener to all of it. What has to hold
 * whatever happens stands in pdu/nvme/machine/tests/schedule.h.
 *
 * Input: bits (1 byte), the rules that are broken (as many as the bits say, 3 bytes each), then a
 * byte for each choice; what is chosen beyond its end is a matter of its first bytes.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/rdma/rdma_track.h"

#define assert_true(x)               must(x)
#define assert_false(x)              must(!(x))
#define assert_null(p)               must((p) == NULL)
#define assert_ptr_equal(a, b)       must((a) == (b))
#define assert_int_equal(a, b)       must((uint64_t)(a) == (uint64_t)(b))
#define assert_memory_equal(a, b, n) must(memcmp(a, b, n) == 0)

#include "pdu/nvme/machine/tests/schedule.h"

enum { BITS_RULES = 3, BIT_LAWLESS = 4, BIT_WAIVED = 8, LISTENERS = 2 * ENDS };

static struct listener {
        uint64_t connection;
        struct rdma_track *t;
} listeners[LISTENERS];

static struct rdma_track *listener_of(uint64_t connection)
{
        struct listener *l = listeners;

        while (l < listeners + LISTENERS && l->t && l->connection != connection)
                l++;
        if (l == listeners + LISTENERS)
                return NULL;
        if (!l->t)
                *l = (struct listener) { connection, rdma_track_new(64, false, NULL) };
        return l->t;
}

static const struct rule_set *track_entry(struct rdma_track *t, const struct memory_tap_entry *e)
{
        enum party sender = e->by_connector ? PARTY_HOST : PARTY_CONTROLLER;

        switch (e->act) {
        case MEMORY_REQUEST:
                return rdma_track_request(t, e->data, e->len, e->param->reads_in,
                                          e->param->reads_out);
        case MEMORY_ACCEPT:
                return rdma_track_accept(t, e->data, e->len, e->param->reads_in,
                                         e->param->reads_out);
        case MEMORY_REJECT:
                return rdma_track_reject(t, e->data, e->len);
        case MEMORY_DISCONNECT:
                rdma_track_closed(t, sender);
                break;
        case MEMORY_SEND:
                if (e->by_connector)
                        return rdma_track_command(t, e->data, e->len);
                return rdma_track_response(t, e->data, e->len, e->invalidates, e->key);
        case MEMORY_READ:
                return rdma_track_read(t, sender, e->addr, e->key, e->len);
        case MEMORY_WRITE:
                return rdma_track_write(t, sender, e->addr, e->key, e->len);
        }
        return NULL;
}

static void tap(void *user, const struct memory_tap_entry *e)
{
        struct rdma_track *t = listener_of(e->connection);

        (void)user;
        if (t)
                must(!rule_in(track_entry(t, e), RULE_NONE));
}

static void stop_listening(void)
{
        for (size_t i = 0; i < LISTENERS; i++)
                if (listeners[i].t)
                        rdma_track_free(listeners[i].t);
        memset(listeners, 0, sizeof(listeners));
}

static void read_policies(struct fuzz_input *b, unsigned bits, struct rule_policy policy[2])
{
        for (unsigned i = 0; i <= (bits & BITS_RULES); i++) {
                enum rule_id rule = fuzz_rule(bytes_u16(b));
                enum party who = bytes_u8(b) & 1 ? PARTY_HOST : PARTY_CONTROLLER;

                rule_add(&policy[who].violated, rule);
        }
        if (bits & BIT_WAIVED)
                policy[0].waived = policy[1].waived = *fuzz_all_rules();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        struct rule_policy policy[2] = { 0 };
        struct schedule s = { .tap = tap };
        uint32_t digest = FUZZ_DIGEST_START;

        if (bits & BIT_LAWLESS) {
                read_policies(&b, bits, policy);
                s.policy = policy;
        }
        fuzz_digest(&digest, b.p, b.left < 4 ? b.left : 4);
        s.seed = digest;
        s.input = b.p;
        s.n = b.left;
        schedule_run(&s);
        stop_listening();
        return 0;
}
