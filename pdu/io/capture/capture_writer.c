/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capture_frame.h"
#include "pdu/io/log.h"

enum {
        TCP_HEAD = 20,
        SEGMENT = 32768, /* bytes of data in one packet at most; IPv4 counts in 16 bits */
        PACKET_MAX = FRAME_HEADS + TCP_HEAD + SEGMENT,
        FILE_HEAD = 24,   /* bytes before the first packet of a classic file */
        PACKET_HEAD = 16, /* and before each packet */
};

enum tcp_flags { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct capture_writer {
        pthread_mutex_t lock;
        char *path;
        uint64_t most;        /* bytes of a file; 0: no limit */
        unsigned files, file; /* of a ring; which of them is written */
        pcap_t *pcap;
        pcap_dumper_t *dump; /* NULL, as ng: the recording has ended */
        FILE *ng;            /* pcapng, in place of the two */
        int error;           /* errno of the first write that failed */
        uint32_t next_number;
        uint64_t frames, bytes; /* in the file */
        uint8_t packet[PACKET_MAX];
};

/* --- pcapng (draft-ietf-opsawg-pcapng) -------------------------------------------------------- */

enum {
        NG_SECTION = 0x0a0d0d0a,
        NG_INTERFACE = 1,
        NG_PACKET = 6,
        NG_BYTE_ORDER = 0x1a2b3c4d,
        NG_OPT_COMMENT = 1,
        NG_OPT_TSRESOL = 9,
        NG_BLOCK = 12, /* bytes of a block around its body */
        NG_HEAD = 60,  /* bytes before the first packet */
        NG_COMMENT_MAX = 1024,
};

static uint32_t padded(size_t n)
{
        return (uint32_t)(n + 3) & ~3u;
}

/* In the byte order of this machine, as the section says. */
static void ng_words(FILE *f, const uint32_t *words, size_t n)
{
        fwrite(words, sizeof(*words), n, f);
}

static void ng_bytes(FILE *f, const void *p, size_t n)
{
        static const uint8_t zero[4];

        fwrite(p, 1, n, f);
        fwrite(zero, 1, padded(n) - n, f);
}

static void ng_option(FILE *f, uint16_t code, const void *p, uint16_t n)
{
        const uint16_t head[2] = { code, n };

        fwrite(head, sizeof(head), 1, f);
        ng_bytes(f, p, n);
}

static void ng_begin(FILE *f)
{
        static const uint32_t section[] = { NG_SECTION, 28, NG_BYTE_ORDER, 1, ~0u, ~0u, 28 };
        static const uint32_t interface[] = { NG_INTERFACE, 32, DLT_EN10MB, PACKET_MAX };
        static const uint32_t end[] = { 0, 32 };
        static const uint8_t nanoseconds = 9;

        ng_words(f, section, sizeof(section) / sizeof(section[0]));
        ng_words(f, interface, sizeof(interface) / sizeof(interface[0]));
        ng_option(f, NG_OPT_TSRESOL, &nanoseconds, 1);
        ng_words(f, end, 2);
}

static uint16_t ng_comment_len(const char *comment)
{
        return comment ? (uint16_t)strnlen(comment, NG_COMMENT_MAX) : 0;
}

/* Bytes of the block of a packet of n bytes. */
static uint32_t ng_packet_len(uint32_t n, const char *comment)
{
        uint16_t said = ng_comment_len(comment);

        return NG_BLOCK + 20 + padded(n) + (said ? 4 + padded(said) + 4 : 0);
}

static void ng_packet(FILE *f, const uint8_t *packet, uint32_t n, int64_t time_ns,
                      const char *comment)
{
        uint16_t said = ng_comment_len(comment);
        uint32_t len = ng_packet_len(n, comment);
        const uint32_t head[] = { NG_PACKET,         len, 0, (uint32_t)((uint64_t)time_ns >> 32),
                                  (uint32_t)time_ns, n,   n };
        const uint32_t no_more = 0;

        ng_words(f, head, sizeof(head) / sizeof(head[0]));
        ng_bytes(f, packet, n);
        if (said) {
                ng_option(f, NG_OPT_COMMENT, comment, said);
                ng_words(f, &no_more, 1);
        }
        ng_words(f, &len, 1);
}

/* --- files ------------------------------------------------------------------------------------ */

static bool is_ng(const char *path)
{
        size_t n = strlen(path);

        return n > 7 && strcmp(path + n - 7, ".pcapng") == 0;
}

static bool open_ng(struct capture_writer *w, const char *path, char *err, size_t err_size)
{
        w->ng = fopen(path, "wb");
        if (w->ng)
                ng_begin(w->ng);
        else
                snprintf(err, err_size, "%s: %s", path, strerror(errno));
        w->bytes = NG_HEAD;
        return w->ng;
}

static bool open_classic(struct capture_writer *w, const char *path, char *err, size_t err_size)
{
        if (!w->pcap)
                w->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, PACKET_MAX,
                                                               PCAP_TSTAMP_PRECISION_NANO);
        w->dump = w->pcap ? pcap_dump_open(w->pcap, path) : NULL;
        if (!w->dump)
                snprintf(err, err_size, "%s", w->pcap ? pcap_geterr(w->pcap) : "out of memory");
        w->bytes = FILE_HEAD;
        return w->dump;
}

