/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The framer: one stream whole, byte by byte and cut at random has to give the same events.
 *
 * Input: sender, digests and whether all rules are waived (1 byte), alignment (1), the seed of the
 * cuts (2), the stream. The mutator lays out the PDUs of the stream, and sums their digests.
 */
#include "pdu/nvme/tcp/framer.h"
#include "fuzz/fuzz.h"
#include "fuzz/stream.h"

enum { BIT_CONTROLLER = 1, BIT_HDGST = 2, BIT_DDGST = 4, BIT_WAIVED = 8, BIT_NO_SINK = 16 };
enum { HEAD = 4, SINK = 1 << 16 };

struct run {
        struct framer f;
        unsigned bits, events;
        uint32_t digest;
        bool over;
};

static struct pdu_format format_of(const uint8_t *head)
{
        return (struct pdu_format) { .hdgst = head[0] & BIT_HDGST,
                                     .ddgst = head[0] & BIT_DDGST,
                                     .pda = head[1] % (PDU_PDA_MAX + 1) };
}

static void on_fault(struct run *r)
{
        struct fault fault = framer_fault(&r->f);

        must(framer_header_got(&r->f) >= 8 && framer_header_got(&r->f) <= PDU_HEADER_MAX);
        must(framer_next(&r->f) == FRAMER_FAULT);
        fuzz_digest(&r->digest, &fault.rule, sizeof(fault.rule));
        fuzz_digest(&r->digest, &fault.code, sizeof(fault.code));
        fuzz_digest(&r->digest, &fault.place, sizeof(fault.place));
        r->over = true;
}

static void on_header(struct run *r)
{
        static uint8_t sink[SINK];
        const union pdu *h = framer_header(&r->f);

        fuzz_digest(&r->digest, h, h->ch.hlen < sizeof(*h) ? h->ch.hlen : sizeof(*h));
        if (framer_data_len(&r->f) <= SINK && !(r->bits & BIT_NO_SINK))
                framer_sink(&r->f, sink);
}

static void on_pdu(struct run *r)
{
        const uint8_t *data = framer_data(&r->f);
        uint32_t len = framer_data_len(&r->f);
        bool bad = framer_ddgst_bad(&r->f);

        fuzz_digest(&r->digest, &len, sizeof(len));
        fuzz_digest(&r->digest, &bad, sizeof(bad));
        must(data || len == 0 || len > FRAMER_IN_PLACE);
        if (data)
                fuzz_digest(&r->digest, data, len);
}

static void events(struct run *r)
{
        enum framer_event e;

        while (!r->over && (e = framer_next(&r->f)) != FRAMER_MORE) {
                fuzz_digest(&r->digest, &e, sizeof(e));
                r->events++;
                if (e == FRAMER_HEADER)
                        on_header(r);
                else if (e == FRAMER_PDU)
                        on_pdu(r);
                else
                        on_fault(r);
        }
}

static size_t feed(struct run *r, const uint8_t *p, size_t n)
{
        struct iovec iov[2];
        int iovs = framer_recv_iov(&r->f, iov);
        size_t done = 0;

        must(iovs == 1 || iovs == 2);
        for (int i = 0; i < iovs && done < n; i++) {
                size_t len = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;

                must(iov[i].iov_len > 0);
                memcpy(iov[i].iov_base, p + done, len);
                done += len;
        }
        framer_received(&r->f, done);
        events(r);
        return done;
}

/* Cuts of at most `most` bytes, 0: none. */
static struct run run(const uint8_t *input, size_t size, unsigned most)
{
        static uint8_t buffer[FRAMER_BUFFER_MIN];
        const struct pdu_format format = format_of(input);
        struct run r = { .bits = input[0], .digest = FUZZ_DIGEST_START };
        uint64_t seed = input[2] | (uint64_t)input[3] << 8;

        framer_init(&r.f, input[0] & BIT_CONTROLLER ? PARTY_CONTROLLER : PARTY_HOST,
                    input[0] & BIT_WAIVED ? fuzz_all_rules() : NULL);
        framer_attach(&r.f, buffer, sizeof(buffer));
        framer_negotiated(&r.f, &format);
        for (size_t at = HEAD; at < size && !r.over;) {
                size_t n = most ? fuzz_random(&seed) % most + 1 : size - at;

                at += feed(&r, input + at, n < size - at ? n : size - at);
        }
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct run whole, cut;

        if (size < HEAD)
                return 0;
        whole = run(input, size, 0);
        cut = run(input, size, 1);
        must(cut.digest == whole.digest && cut.events == whole.events);
        cut = run(input, size, 300);
        must(cut.digest == whole.digest && cut.events == whole.events);
        must(framer_idle(&cut.f) == framer_idle(&whole.f));
        return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        struct pdu_format format;

        size = LLVMFuzzerMutate(data, size, max);
        if (size < HEAD)
                return size;
        format = format_of(data);
        stream_fix(data + HEAD, size - HEAD, &format,
                   data[0] & BIT_CONTROLLER ? PARTY_CONTROLLER : PARTY_HOST, seed);
        return size;
}
