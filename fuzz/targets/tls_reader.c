/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captured TLS 1.3 as `nvmfspec pcap` decrypts it. Input: a byte of choices, then steps of a byte each: records in
 * clear, records that are sealed here as a correct end would, or damaged, whatever they contain, and bytes as they
 * are; each goes to the reader in pieces. What it hands out is what was sealed as data, in order. First the input is
 * read as a key log.
 */
#include "pdu/nvme/io/tls_reader.h"
#include "fuzz/fuzz.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_record.h"

enum {
        HEADER = 5,
        ROOM = 1 << 16,
        RECORD = 4096,
        APPLICATION_DATA = 23,
        FINISHED = 20,
        KEY_UPDATE = 24
};

struct side {
        uint8_t secret[AUTH_HASH_MAX];
        struct tls_traffic keys;
        uint64_t seq;
        bool open;
        uint8_t sent[ROOM], got[ROOM]; /* what is inside */
        size_t sent_len, got_len;
};

struct play {
        struct side side[2];
        struct tls_reader *reader;
        const char *why;
        struct fuzz_input in;
        enum tls_suite suite;
        unsigned piece;
};

static const uint8_t random_bytes[TLS_RANDOM] = { 1 };

static void on_plain(void *user, enum party sender, const uint8_t *p, size_t n)
{
        struct side *s = &((struct play *)user)->side[sender];

        must(n > 0 && s->got_len + n <= ROOM);
        memcpy(s->got + s->got_len, p, n);
        s->got_len += n;
}

static void feed(struct play *f, enum party sender, const uint8_t *p, size_t n)
{
        while (n > 0) {
                size_t part = n < f->piece ? n : f->piece;
                const char *why = tls_reader_read(f->reader, sender, p, part, on_plain, f);

                must(!f->why || why); /* once it has ended it stays so */
                must(!why || (strlen(why) > 5 && !strchr(why, '\n')));
                f->why = why;
                p += part;
                n -= part;
        }
}

static void secret_of(uint8_t *secret, enum tls_secret_kind kind)
{
        memset(secret, 0x50 + (int)kind, AUTH_HASH_MAX);
}

static void set_keys(struct play *f, enum party p)
{
        struct side *s = &f->side[p];

        s->seq = 0;
        s->keys.suite = f->suite;
        must(tls_traffic_keys(auth_openssl(), s->secret, &s->keys) == 0);
}

static void enter(struct play *f, enum party p, enum tls_epoch epoch)
{
        secret_of(f->side[p].secret, (enum tls_secret_kind)(2 * epoch + p));
        f->side[p].open = epoch == TLS_APPLICATION_KEYS;
        set_keys(f, p);
}

/* Messages that are whole, so that their sender knows what his keys are. */
static void seal_message(struct play *f, enum party p, uint8_t type)
{
        struct side *s = &f->side[p];
        uint8_t message[64] = { type, 0, 0, bytes_u8(&f->in) % 60 }, record[200];
        size_t n = tls_record_seal(&s->keys, s->seq++, 22, message, 4u + message[3], 0, record);

        must(n > 0);
        feed(f, p, record, n);
        if (type == FINISHED && !s->open) {
                enter(f, p, TLS_APPLICATION_KEYS);
        } else if (type == KEY_UPDATE && s->open) {
                must(tls_next_secret(auth_openssl(), f->suite, s->secret) == 0);
                set_keys(f, p);
        }
}

static void seal_content(struct play *f, enum party p, uint8_t type, bool damage)
{
        uint8_t content[256], record[256 + TLS_RECORD_MORE];
        struct side *s = &f->side[p];
        size_t len = bytes_u8(&f->in), n;

        bytes_copy(&f->in, content, len);
        n = tls_record_seal(&s->keys, s->seq++, type, content, len, 0, record);
        must(n > 0);
        if (damage)
                record[bytes_u16(&f->in) % n] ^= (uint8_t)(1u << bytes_u8(&f->in) % 8);
        else if (type == APPLICATION_DATA && s->open && s->sent_len + len <= ROOM)
                memcpy(s->sent + s->sent_len, content, len), s->sent_len += len;
        feed(f, p, record, n);
}

