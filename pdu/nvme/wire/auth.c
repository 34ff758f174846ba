/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth.h"

#include <string.h>

#include "pdu/core/wipe.h"

/* --- names: figures 737, 741, 742 ------------------------------------------------------------- */

static const struct word messages[] = {
        { AUTH_NEGOTIATE, "AUTH_Negotiate" },       { AUTH_FAILURE2, "AUTH_Failure2" },
        { AUTH_FAILURE1, "AUTH_Failure1" },         { AUTH_CHALLENGE, "DH-HMAC-CHAP_Challenge" },
        { AUTH_REPLY, "DH-HMAC-CHAP_Reply" },       { AUTH_SUCCESS1, "DH-HMAC-CHAP_Success1" },
        { AUTH_SUCCESS2, "DH-HMAC-CHAP_Success2" }, { 0, NULL },
};
static const struct word hashes[] = {
        { AUTH_SHA256, "SHA-256" },
        { AUTH_SHA384, "SHA-384" },
        { AUTH_SHA512, "SHA-512" },
        { 0, NULL },
};
static const struct word groups[] = {
        { AUTH_NO_DH, "NULL" },
        { AUTH_FFDHE2048, "ffdhe2048" },
        { AUTH_FFDHE3072, "ffdhe3072" },
        { AUTH_FFDHE4096, "ffdhe4096" },
        { AUTH_FFDHE6144, "ffdhe6144" },
        { AUTH_FFDHE8192, "ffdhe8192" },
        { 0, NULL },
};
static const struct word failures[] = {
        { AUTH_FAILED, "authentication failed" },
        { AUTH_PROTOCOL_UNUSABLE, "authentication protocol not usable" },
        { AUTH_SC_C_MISMATCH, "secure channel concatenation mismatch" },
        { AUTH_HASH_UNUSABLE, "hash function not usable" },
        { AUTH_GROUP_UNUSABLE, "DH group not usable" },
        { AUTH_BAD_PAYLOAD, "incorrect payload" },
        { AUTH_BAD_MESSAGE, "incorrect protocol message" },
        { 0, NULL },
};

const char *auth_message_name(enum auth_message m)
{
        return word_for(messages, m);
}

const char *auth_group_name(uint8_t group)
{
        return word_for(groups, group);
}

const char *auth_failure_name(uint8_t rcodeex)
{
        return word_for(failures, rcodeex);
}

unsigned auth_hash_len(uint8_t hash)
{
        static const uint8_t lens[AUTH_HASHES] = { 0, 32, 48, 64 };

        return hash < AUTH_HASHES ? lens[hash] : 0;
}

unsigned auth_group_len(uint8_t group)
{
        static const uint16_t bits[AUTH_GROUPS] = { 0, 2048, 3072, 4096, 6144, 8192 };

        return group < AUTH_GROUPS ? bits[group] / 8 : 0;
}

/* --- where the parts are ---------------------------------------------------------------------- */

static size_t fixed_len(enum auth_message m)
{
        switch (m) {
        case AUTH_NEGOTIATE:
                return sizeof(struct auth_negotiate);
        case AUTH_FAILURE1:
        case AUTH_FAILURE2:
                return sizeof(struct auth_failure);
        case AUTH_CHALLENGE:
        case AUTH_REPLY:
        case AUTH_SUCCESS1:
        case AUTH_SUCCESS2:
                return sizeof(struct auth_success2);
        }
        return 0;
}

static const uint8_t *next_part(struct auth_view *v, unsigned n)
{
        v->len += n;
        return (const uint8_t *)v->header + v->len - n;
}

/* Lengths of what follows the fixed part; v->len may then be more than there is. */
static void find_parts(struct auth_view *v)
{
        switch (v->message) {
        case AUTH_NEGOTIATE:
                v->len += v->negotiate->napd * sizeof(struct auth_protocol);
                break;
        case AUTH_CHALLENGE:
                v->hl = v->challenge->hl;
                v->dhvlen = le16_get(v->challenge->dhvlen);
                v->cval = next_part(v, v->hl);
                v->dhv = next_part(v, v->dhvlen);
                break;
        case AUTH_REPLY:
                v->hl = v->reply->hl;
                v->dhvlen = le16_get(v->reply->dhvlen);
                v->rval = next_part(v, v->hl);
                v->cval = next_part(v, v->hl);
                v->dhv = next_part(v, v->dhvlen);
                break;
        case AUTH_SUCCESS1:
                v->hl = v->success1->hl;
                v->rval = next_part(v, v->hl);
                break;
        case AUTH_SUCCESS2:
        case AUTH_FAILURE1:
        case AUTH_FAILURE2:
                break;
        }
}

int auth_view(struct auth_view *v, const void *data, size_t len)
{
        const struct auth_header *h = data;

        *v = (struct auth_view) { .header = h };
        if (len < sizeof(*h))
                return AUTH_BAD_PAYLOAD;
        v->message = (enum auth_message)(h->type << 8 | h->id);
        v->t_id = le16_get(h->t_id);
        v->len = fixed_len(v->message);
        if (v->len == 0)
                return AUTH_BAD_MESSAGE;
        if (v->len > len)
                return AUTH_BAD_PAYLOAD;
        find_parts(v);
        return v->len > len ? AUTH_BAD_PAYLOAD : 0;
}