/* The first of a ring has the path that was asked for, and that says the format of all. */
static bool open_file(struct capture_writer *w, char *err, size_t err_size)
{
        char path[PATH_MAX + 16];

        snprintf(path, sizeof(path), w->file ? "%s.%u" : "%s", w->path, w->file);
        w->frames = 0;
        return (is_ng(w->path) ? open_ng : open_classic)(w, path, err, err_size);
}

static void close_file(struct capture_writer *w)
{
        bool failed = false;

        errno = 0;
        if (w->dump) {
                failed = pcap_dump_flush(w->dump) < 0 || ferror(pcap_dump_file(w->dump));
                pcap_dump_close(w->dump);
        }
        if (w->ng) {
                failed = fflush(w->ng) != 0 || ferror(w->ng);
                failed |= fclose(w->ng) != 0;
        }
        if (failed && !w->error) /* without errno: a write failed before, perhaps elsewhere */
                w->error = errno ? errno : EIO;
        w->dump = NULL;
        w->ng = NULL;
}

/* This one is full. */
static void next_file(struct capture_writer *w)
{
        char err[300];

        close_file(w);
        if (w->files < 2) {
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "%s: the recording has ended: it may have %" PRIu64 " bytes", w->path,
                         w->most);
                return;
        }
        w->file = (w->file + 1) % w->files;
        errno = 0;
        if (open_file(w, err, sizeof(err)))
                return;
        if (!w->error)
                w->error = errno ? errno : EIO;
        log_line(LOG_AS_ERROR, NULL, NULL, "the recording has ended: %s", err);
}

struct capture_writer *capture_writer_open(const char *path, char *err, size_t err_size)
{
        struct capture_writer *w = calloc(1, sizeof(*w));

        if (!w || !(w->path = strdup(path))) {
                snprintf(err, err_size, "%s: out of memory", path);
                free(w);
                return NULL;
        }
        pthread_mutex_init(&w->lock, NULL);
        if (!open_file(w, err, err_size)) {
                capture_writer_close(w);
                return NULL;
        }
        return w;
}

void capture_writer_limit(struct capture_writer *w, uint64_t bytes, unsigned files)
{
        pthread_mutex_lock(&w->lock);
        w->most = bytes;
        w->files = files;
        pthread_mutex_unlock(&w->lock);
}

int capture_writer_close(struct capture_writer *w)
{
        int error;

        close_file(w);
        error = w->error;
        if (w->pcap)
                pcap_close(w->pcap);
        pthread_mutex_destroy(&w->lock);
        free(w->path);
        free(w);
        errno = error;
        return error ? -1 : 0;
}

/* --- one packet ------------------------------------------------------------------------------- */

static uint8_t *put_tcp(uint8_t *p, const struct capture_flow *f, enum party sender, unsigned flags,
                        const void *data, size_t n)
{
        put16(p, f->end[sender].port);
        put16(p + 2, f->end[peer_of(sender)].port);
        put32(p + 4, f->seq[sender]);
        put32(p + 8, flags & ACK ? f->seq[peer_of(sender)] : 0);
        put16(p + 12, (TCP_HEAD / 4) << 12 | flags);
        put16(p + 14, 65535); /* window */
        put32(p + 16, 0);
        if (n)
                memcpy(p + TCP_HEAD, data, n);
        put16(p + 16, frame_sum(f->end, IPPROTO_TCP, p, TCP_HEAD + n));
        return p + TCP_HEAD + n;
}

