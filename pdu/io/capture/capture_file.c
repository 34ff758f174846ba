/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_file.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        FILE_HEADER = 24,
        RECORD_HEADER = 16,
        CAPTURED_MAX = 256 << 10, /* libpcap believes no more either */
        WINDOW = 1 << 20,
};

static const uint32_t magic_us = 0xa1b2c3d4, magic_ns = 0xa1b23c4d;

struct capture_file {
        pcap_t *pcap;
        char why[120];

        /* a plain pcap file; window NULL: libpcap reads */
        uint8_t *window; /* WINDOW bytes; those from `start` to `end` are read and not handed out */
        size_t start, end;
        int fd;
        off_t at; /* of the window's end in the file */
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

/* Of version 2.4 in a file that can be read at any place: else libpcap goes on. */
static bool is_plain(struct capture_file *f)
{
        uint32_t magic;

        f->fd = fileno(pcap_file(f->pcap));
        if (pread(f->fd, &magic, sizeof(magic), 0) != sizeof(magic) ||
            pcap_major_version(f->pcap) != 2 || pcap_minor_version(f->pcap) != 4)
                return false;
        f->swapped = pcap_is_swapped(f->pcap);
        if (f->swapped)
                magic = __builtin_bswap32(magic);
        f->ns = magic == magic_us ? 1000 : 1;
        f->at = FILE_HEADER;
        f->snapshot = (size_t)pcap_snapshot(f->pcap);
        return magic == magic_us || magic == magic_ns;
}

/* At least n bytes from `start` on, if the file has them: how many there are, or -1. */
static ssize_t fill(struct capture_file *f, size_t n)
{
        if (f->end - f->start >= n)
                return (ssize_t)(f->end - f->start);
        memmove(f->window, f->window + f->start, f->end - f->start);
        f->end -= f->start;
        f->start = 0;
        while (f->end < n) {
                ssize_t got = pread(f->fd, f->window + f->end, WINDOW - f->end, f->at);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        snprintf(f->why, sizeof(f->why), "%s", strerror(errno));
                if (got < 0)
                        return -1;
                if (got == 0)
                        break;
                f->end += (size_t)got;
                f->at += got;
        }
        return (ssize_t)f->end;
}

static int fail(struct capture_file *f, const char *what, uint64_t wanted, uint64_t had)
{
        uint64_t at = (uint64_t)f->at - (f->end - f->start);

        snprintf(f->why, sizeof(f->why), "%s: %llu bytes, not %llu, at offset %llu", what,
                 (unsigned long long)had, (unsigned long long)wanted, (unsigned long long)at);
        return -1;
}

static int64_t time_of(uint64_t seconds, uint64_t ns)
{
        ns += seconds * 1000000000u;
        return ns > INT64_MAX / 2 ? 0 : (int64_t)ns;
}

static int next_record(struct capture_file *f, struct capture_frame *out)
{
        ssize_t have = fill(f, RECORD_HEADER);
        const uint8_t *head;
        size_t captured;

        if (have <= 0)
                return (int)have;
        if (have < RECORD_HEADER)
                return fail(f, "the file ends in the header of a frame", RECORD_HEADER,
                            (uint64_t)have);
        captured = get32(f, f->window + f->start + 8);
        if (captured > CAPTURED_MAX)
                return fail(f, "the length of a frame is not plausible", CAPTURED_MAX, captured);
        have = fill(f, RECORD_HEADER + captured);
        if (have < 0)
                return -1;
        if ((size_t)have < RECORD_HEADER + captured)
                return fail(f, "the file ends in a frame", captured,
                            (uint64_t)have - RECORD_HEADER);
        head = f->window + f->start;
        f->start += RECORD_HEADER + captured;
        *out = (struct capture_frame) {
                .p = head + RECORD_HEADER,
                .captured = captured < f->snapshot ? captured : f->snapshot,
                .whole = get32(f, head + 12),
                .time_ns = time_of(get32(f, head), (uint64_t)get32(f, head + 4) * f->ns),
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
        out->time_ns = time_of((uint64_t)head->ts.tv_sec, (uint64_t)head->ts.tv_usec);
        return 1;
}

static pcap_t *open_pcap(const char *path, char *err, size_t err_size)
{
        char why[PCAP_ERRBUF_SIZE] = "";
        FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
        pcap_t *pcap;

        if (!f) {
                snprintf(err, err_size, "%s: %s", path, strerror(errno));
                return NULL;
        }
        setvbuf(f, NULL, _IOFBF, WINDOW);
        pcap = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, why);
        if (pcap)
                return pcap; /* and f is its own */
        snprintf(err, err_size, "%s: %s", path, why);
        if (f != stdin)
                fclose(f);
        return NULL;
}

struct capture_file *capture_file_open(const char *path, char *err, size_t err_size)
{
        struct capture_file *f = calloc(1, sizeof(*f));

        if (!f) {
                snprintf(err, err_size, "%s: out of memory", path);
                return NULL;
        }
        f->pcap = open_pcap(path, err, err_size);
        if (!f->pcap) {
                free(f);
                return NULL;
        }
        if (is_plain(f))
                f->window = malloc(WINDOW); /* without it libpcap goes on */
        return f;
}

int capture_file_link(const struct capture_file *f)
{
        return pcap_datalink(f->pcap);
}

int capture_file_next(struct capture_file *f, struct capture_frame *out)
{
        return f->window ? next_record(f, out) : next_by_libpcap(f, out);
}

const char *capture_file_error(const struct capture_file *f)
{
        return *f->why ? f->why : pcap_geterr(f->pcap);
}

void capture_file_close(struct capture_file *f)
{
        free(f->window);
        pcap_close(f->pcap);
        free(f);
}
