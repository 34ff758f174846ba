/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_file.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_pcapng.h"
#include "capture_window.h"

enum { FILE_HEADER = 24, RECORD_HEADER = 16 };

static const uint32_t magic_us = 0xa1b2c3d4, magic_ns = 0xa1b23c4d;

struct capture_file {
        struct capture_window in;
        struct pcapng *ng; /* or NULL, and then: */
        pcap_t *pcap;
        int link;

        bool plain; /* else libpcap reads */
        bool swapped;
        uint32_t ns; /* of the smaller unit of time */
        size_t snapshot;
};

/* --- a plain file ----------------------------------------------------------------------------- */

static uint32_t get32(const struct capture_file *f, const uint8_t *p)
{
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return f->swapped ? __builtin_bswap32(v) : v;
}

/* Of version 2.4, and libpcap has taken nothing but the header: else it goes on. */
static bool is_plain(struct capture_file *f, uint32_t magic)
{
        f->swapped = pcap_is_swapped(f->pcap);
        if (f->swapped)
                magic = __builtin_bswap32(magic);
        f->ns = magic == magic_us ? 1000 : 1;
        f->snapshot = (size_t)pcap_snapshot(f->pcap);
        return (magic == magic_us || magic == magic_ns) && pcap_major_version(f->pcap) == 2 &&
               pcap_minor_version(f->pcap) == 4 && window_offset(&f->in) == FILE_HEADER;
}

static int fail(struct capture_file *f, const char *what, uint64_t wanted, uint64_t had)
{
        return window_fail(&f->in, window_offset(&f->in), "%s: %llu bytes, not %llu", what,
                           (unsigned long long)had, (unsigned long long)wanted);
}

static int64_t time_of(uint64_t seconds, uint64_t ns)
{
        ns += seconds * 1000000000u;
        return ns > INT64_MAX / 2 ? 0 : (int64_t)ns;
}

static int next_record(struct capture_file *f, struct capture_frame *out)
{
        struct capture_window *w = &f->in;
        ssize_t have = window_fill(w, RECORD_HEADER);
        const uint8_t *head;
        size_t captured;

        if (have <= 0)
                return (int)have;
        if (have < RECORD_HEADER)
                return fail(f, "the file ends in the header of a frame", RECORD_HEADER,
                            (uint64_t)have);
        captured = get32(f, w->bytes + w->start + 8);
        if (captured > CAPTURED_MAX)
                return fail(f, "the length of a frame is not plausible", CAPTURED_MAX, captured);
        have = window_fill(w, RECORD_HEADER + captured);
        if (have < 0)
                return -1;
        if ((size_t)have < RECORD_HEADER + captured)
                return fail(f, "the file ends in a frame", captured,
                            (uint64_t)have - RECORD_HEADER);
        head = w->bytes + w->start;
        w->start += RECORD_HEADER + captured;
        *out = (struct capture_frame) {
                .p = head + RECORD_HEADER,
                .captured = captured < f->snapshot ? captured : f->snapshot,
                .whole = get32(f, head + 12),
                .time_ns = time_of(get32(f, head), (uint64_t)get32(f, head + 4) * f->ns),
                .link = f->link,
        };
        return 1;
}

/* --- any file --------------------------------------------------------------------------------- */

static int next_by_libpcap(struct capture_file *f, struct capture_frame *out)
{
        struct pcap_pkthdr *head;
        int rc = pcap_next_ex(f->pcap, &head, &out->p);

        if (rc != 1)
                return rc == PCAP_ERROR ? -1 : 0;
        out->captured = head->caplen;
        out->whole = head->len;
        out->link = f->link;
        out->others = 0;
        out->time_ns = time_of((uint64_t)head->ts.tv_sec, (uint64_t)head->ts.tv_usec);
        return 1;
}

static ssize_t read_window(void *cookie, char *buf, size_t n)
{
        struct capture_window *w = cookie;
        ssize_t have = window_fill(w, 1);

        if (have <= 0)
                return have;
        if ((size_t)have < n)
                n = (size_t)have;
        memcpy(buf, w->bytes + w->start, n);
        w->start += n;
        return (ssize_t)n;
}

/* Reads the window without a buffer of its own. */
static pcap_t *open_pcap(struct capture_window *w, char why[PCAP_ERRBUF_SIZE])
{
        FILE *f = fopencookie(w, "rb", (cookie_io_functions_t) { .read = read_window });
        pcap_t *pcap;

        if (!f) {
                snprintf(why, PCAP_ERRBUF_SIZE, "%s", strerror(errno));
                return NULL;
        }
        setvbuf(f, NULL, _IONBF, 0);
        pcap = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, why);
        if (!pcap)
                fclose(f); /* else it is the pcap's */
        return pcap;
}

static bool open_format(struct capture_file *f, char why[PCAP_ERRBUF_SIZE])
{
        uint32_t magic = 0;
        ssize_t have = window_fill(&f->in, sizeof(magic));

        if (have < 0) {
                snprintf(why, PCAP_ERRBUF_SIZE, "%s", f->in.why);
                return false;
        }
        if (pcapng_begins(&f->in)) {
                f->ng = pcapng_new(&f->in);
                if (!f->ng)
                        snprintf(why, PCAP_ERRBUF_SIZE, "out of memory");
                return f->ng;
        }
        memcpy(&magic, f->in.bytes, (size_t)have < sizeof(magic) ? (size_t)have : sizeof(magic));
        f->pcap = open_pcap(&f->in, why);
        if (!f->pcap)
                return false;
        f->link = pcap_datalink(f->pcap);
        f->plain = is_plain(f, magic);
        return true;
}

struct capture_file *capture_file_open(const char *path, char *err, size_t err_size)
{
        struct capture_file *f = calloc(1, sizeof(*f));
        char why[PCAP_ERRBUF_SIZE] = "";

        if (!f) {
                snprintf(err, err_size, "%s: out of memory", path);
                return NULL;
        }
        if (window_open(&f->in, path) < 0) {
                snprintf(err, err_size, "%s: %s", path, strerror(errno));
                free(f);
                return NULL;
        }
        if (open_format(f, why))
                return f;
        snprintf(err, err_size, "%s: %s", path, why);
        capture_file_close(f);
        return NULL;
}

int capture_file_next(struct capture_file *f, struct capture_frame *out)
{
        if (f->ng)
                return pcapng_next(f->ng, out);
        return f->plain ? next_record(f, out) : next_by_libpcap(f, out);
}

const char *capture_file_error(const struct capture_file *f)
{
        return *f->in.why || !f->pcap ? f->in.why : pcap_geterr(f->pcap);
}

void capture_file_close(struct capture_file *f)
{
        if (f->ng)
                pcapng_free(f->ng);
        if (f->pcap)
                pcap_close(f->pcap);
        window_close(&f->in);
        free(f);
}
