/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the codec costs: checks of a CapsuleCmd (with and without digest), layout, CRC32C of 1 MiB
 * by each implementation beside libisal called directly. Each figure is the best of several rounds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef NVMF_WITH_ISAL
#include <isa-l/crc.h>
#endif

#include "pdu/core/crc32c.h"
#include "pdu/nvme/wire/tcp.h"

enum { ROUNDS = 41, CALLS = 200000, MIB = 1 << 20, SUMS = 200, CAPSULES = 64 };

static double now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns per call of the fastest round. */
static double best(void (*run)(void *arg, int calls), void *arg, int calls)
{
        double least = 0;

        for (int i = 0; i < ROUNDS; i++) {
                double start = now_ns(), took;

                run(arg, calls);
                took = (now_ns() - start) / calls;
                if (i == 0 || took < least)
                        least = took;
        }
        return least;
}

/* --- capsules --------------------------------------------------------------------------------- */

struct capsules {
        struct pdu_format format;
        union pdu h[CAPSULES];
        uint32_t hdgst[CAPSULES];
        uint64_t seen; /* so that nothing is optimised away */
};

static void make_capsules(struct capsules *c, struct pdu_format format)
{
        c->format = format;
        for (unsigned i = 0; i < CAPSULES; i++) {
                union pdu *h = &c->h[i];

                memset(h, 0, sizeof(*h));
                h->ch.type = PDU_CAPSULE_CMD;
                h->cmd.sqe.opc = NVME_READ;
                h->cmd.sqe.cid = le16((uint16_t)i);
                h->cmd.sqe.nsid = le32(1);
                h->cmd.sqe.cdw10 = le32(i * 8);
                pdu_lay_out(h, &format, i % 4 ? 0 : 4096);
                c->hdgst[i] = crc32c(h, h->ch.hlen);
        }
}

/* What a controller does with the header of each: validate, and take the fields it acts on. */
static void check_capsules(void *arg, int calls)
{
        struct capsules *c = arg;

        for (int i = 0; i < calls; i++) {
                const union pdu *h = &c->h[i % CAPSULES];

                if (is_fault(pdu_check_common(&h->ch, PARTY_HOST, &c->format, NULL)) ||
                    is_fault(pdu_check_header(h, &c->format, NULL)))
                        abort();
                if (c->format.hdgst && crc32c(h, h->ch.hlen) != c->hdgst[i % CAPSULES])
                        abort();
                c->seen += pdu_data_len(h, &c->format) + h->cmd.sqe.opc + le16_get(h->cmd.sqe.cid) +
                           le32_get(h->cmd.sqe.nsid) + le32_get(h->cmd.sqe.cdw10);
        }
}

static void lay_out_responses(void *arg, int calls)
{
        struct capsules *c = arg;
        union pdu h = { .ch.type = PDU_C2H_DATA };

        for (int i = 0; i < calls; i++) {
                h.ch.flags = PDU_LAST;
                pdu_lay_out(&h, &c->format, 4096);
                c->seen += h.ch.pdo;
        }
}

/* --- CRC32C ----------------------------------------------------------------------------------- */

struct sum {
        uint8_t *data;
        enum crc32c_impl impl;
        uint32_t crc;
};

static void sum_default(void *arg, int calls)
{
        struct sum *s = arg;

        while (calls-- > 0)
                s->crc = crc32c_more(s->crc, s->data, MIB);
}

static void sum_with(void *arg, int calls)
{
        struct sum *s = arg;

        while (calls-- > 0)
                s->crc = crc32c_with(s->impl, s->crc, s->data, MIB);
}

#ifdef NVMF_WITH_ISAL
static void sum_libisal(void *arg, int calls)
{
        struct sum *s = arg;

        while (calls-- > 0)
                s->crc = crc32_iscsi(s->data, MIB, s->crc);
}
#endif

static double gb_per_s(double ns)
{
        return MIB / ns;
}

static void bench_crc(void)
{
        struct sum s = { .data = malloc(MIB) };
        double ours;

        if (!s.data)
                abort();
        for (int i = 0; i < MIB; i++)
                s.data[i] = (uint8_t)(i * 7 + i / 256);
        ours = best(sum_default, &s, SUMS);
        printf("CRC32C 1 MiB                      %8.2f GB/s\n", gb_per_s(ours));
#ifdef NVMF_WITH_ISAL
        double isal = best(sum_libisal, &s, SUMS);

        printf("  libisal alone                   %8.2f GB/s  (ours %+.1f %%)\n", gb_per_s(isal),
               (ours / isal - 1) * 100);
#endif
        for (s.impl = CRC32C_ISAL; s.impl < CRC32C_IMPLS; s.impl++)
                if (crc32c_has(s.impl))
                        printf("  with %-8s                   %8.2f GB/s\n", crc32c_name(s.impl),
                               gb_per_s(best(sum_with, &s, SUMS / 10)));
        free(s.data);
}

int main(void)
{
        static struct capsules c;

        make_capsules(&c, (struct pdu_format) { 0 });
        printf("CapsuleCmd checked, no digest     %8.2f ns\n", best(check_capsules, &c, CALLS));
        printf("C2HData laid out                  %8.2f ns\n", best(lay_out_responses, &c, CALLS));
        make_capsules(&c, (struct pdu_format) { .hdgst = true, .ddgst = true, .pda = 15 });
        printf("CapsuleCmd checked, HDGST summed  %8.2f ns\n", best(check_capsules, &c, CALLS));
        bench_crc();
        return c.seen == 0;
}
