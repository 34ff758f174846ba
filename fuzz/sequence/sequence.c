/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence.h"

#include <string.h>

/* --- steps -------------------------------------------------------------------------------------- */

struct seq_step seq_step_of(const struct seq_template *t)
{
        return (struct seq_step) { .kind = SEQ_PDU, .template = t };
}

bool seq_pool(struct sequence *s, const void *p, size_t n, struct seq_bytes *out)
{
        if (n > (size_t)SEQ_POOL - s->pooled)
                return false;
        *out = (struct seq_bytes) { s->pooled, (uint16_t)n };
        if (n > 0)
                memcpy(s->pool + s->pooled, p, n);
        s->pooled = (uint16_t)(s->pooled + n);
        return true;
}

bool seq_insert(struct sequence *s, unsigned at, const struct sequence *from,
                const struct seq_step *step)
{
        struct seq_step copy = *step;

        if (s->steps == SEQ_STEPS || at > s->steps ||
            !seq_pool(s, from->pool + step->bytes.at, step->bytes.len, &copy.bytes) ||
            !seq_pool(s, from->pool + step->poke.at, step->poke.len, &copy.poke))
                return false;
        if (copy.on >= s->queues)
                copy.on = 0;
        memmove(&s->step[at + 1], &s->step[at], (s->steps - at) * sizeof(s->step[0]));
        s->step[at] = copy;
        s->steps++;
        return true;
}

void seq_remove(struct sequence *s, unsigned at)
{
        s->steps--;
        memmove(&s->step[at], &s->step[at + 1], (s->steps - at) * sizeof(s->step[0]));
}

void seq_apply(const struct seq_step *step, void *message)
{
        for (unsigned i = 0; i < step->changes; i++) {
                const struct seq_change *c = &step->change[i];
                uint64_t old = field_get(c->field, message);

                field_put(c->field, message,
                          c->op == SEQ_SET   ? c->value
                          : c->op == SEQ_ADD ? old + c->value
                                             : old ^ c->value);
        }
}

/* --- text out ----------------------------------------------------------------------------------- */

/* Thousands of texts a second: formats would take most of the time. */
static void print_bytes(struct text *t, const char *p, size_t n)
{
        size_t room = t->cap - t->len - 1;

        n = n < room ? n : room;
        memcpy(t->p + t->len, p, n);
        t->len += n;
        t->p[t->len] = '\0';
}

static void print(struct text *t, const char *word)
{
        print_bytes(t, word, strlen(word));
}

static void print_hex(struct text *t, const struct sequence *s, struct seq_bytes b)
{
        static const char digits[] = "0123456789abcdef";

        for (unsigned i = 0; i < b.len; i++) {
                uint8_t v = s->pool[b.at + i];

                print_bytes(t, (const char[]) { digits[v >> 4], digits[v & 15] }, 2);
        }
}

static void print_number(struct text *t, uint64_t v)
{
        static const char digits[] = "0123456789abcdef";
        unsigned base = v < 10000 ? 10 : 16;
        char word[20];
        size_t n = sizeof(word);

        do
                word[--n] = digits[v % base];
        while ((v /= base) > 0);
        if (base == 16)
                print(t, "0x");
        print_bytes(t, word + n, sizeof(word) - n);
}

static void print_named(struct text *t, const char *name, uint64_t v)
{
        print(t, name);
        print_number(t, v);
}

static void print_change(struct text *t, const char *name, enum seq_op op, uint64_t value)
{
        static const char *const signs[] = { "=", "+=", "^=" };

        print(t, " ");
        print(t, name);
        print_named(t, signs[op], value);
}

static void print_data(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        if (step->has_data && step->is_literal) {
                print(t, " data=hex:");
                print_hex(t, s, step->bytes);
        } else if (step->has_data) {
                print_named(t, " data=", step->data_len);
        }
        if (step->poke.len > 0) {
                print_named(t, " poke=", step->poke_at);
                print(t, ":");
                print_hex(t, s, step->poke);
        }
}

static void print_violate(struct text *t, const struct sequence *s, unsigned rule)
{
        if (rule == RULE_NONE)
                return;
        print(t, " violate=");
        print(t, seq_rule_get(s->family, rule)->id);
}

static void print_pdu(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        print(t, step->template->name);
        for (unsigned i = 0; i < step->changes; i++)
                print_change(t, step->change[i].field->name, step->change[i].op,
                             step->change[i].value);
        print_data(t, s, step);
        if (step->keys > 0)
                print_named(t, " keys=", step->keys - 1u);
        if (step->of > 0)
                print_named(t, " of=", step->of);
        print_violate(t, s, step->violates);
        if (step->stale)
                print(t, " stale");
        if (step->hdgst_xor)
                print_change(t, "hdgst", SEQ_FLIP, step->hdgst_xor);
        if (step->ddgst_xor)
                print_change(t, "ddgst", SEQ_FLIP, step->ddgst_xor);
}

static void print_fail(struct text *t, const struct seq_step *step)
{
        char name[SEQ_STATUS_NAME];

        seq_status_name(step->status, name);
        print(t, "fail ");
        print(t, name);
        if (step->of > 0)
                print_named(t, " of=", step->of);
}

static void print_step(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        switch (step->kind) {
        case SEQ_PDU:
                print_pdu(t, s, step);
                break;
        case SEQ_RAW:
                print(t, "raw ");
                print_hex(t, s, step->bytes);
                break;
        case SEQ_DELAY:
                print_named(t, "delay ", step->ms);
                break;
        case SEQ_CLOSE:
                print(t, "close");
                break;
        case SEQ_RESET:
                print(t, "reset");
                break;
        case SEQ_FAIL:
                print_fail(t, step);
                break;
        case SEQ_REMOVE:
                print(t, "remove");
                break;
        case SEQ_RELOAD:
                print_named(t, "reload ", step->of);
                break;
        }
        if (step->on > 0)
                print_named(t, " on=", step->on);
        for (unsigned i = 0; i < step->cuts; i++)
                print_named(t, i == 0 ? " cut=" : ",", step->cut[i]);
        print(t, "\n");
}

size_t seq_print(const struct sequence *s, char *text, size_t cap)
{
        struct text t = text_in(text, cap);

        print(&t, "sequence ");
        if (s->family != fuzz_families[0]) {
                print(&t, s->family->family->rules->name);
                print(&t, " ");
        }
        print(&t, party_name(s->side));
        if (s->transport > 0) {
                print(&t, " ");
                print(&t, s->family->family->transports[s->transport]);
        }
        if (s->config)
                print_change(&t, "config", SEQ_SET, s->config);
        if (s->scarce)
                print_change(&t, "scarce", SEQ_SET, s->scarce);
        if (s->queues > 1)
                print_named(&t, " queues=", s->queues);
        print_violate(&t, s, s->violates);
        print(&t, "\n");
        for (unsigned i = 0; i < s->steps; i++)
                print_step(&t, s, &s->step[i]);
        return t.len;
}
