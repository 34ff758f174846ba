/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_ktls.h"

#ifdef NVMF_WITH_OPENSSL

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "pdu/core/wipe.h"
#include "stream_tls_own.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

enum { IV = 12, SALT = 4, SCATTERED_MAX = 8 /* bytes: KeyUpdate has 5 */ };

/* The keys of a secret, from their first record on. */
static bool set_keys(int fd, const struct ktls *k, const uint8_t *secret, int direction)
{
        union {
                struct tls_crypto_info info;
                struct tls12_crypto_info_aes_gcm_128 small;
                struct tls12_crypto_info_aes_gcm_256 large;
        } c = { .info = { .version = TLS_1_3_VERSION } };
        bool is_small = k->suite == TLS_AES_128_GCM;
        uint8_t *key = is_small ? c.small.key : c.large.key, iv[IV];
        bool good = k->expand(k->suite, secret, "tls13 key", key,
                              is_small ? sizeof(c.small.key) : sizeof(c.large.key)) &&
                    k->expand(k->suite, secret, "tls13 iv", iv, sizeof(iv));

        errno = ENOTSUP;
        c.info.cipher_type = is_small ? TLS_CIPHER_AES_GCM_128 : TLS_CIPHER_AES_GCM_256;
        memcpy(is_small ? c.small.salt : c.large.salt, iv, SALT);
        memcpy(is_small ? c.small.iv : c.large.iv, iv + SALT, sizeof(iv) - SALT);
        good = good && setsockopt(fd, SOL_TLS, direction, &c,
                                  is_small ? sizeof(c.small) : sizeof(c.large)) == 0;
        wipe(&c, sizeof(c));
        wipe(iv, sizeof(iv));
        return good;
}

static int begin(int fd, const struct ktls *k)
{
        if (setsockopt(fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ||
            !set_keys(fd, k, k->out, TLS_TX))
                return 0;
        return set_keys(fd, k, k->in, TLS_RX) ? 1 : -1;
}

static ssize_t read_record(int fd, const struct iovec *iov, int n, uint8_t *type)
{
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
        } control;
        struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
                              .msg_iovlen = (size_t)n,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
        ssize_t got = recvmsg(fd, &msg, 0);
        const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

        *type = TLS_DATA;
        if (c && c->cmsg_level == SOL_TLS && c->cmsg_type == TLS_GET_RECORD_TYPE)
                *type = *CMSG_DATA(c);
        return got;
}

static bool send_record(int fd, uint8_t type, const void *content, size_t len)
{
        union {
                struct cmsghdr header;
                uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
        } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(type)),
                                  .cmsg_level = SOL_TLS,
                                  .cmsg_type = TLS_SET_RECORD_TYPE } };
        struct iovec iov = { (void *)(uintptr_t)content, len };
        const struct msghdr msg = { .msg_iov = &iov,
                                    .msg_iovlen = 1,
                                    .msg_control = &control,
                                    .msg_controllen = sizeof(control) };

        *CMSG_DATA(&control.header) = type;
        return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool update(int fd, struct ktls *k, bool out)
{
        uint8_t *secret = out ? k->out : k->in, next[TLS_KEY_MAX];
        bool good = k->expand(k->suite, secret, "tls13 traffic upd", next, tls_key_len(k->suite));

        if (good)
                memcpy(secret, next, tls_key_len(k->suite));
        wipe(next, sizeof(next));
        return good && set_keys(fd, k, secret, out ? TLS_TX : TLS_RX);
}

/* --- as a stream --------------------------------------------------------------------------------- */

enum { KEY_UPDATE_LEN = 5 };

static void send_alert(const struct stream *s, uint8_t description)
{
        const uint8_t alert[] = { description == TLS_CLOSE_NOTIFY ? 1 : 2, description };

        send_record(s->source.fd, TLS_ALERTS, alert, sizeof(alert));
}

static ssize_t end_with(struct stream *s, uint8_t alert, const char *why)
{
        struct own *o = own(s);

        if (alert != TLS_CLOSE_NOTIFY)
                send_alert(s, alert);
        tls_reason(o, why);
        o->error = EPROTO;
        return tls_fail(o);
}