/* --- description ------------------------------------------------------------------------------ */

static const struct word sc_cs[] = {
        { 0, "no secure channel" },
        { 2, "new TLS PSK" },
        { 3, "replace the TLS PSK" },
        { 0, NULL },
};
static const struct word valid[] = { { 0, "not valid" }, { 1, "valid" }, { 0, NULL } };
static const struct word protocols[] = { { AUTH_CHAP, "DH-HMAC-CHAP" }, { 0, NULL } };
static const struct word reasons[] = { { AUTH_RCODE, "authentication failure" }, { 0, NULL } };

static const struct field header_fields[] = {
        FIELD_AT("auth_type", 0, 1, .words = WORDS({ 0, "common" }, { 1, "DH-HMAC-CHAP" })),
        FIELD_AT("auth_id", 1, 1),
        FIELD(struct auth_header, t_id),
        { 0 },
};
static const struct field negotiate_fields[] = {
        FIELD(struct auth_negotiate, sc_c, .words = sc_cs),
        FIELD(struct auth_negotiate, napd),
        { 0 },
};
static const struct field protocol_fields[] = {
        FIELD(struct auth_protocol, authid, .words = protocols),
        FIELD(struct auth_protocol, halen),
        FIELD(struct auth_protocol, dhlen),
        { 0 },
};
static const struct field challenge_fields[] = {
        FIELD(struct auth_challenge, hl),
        FIELD(struct auth_challenge, hashid, .words = hashes),
        FIELD(struct auth_challenge, dhgid, .words = groups),
        FIELD(struct auth_challenge, dhvlen),
        FIELD(struct auth_challenge, seqnum),
        { 0 },
};
static const struct field reply_fields[] = {
        FIELD(struct auth_reply, hl),
        FIELD(struct auth_reply, cvalid, .words = valid),
        FIELD(struct auth_reply, dhvlen),
        FIELD(struct auth_reply, seqnum),
        { 0 },
};
static const struct field success1_fields[] = {
        FIELD(struct auth_success1, hl),
        FIELD(struct auth_success1, rvalid, .words = valid),
        { 0 },
};
static const struct field failure_fields[] = {
        FIELD(struct auth_failure, rcode, .words = reasons),
        FIELD(struct auth_failure, rcodeex, .words = failures),
        { 0 },
};
static const struct field no_fields[] = { { 0 } };

static const struct field *fields_of(enum auth_message m)
{
        switch (m) {
        case AUTH_NEGOTIATE:
                return negotiate_fields;
        case AUTH_CHALLENGE:
                return challenge_fields;
        case AUTH_REPLY:
                return reply_fields;
        case AUTH_SUCCESS1:
                return success1_fields;
        case AUTH_FAILURE1:
        case AUTH_FAILURE2:
                return failure_fields;
        case AUTH_SUCCESS2:
                break;
        }
        return no_fields;
}

static void describe_bytes(const struct describe *d, const char *name, const uint8_t *p, unsigned n)
{
        char buf[2 * AUTH_GROUP_MAX + 1];
        struct text t = text_in(buf, sizeof(buf));

        for (unsigned i = 0; i < n && p; i++)
                text_add(&t, "%02x", p[i]);
        if (p && n > 0)
                d->string(d->arg, name, buf, t.len);
}

/* Identifiers in words, as far as they have any. */
static void describe_list(const struct describe *d, const char *name, const struct word *words,
                          const uint8_t *ids, unsigned n)
{
        char buf[AUTH_LIST_MAX * 12];
        struct text t = text_in(buf, sizeof(buf));

        for (unsigned i = 0; i < n && i < AUTH_LIST_MAX; i++) {
                const char *word = word_for(words, ids[i]);

                text_add(&t, "%s", i ? ", " : "");
                if (word)
                        text_add(&t, "%s", word);
                else
                        text_add(&t, "%02xh", ids[i]);
        }
        d->string(d->arg, name, buf, t.len);
}

static void describe_protocols(const struct describe *d, const struct auth_negotiate *n)
{
        for (unsigned i = 0; i < n->napd; i++) {
                const struct auth_protocol *p = &n->protocol[i];

                d->group(d->arg, "protocol[]");
                describe_fields(d, protocol_fields, p);
                if (p->authid == AUTH_CHAP) {
                        describe_list(d, "hashidlist", hashes, p->hashes, p->halen);
                        describe_list(d, "dhgidlist", groups, p->groups, p->dhlen);
                }
                d->group(d->arg, NULL);
        }
}

void describe_auth(const struct describe *d, const void *data, size_t len)
{
        struct auth_view v;
        int wrong = auth_view(&v, data, len);
        const char *name = len < sizeof(*v.header) ? NULL : auth_message_name(v.message);

        if (name)
                d->string(d->arg, "message", name, strlen(name));
        if (len >= sizeof(*v.header))
                describe_fields(d, header_fields, data);
        if (wrong)
                return;
        describe_fields(d, fields_of(v.message), data);
        if (v.message == AUTH_NEGOTIATE)
                describe_protocols(d, v.negotiate);
        describe_bytes(d, "rval", v.rval, v.hl);
        describe_bytes(d, "cval", v.cval, v.hl);
        describe_bytes(d, "dhv", v.dhv, v.dhvlen);
}