static void put_clear(struct play *f, enum party p)
{
        uint8_t record[RECORD] = { 20 + bytes_u8(&f->in) % 4, 3, 3 };
        size_t len = bytes_u16(&f->in) % (RECORD - HEADER);

        record[3] = (uint8_t)(len >> 8);
        record[4] = (uint8_t)len;
        bytes_copy(&f->in, record + HEADER, len < f->in.left ? len : f->in.left);
        feed(f, p, record, HEADER + len);
}

static void put_raw(struct play *f, enum party p)
{
        uint8_t raw[256];
        size_t len = bytes_u8(&f->in);

        bytes_copy(&f->in, raw, len);
        feed(f, p, raw, len);
}

static void greet(struct play *f)
{
        struct tls_hello h = { .version = TLS_1_3,
                               .suites = 1u << f->suite,
                               .modes = TLS_PSK_DHE_KE,
                               .group = TLS_X25519 };
        uint8_t hello[TLS_HELLO_MAX], answer[TLS_ANSWER_MAX];
        struct tls_hello_view v;
        size_t n;

        memcpy(h.random, random_bytes, sizeof(h.random));
        n = tls_hello_build(auth_openssl(), &h, hello);
        must(tls_hello_read(&v, hello, n));
        feed(f, PARTY_HOST, hello, n);
        feed(f, PARTY_CONTROLLER, answer, tls_answer_build(&v, TLS_1_3, answer));
}

/* 0 would be padding, and the content's last byte the type. */
static uint8_t content_type(struct play *f)
{
        uint8_t type = bytes_u8(&f->in);

        return type ? type : 1;
}

static void step(struct play *f)
{
        uint8_t what = bytes_u8(&f->in);
        enum party p = what & 1 ? PARTY_CONTROLLER : PARTY_HOST;

        switch (what >> 1 & 7) {
        case 0:
                put_clear(f, p);
                break;
        case 1:
                put_raw(f, p);
                break;
        case 2:
                seal_message(f, p, FINISHED);
                break;
        case 3:
                seal_message(f, p, KEY_UPDATE);
                break;
        case 4:
                seal_content(f, p, content_type(f), what & 16);
                break;
        case 5:
                seal_message(f, p, bytes_u8(&f->in));
                break;
        default:
                seal_content(f, p, APPLICATION_DATA, false);
        }
}

/* As much as was understood is right. */
static void check_contents(const struct side *s)
{
        must(s->got_len <= s->sent_len);
        must(memcmp(s->got, s->sent, s->got_len) == 0);
}

static void add_secrets(struct key_log *k, enum tls_suite suite, unsigned which)
{
        char line[300], error[200];

        for (int kind = 0; kind < TLS_SECRETS; kind++) {
                uint8_t secret[AUTH_HASH_MAX];
                int n = snprintf(line, sizeof(line), "%s 01%062d ",
                                 tls_secret_name((enum tls_secret_kind)kind), 0);

                secret_of(secret, (enum tls_secret_kind)kind);
                for (unsigned i = 0; i < tls_key_len(suite); i++)
                        n += snprintf(line + n, sizeof(line) - (size_t)n, "%02x", secret[i]);
                if (which >> kind & 1)
                        must(key_log_add(k, line, (size_t)n, error, sizeof(error)) == 0);
        }
}

static void read_key_log(const uint8_t *input, size_t size)
{
        struct key_log *k = key_log_new();
        char error[200] = "";

        must(k);
        must((key_log_add(k, (const char *)input, size, error, sizeof(error)) == 0) == !error[0]);
        must(!strchr(error, '\n'));
        key_log_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct play f;
        struct key_log *k = key_log_new();
        uint8_t choice;

        must(k);
        read_key_log(input, size);
        if (!auth_openssl()) {
                key_log_free(k);
                return 0;
        }
        memset(&f, 0, sizeof(f));
        f.in = bytes_of(input, size);
        choice = bytes_u8(&f.in);
        f.suite = choice & 1 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
        f.piece = choice & 2 ? 1 : choice & 4 ? 7 : RECORD;
        add_secrets(k, f.suite, choice & 8 ? 15 : choice & 16 ? 12 : 14);
        f.reader = tls_reader_new(k);
        must(f.reader);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                enter(&f, p, TLS_HANDSHAKE_KEYS);
        if (choice & 32)
                greet(&f);
        for (unsigned i = 0; i < 64 && f.in.left > 0; i++)
                step(&f);
        for (int p = 0; p < 2; p++)
                check_contents(&f.side[p]);
        tls_reader_free(f.reader);
        key_log_free(k);
        return 0;
}