/* 0, or -1 with errno. */
static ssize_t take_update(struct stream *s, const uint8_t *message, size_t len)
{
        static const uint8_t answer[] = { TLS_KEY_UPDATE, 0, 0, 1, 0 };
        struct own *o = own(s);
        int fd = s->source.fd;

        if (len != KEY_UPDATE_LEN || message[0] != TLS_KEY_UPDATE)
                return end_with(s, TLS_UNEXPECTED_MESSAGE, "an unexpected message");
        if (message[4] > 1)
                return end_with(s, TLS_ILLEGAL_PARAMETER,
                                "KeyUpdate asks for neither of two answers");
        if (!update(fd, &o->keys, false) ||
            (message[4] == 1 && (!send_record(fd, TLS_HANDSHAKE, answer, sizeof(answer)) ||
                                 !update(fd, &o->keys, true))))
                return end_with(s, TLS_CLOSE_NOTIFY, "KeyUpdate, which this kernel cannot follow");
        return 0;
}

/* A record that is not of data: 1: its end; 0: the next one counts; -1 with errno. */
static ssize_t take_other(struct stream *s, uint8_t type, const uint8_t *content, size_t len)
{
        char why[32];

        if (type == TLS_HANDSHAKE)
                return take_update(s, content, len);
        if (type != TLS_ALERTS || len != 2)
                return end_with(s, TLS_UNEXPECTED_MESSAGE, "an unexpected record");
        if (content[1] == TLS_CLOSE_NOTIFY)
                return 1;
        snprintf(why, sizeof(why), "alert %u", content[1]);
        return end_with(s, TLS_CLOSE_NOTIFY, why);
}

static ssize_t fail_record(struct stream *s)
{
        struct own *o = own(s);

        if (errno == EBADMSG)
                return end_with(s, TLS_BAD_RECORD_MAC, "a record that cannot be decrypted");
        if (errno == EMSGSIZE)
                return end_with(s, TLS_RECORD_OVERFLOW, "a record that is too long");
        if (errno == EINVAL)
                return end_with(s, TLS_UNEXPECTED_MESSAGE, "what comes is no record");
        if (errno != EAGAIN && errno != EINTR)
                o->error = errno;
        return -1;
}

/* It began in the last bytes of a place. */
static ssize_t take_scattered(struct stream *s, uint8_t type, const struct iovec *iov, int n,
                              size_t len)
{
        uint8_t whole[SCATTERED_MAX] = { 0 };
        size_t sum = 0;

        if (len > sizeof(whole))
                return end_with(s, TLS_UNEXPECTED_MESSAGE, "an unexpected record");
        for (int i = 0; i < n && sum < len; i++) {
                size_t part = iov[i].iov_len < len - sum ? iov[i].iov_len : len - sum;

                memcpy(whole + sum, iov[i].iov_base, part);
                sum += part;
        }
        return take_other(s, type, whole, len);
}

static ssize_t kernel_read(struct stream *s, const struct iovec *iov, int n)
{
        struct own *o = own(s);

        if (o->error)
                return tls_fail(o);
        while (!o->eof) {
                uint8_t type;
                ssize_t got = read_record(s->source.fd, iov, n, &type), rc;

                if (got < 0)
                        return fail_record(s);
                if (type == TLS_DATA)
                        return got;
                rc = (size_t)got > iov->iov_len ? take_scattered(s, type, iov, n, (size_t)got)
                                                : take_other(s, type, iov->iov_base, (size_t)got);
                if (rc < 0)
                        return rc;
                o->eof = rc > 0;
        }
        return 0;
}

static ssize_t kernel_write(struct stream *s, const struct iovec *iov, int n)
{
        return own(s)->error ? tls_fail(own(s)) : stream_over_tcp.write(s, iov, n);
}

static int kernel_half_close(struct stream *s)
{
        send_alert(s, TLS_CLOSE_NOTIFY);
        return stream_over_tcp.half_close(s);
}

static void kernel_close(struct stream *s, bool reset)
{
        if (!reset && !own(s)->error && !s->half)
                send_alert(s, TLS_CLOSE_NOTIFY);
        stream_over_tcp.close(s, reset);
        tls_drop(own(s));
        s->own = NULL;
}

const struct stream_ops stream_over_kernel = { .read = kernel_read,
                                               .write = kernel_write,
                                               .half_close = kernel_half_close,
                                               .close = kernel_close,
                                               .why = tls_why };

int ktls_begin(struct stream *s)
{
        int rc = begin(s->source.fd, &own(s)->keys);

        if (rc < 0)
                return (int)end_with(s, TLS_CLOSE_NOTIFY,
                                     "the kernel's TLS takes one direction alone");
        if (rc > 0)
                s->ops = &stream_over_kernel;
        return rc;
}

#endif