static bool is_open(const struct capture_writer *w)
{
        return w->ng || w->dump;
}

static void dump(struct capture_writer *w, uint32_t n, int64_t time_ns, const char *comment)
{
        uint32_t len = w->pcap ? PACKET_HEAD + n : ng_packet_len(n, comment);
        struct pcap_pkthdr head = { 0 };

        if (is_open(w) && w->most > 0 && w->bytes + len > w->most)
                next_file(w);
        if (!is_open(w))
                return;
        w->frames++;
        w->bytes += len;
        if (w->ng) {
                ng_packet(w->ng, w->packet, n, time_ns, comment);
                return;
        }
        head.ts.tv_sec = time_ns / 1000000000;
        head.ts.tv_usec = time_ns % 1000000000; /* the file is one of nanoseconds */
        head.caplen = head.len = n;
        pcap_dump((uint8_t *)w->dump, &head, w->packet);
}

uint8_t *frame_begin(struct capture_writer *w)
{
        pthread_mutex_lock(&w->lock);
        return w->packet;
}

void frame_end(struct capture_writer *w, const uint8_t *end, int64_t time_ns, const char *comment)
{
        dump(w, (uint32_t)(end - w->packet), time_ns, comment);
        pthread_mutex_unlock(&w->lock);
}

uint64_t capture_writer_frames(struct capture_writer *w, unsigned *file)
{
        uint64_t n;

        pthread_mutex_lock(&w->lock);
        n = w->frames;
        *file = w->file;
        pthread_mutex_unlock(&w->lock);
        return n;
}

uint32_t frame_number(struct capture_writer *w)
{
        uint32_t n;

        pthread_mutex_lock(&w->lock);
        n = w->next_number++;
        pthread_mutex_unlock(&w->lock);
        return n;
}

static void packet(struct capture_writer *w, struct capture_flow *f, enum party sender,
                   unsigned flags, const void *data, size_t n, int64_t time_ns)
{
        uint8_t *p = frame_begin(w);

        p = frame_heads(p, f->end, sender, IPPROTO_TCP, TCP_HEAD + n);
        p = put_tcp(p, f, sender, flags, data, n);
        frame_end(w, p, time_ns, f->comment);
        f->comment = NULL;
        f->seq[sender] += (uint32_t)n + (flags & (SYN | FIN) ? 1 : 0);
}

/* --- a flow ----------------------------------------------------------------------------------- */

void capture_flow_open(struct capture_writer *w, struct capture_flow *f,
                       const struct sockaddr *host, const struct sockaddr *controller,
                       int64_t time_ns)
{
        frame_ends(f->end, host, controller);
        f->seq[PARTY_HOST] = f->seq[PARTY_CONTROLLER] = 0;
        if (f->midstream)
                return;
        packet(w, f, PARTY_HOST, SYN, NULL, 0, time_ns);
        packet(w, f, PARTY_CONTROLLER, SYN | ACK, NULL, 0, time_ns);
        packet(w, f, PARTY_HOST, ACK, NULL, 0, time_ns);
}

void capture_flow_data(struct capture_writer *w, struct capture_flow *f, enum party sender,
                       const void *data, size_t n, int64_t time_ns)
{
        const uint8_t *p = data;

        while (n > 0) {
                size_t part = n < SEGMENT ? n : SEGMENT;

                packet(w, f, sender, PSH | ACK, p, part, time_ns);
                p += part;
                n -= part;
        }
}

void capture_flow_close(struct capture_writer *w, struct capture_flow *f, enum party who,
                        bool reset, int64_t time_ns)
{
        if (reset) {
                packet(w, f, who, RST | ACK, NULL, 0, time_ns);
                return;
        }
        packet(w, f, who, FIN | ACK, NULL, 0, time_ns);
        packet(w, f, peer_of(who), FIN | ACK, NULL, 0, time_ns);
        packet(w, f, who, ACK, NULL, 0, time_ns);
}
