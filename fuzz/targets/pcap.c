/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture file as `nvmfspec pcap` reads it: packets, streams, PDUs and capsules, sessions, the
 * judges, what is said of each record, and the sequences that its hosts have played.
 *
 * Input: the file, pcap or pcapng; it is read a second time with an allocation that fails. The mutator
 * works on packets, and mends what they say of themselves.
 */
#include "fuzz/fuzz.h"
#include "fuzz/inproc/pcap_mutate.h"
#include "fuzz/nvme/seq_capture.h"
#include "fuzz/stream.h"
#include "pcap/nvme/line.h"
#include "pcap/nvme/session.h"

struct seen {
        uint64_t records, frame;
};

static void on_record(void *user, const struct record *r)
{
        struct seen *seen = user;
        char words[LINE_MAX_TEXT];
        struct text t = text_in(words, sizeof(words));
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);

        seen->records++;
        line_words(&t, r);
        line_describe(&d, r);
        fuzz_described(&reader);
        must(r->session && r->session->conn == r->e->conn);
        must(!r->cmd || !r->ends || r->cqe || r->e->kind == TRACE_PDU);
        must(r->is_broken == !rule_set_empty(&r->broken));
}

static void read_capture(const uint8_t *input, size_t size)
{
        const struct session_options options = { .judge = true, .keep_data = true };
        struct seen seen = { 0 };
        struct trace_totals totals = { 0 };
        char err[300] = "";
        int rc = session_read(fuzz_file(input, size), NULL, &options, on_record, &seen, &totals,
                              err, sizeof(err));

        must(rc == 0 || rc == -1);
        must((rc == 0) == (err[0] == '\0'));
        must(!strchr(err, '\n'));
}

static void read_sequences(const uint8_t *input, size_t size)
{
        static char text[SEQ_TEXT];
        static struct sequence again;
        struct corpus c = { 0 };
        char err[CORPUS_ERROR] = "";

        must(seq_capture(&c, fuzz_file(input, size), err) == (err[0] == '\0'));
        for (unsigned i = 0; i < c.n; i++) {
                size_t n = seq_print(c.at[i], text, sizeof(text));

                if (!seq_parse(&again, text, n, err, sizeof(err)))
                        fuzz_broken(err, __FILE__, __LINE__);
                must(again.steps == c.at[i]->steps && again.transport == c.at[i]->transport);
        }
        corpus_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        uint32_t digest = FUZZ_DIGEST_START;

        read_capture(input, size);
        fuzz_digest(&digest, input, size);
        if (digest % 4 == 0)
                read_sequences(input, size);
        fuzz_scarce(1 + digest % 64);
        if (digest % 16 == 4)
                read_sequences(input, size);
        else
                read_capture(input, size);
        fuzz_scarce(0);
        return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        return pcap_mutate(data, size, max, seed);
}