/* --- keys: 8.3.4.5.8 -------------------------------------------------------------------------- */

/* CRC-32 of ISO 3309, as 8.3.4.5.8 wants it; keys are short. */
static uint32_t crc32(const uint8_t *p, size_t n)
{
        uint32_t crc = UINT32_MAX;

        while (n-- > 0) {
                crc ^= *p++;
                for (int bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        return ~crc;
}

static int digit(char c)
{
        static const char digits[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = strchr(digits, c);

        return c == '=' ? 0 : at ? (int)(at - digits) : -1;
}

/* RFC 4648 4, with its padding; bytes, or -1: it is not that, or does not fit. */
static int base64(uint8_t *out, size_t cap, const char *s, size_t len)
{
        size_t n = 0, pad = 0;
        uint32_t bits = 0;

        for (size_t i = 0; i < len; i++) {
                if (digit(s[i]) < 0 || (pad > 0 && s[i] != '=') || n + 3 > cap)
                        return -1;
                pad += s[i] == '=';
                bits = bits << 6 | (uint32_t)digit(s[i]);
                for (int shift = 16; i % 4 == 3 && shift >= 0; shift -= 8)
                        out[n++] = (uint8_t)(bits >> shift);
        }
        return len % 4 || pad > 2 ? -1 : (int)(n - pad);
}

/* Both kinds of keys are text of one form: NAME-1:HH:BASE64: (8.3.4.5.8; T1.0 3.6.1.5). */
static const struct key_form {
        const char *name, *form, *hash, *base64, *len;
        uint8_t hashes, longest; /* HH below this; bytes */
} dhchap_form = {
        .name = "DHHC-1:",
        .form = "a key has the form DHHC-1:HH:BASE64:",
        .hash = "the hash of a key is not 00, 01, 02 or 03",
        .base64 = "the third part of a key is not base64 of 36, 52 or 68 bytes",
        .len = "the key is not 32, 48 or 64 bytes long",
        .hashes = AUTH_HASHES,
        .longest = 64,
}, tls_form = {
        .name = "NVMeTLSkey-1:",
        .form = "a PSK has the form NVMeTLSkey-1:HH:BASE64:",
        .hash = "the hash of a PSK is not 00, 01 or 02",
        .base64 = "the third part of a PSK is not base64 of 36 or 52 bytes",
        .len = "the PSK is not 32 or 48 bytes long",
        .hashes = AUTH_SHA384 + 1,
        .longest = 48,
};

/* `spoilt`: the checksum has to be wrong. */
static const char *parse_key(struct auth_key *key, const struct key_form *f, const char *text,
                             bool spoilt)
{
        uint8_t raw[AUTH_KEY_MAX + 8]; /* whole groups of three */
        size_t name = strlen(f->name);
        const char *b64 = text + name + 3, *end;
        int n;

        if (strncmp(text, f->name, name) != 0 || strlen(text) < name + 3 || b64[-1] != ':' ||
            !(end = strchr(b64, ':')) || end[1])
                return f->form;
        if (b64[-3] != '0' || b64[-2] < '0' || b64[-2] >= '0' + f->hashes)
                return f->hash;
        n = base64(raw, sizeof(raw), b64, (size_t)(end - b64));
        if (n < 0)
                return f->base64;
        if ((n != 32 + 4 && n != 48 + 4 && n != 64 + 4) || n > f->longest + 4)
                return f->len;
        n -= 4;
        if ((le_get(raw + n, 4) != crc32(raw, (size_t)n)) != spoilt)
                return spoilt ? "the checksum of a key is right" : "the checksum of a key is wrong";
        *key = (struct auth_key) { .hash = (uint8_t)(b64[-2] - '0'),
                                   .len = (uint8_t)n,
                                   .spoilt = spoilt };
        memcpy(key->bytes, raw, (size_t)n);
        wipe(raw, sizeof(raw));
        return NULL;
}

const char *auth_key_parse(struct auth_key *key, const char *text)
{
        return parse_key(key, &dhchap_form, text, false);
}

const char *tls_key_parse(struct auth_key *key, const char *text)
{
        return parse_key(key, &tls_form, text, false);
}

const char *tls_key_parse_spoilt(struct auth_key *key, const char *text)
{
        return parse_key(key, &tls_form, text, true);
}

static bool is_same_key(const struct auth_key *a, const struct auth_key *b)
{
        return a->hash == b->hash && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool auth_keys_equal(const struct auth_keys *a, const struct auth_keys *b)
{
        return is_same_key(&a->host, &b->host) && is_same_key(&a->ctrl, &b->ctrl) &&
               is_same_key(&a->psk, &b->psk) && a->hashes == b->hashes && a->groups == b->groups;
}
