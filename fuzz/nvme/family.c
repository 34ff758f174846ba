/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe over Fabrics, as the fuzzer knows it. */
#include "pdu/nvme/wire/family.h"

#include <string.h>

#include "fuzz/inproc/inproc_target.h"
#include "fuzz/inproc/session.h"
#include "fuzz/sequence/seq_mutate.h"
#include "nvme_command.h"
#include "pdu/core/rng.h"
#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/fabrics.h"
#include "peer.h"
#include "seq_capture.h"
#include "templates.h"

/* --- sessions and steps that belong together ----------------------------------------------------- */

static const char *const tcp_seeds[] = {
        "sequence host\nicreq\nconnect\nproperty_get ofst=8\nenable\nproperty_get ofst=28\n"
        "identify\nget_features\naer\n",
        "sequence host\nicreq dgst=3\nconnect\nenable\nidentify_list\nset_features\n"
        "get_smart\nkeep_alive\nabort\n",
        "sequence host\nicreq hpda=3 maxr2t=3\nconnect_r2t\nh2c\nproperty_get\nset_hostid\n"
        "disconnect\n",
        "sequence host queues=2\nicreq\nconnect\nenable\nicreq on=1\nconnect on=1\n"
        "read on=1\nwrite on=1\nh2c on=1\nwrite_icd on=1\nflush on=1\n",
        "sequence host queues=2\nicreq\nconnect\nenable\nicreq dgst=3 maxr2t=3 on=1\n"
        "connect on=1\nwrite data=8192 cdw12=15 on=1\nwrite cdw12=31 data=16384 on=1\n"
        "h2c of=1 on=1\nh2c on=1\nread cdw12=31 data=16384 on=1\ncompare_r2t on=1\n"
        "h2c on=1\ncompare on=1\n",
        "sequence host queues=2\nicreq dgst=2\nconnect\nauth_send\nauth_receive\nauth_send\n"
        "auth_receive\nauth_send\nenable\nicreq on=1\nconnect on=1\nidentify_ns\n",
        "sequence host\nicreq\ndelay 1\nconnect "
        "cattr=4\nenable\nget_log\ndisable\nh2cterm\n",
        "sequence host queues=3\nicreq\nconnect\nenable\nicreq on=1\nconnect on=1\n"
        "icreq on=2\nconnect on=2\nread on=2\nread on=1\nwrite on=2\nclose\nh2c on=2\n",
        "sequence host\nicreq\nconnect\nenable\naer\nset_kato cdw11=500\nidentify\n"
        "delay 3000\nkeep_alive\n",
        "sequence host\nicreq\nconnect\nauth_send\nauth_receive\nauth_send\nauth_receive\n"
        "enable\nreload 1\ndelay 3000\nidentify\n",
        NULL,
};
static const char *const rdma_seeds[] = {
        "sequence host rdma\nrequest\nconnect\nproperty_get "
        "ofst=8\nenable\nidentify\naer\n",
        "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
        "on=1\n"
        "read on=1\nwrite on=1\nwrite_icd on=1\nflush on=1\n",
        "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
        "on=1\n"
        "write data=4096 keys=3 on=1\nread sgl.id=0x4f on=1\ncompare_r2t on=1\n",
        "sequence host rdma\nrequest\nconnect\nenable\nidentify_list\nset_features\n"
        "get_smart\nkeep_alive\nset_hostid\ndisconnect\n",
        NULL,
};

static const char *const tcp_groups[] = {
        "compare sqe.flags=0x41\nwrite_icd sqe.flags=0x42\n",
        "compare_r2t sqe.flags=0x41\nwrite sqe.flags=0x42\nh2c\nh2c\n",
        "write\nh2c data=2048\nh2c\n",
        "write\nabort\nh2c\n",
        "connect_r2t\nh2c\n",
        "aer\nabort\n",
        "auth_send\nauth_receive\nauth_send\nauth_receive\nauth_send\n",
        "disable\nenable\n",
        "set_kato cdw11=1000\ndelay 3000\n",
        "property_set cdw11=20 cdw12=0x468001\ndelay 3000\nproperty_get cdw11=28\n",
        "aer\nset_kato cdw11=500\ndelay 3000\nidentify\n",
        "auth_send\ndelay 3000\nkeep_alive\n",
        "reload 1\ndelay 3000\nkeep_alive\n",
        NULL,
};
static const char *const rdma_groups[] = {
        "compare sqe.flags=0x41\nwrite_icd sqe.flags=0x42\n",
        "compare_r2t sqe.flags=0x41\nwrite sqe.flags=0x42\n",
        "write keys=3\nread keys=3\n",
        "write\nabort\n",
        "aer\nabort\n",
        "auth_send\nauth_receive\nauth_send\nauth_receive\nauth_send\n",
        "disable\nenable\n",
        "set_kato cdw11=1000\ndelay 3000\n",
        "property_set cdw11=20 cdw12=0x468001\ndelay 3000\nproperty_get cdw11=28\n",
        "aer\nset_kato cdw11=500\ndelay 3000\nidentify\n",
        "auth_send\ndelay 3000\nkeep_alive\n",
        "reload 1\ndelay 3000\nkeep_alive\n",
        "write\nflush\n",
        NULL,
};

static void start_sequence(struct sequence *s, uint64_t *seed)
{
        static const char *const words[2][2][6] = {
                { { "icreq", "connect", "read", "write", "h2c", "write_icd" },
                  { "icresp", "resp", "c2h", "resp", "r2t", "resp" } },
                { { "request", "connect", "read", "write", "flush", "write_icd" },
                  { "accept", "resp", "write", "resp", "read", "resp" } },
        };

        s->config = fuzz_any(seed, 2) ? 0 : fuzz_random(seed) & 0x3ffff & ~0x80u;
        for (unsigned i = 0; i < 6; i++) {
                struct seq_step step = seq_step_of(
                    nvme_template_by_name(s->transport, s->side, words[s->transport][s->side][i]));
                const struct field *qid = seq_field(&nvme_fuzz, s->transport, step.template, "qid");

                if (qid && (step.template->type == SEQ_REQUEST || i == 1) && fuzz_any(seed, 2)) {
                        step.change[0] = (struct seq_change) { qid, SEQ_SET, 1 };
                        step.changes = 1;
                }
                seq_insert(s, i, s, &step);
        }
}

/* --- mutants ------------------------------------------------------------------------------------ */

/* Whether each command has a use of its own for the dword. */
static bool is_of_command(const struct field *f)
{
        bool capsule = field_named(sqe_fields(), f->name) == f;
        const struct field *all = capsule ? sqe_fields() : pdu_fields(PDU_CAPSULE_CMD);

        return f->offset >= field_named(all, "sqe.cdw10")->offset;
}

/* Other commands give the same bytes other names. */
static bool is_field_of(const struct seq_template *t, const struct field *f, bool own)
{
        if (t->type != PDU_CAPSULE_CMD || !is_of_command(f))
                return !own;
        return (nvme_template(t)->opc == NVME_FABRICS) != (strncmp(f->name, "sqe.cdw", 7) == 0);
}

static bool can_violate(unsigned transport, unsigned rule)
{
        return transport == SEQ_RDMA ? spoil_can_rdma(rule) : spoil_can(rule);
}

static bool has_blocks(const struct nvme_template *t)
{
        return t->base.type == PDU_CAPSULE_CMD &&
               (t->opc == NVME_READ || t->opc == NVME_WRITE || t->opc == NVME_COMPARE ||
                t->opc == NVME_WRITE_ZEROES);
}

/* So many blocks and the data for them, at the end of what some limit says or at the start; one of
 * the three may be a little off. */
static void change_blocks(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);
        uint64_t blocks = 1 + seq_boundary(seed, 8), off = fuzz_any(seed, 6),
                 end = seq_boundary(seed, 16);

        if (!step || !has_blocks(nvme_template(step->template)))
                return;
        seq_set(s, step, "cdw12", blocks - 1 + (off == 0));
        seq_set(s, step, "cdw10",
                fuzz_any(seed, 2) && end >= blocks ? end - blocks + (off == 1) : 0);
        if (nvme_template(step->template)->sgl == SGL_TRANSPORT) {
                seq_set(s, step, "sgl.len", blocks * 512 + (off == 2 ? 4 : 0));
        } else if (blocks * 512 <= SEQ_DATA_MAX) {
                step->has_data = true;
                step->is_literal = false;
                step->data_len = (uint16_t)(blocks * 512 - (off == 2 ? 4 : 0));
        }
}

/* A number that the command says by itself becomes one next to it, nothing, or all there is: what a command is
 * about is changed more often than what it leaves at 0. */
static void change_parameter_of(struct sequence *s, struct seq_step *step, uint64_t *seed)
{
        static const char *const names[] = { "cdw10", "cdw11", "cdw12" };
        const struct nvme_template *t = nvme_template(step->template);
        const uint32_t said[] = { t->cdw10, t->cdw11, t->cdw12 };
        unsigned n = fuzz_any(seed, 3);
        uint32_t value;

        for (unsigned i = 0; i < 8 && said[n] == 0; i++)
                n = fuzz_any(seed, 3);
        switch (fuzz_any(seed, 4)) {
        case 0:
                value = 0;
                break;
        case 1:
                value = said[n] ^ UINT32_C(1) << fuzz_any(seed, 32);
                break;
        case 2:
                value = said[n] + fuzz_any(seed, 9) - 4;
                break;
        default:
                value = (uint32_t)seq_boundary(seed, 32);
        }
        seq_set(s, step, names[n], value);
}

static void change_parameter(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        if (step && step->template->type == PDU_CAPSULE_CMD)
                change_parameter_of(s, step, seed);
}

/* The step that makes a queue one which executes such commands, from 1 on; 0: there is none. */
static unsigned opened(const struct sequence *s, bool io, uint64_t *seed)
{
        const char *name = io ? "connect" : "enable";
        unsigned from = fuzz_any(seed, s->steps);

        for (unsigned i = 0; i < s->steps; i++) {
                unsigned at = (from + i) % s->steps;
                const struct seq_step *step = &s->step[at];

                if (step->kind == SEQ_PDU && step->changes == 0 && (step->on > 0) == io &&
                    strcmp(step->template->name, name) == 0)
                        return at + 1;
        }
        return 0;
}

/* A command where it is executed, not refused for its queue or state: as it is, or a little off. */
static void insert_command(struct sequence *s, uint64_t *seed)
{
        size_t n;
        const struct seq_template *const *all = seq_templates(s->family, s->transport, s->side, &n);
        const struct seq_template *t = all[fuzz_any(seed, (unsigned)n)];
        struct seq_step step = seq_step_of(t);
        unsigned from, at;

        if (t->type != PDU_CAPSULE_CMD)
                return;
        from = opened(s, nvme_template(t)->io, seed);
        if (from == 0)
                return;
        at = from + (fuzz_any(seed, 2) ? fuzz_any(seed, s->steps - from + 1) : 0);
        step.on = s->step[from - 1].on;
        if (!seq_insert(s, at, s, &step))
                return;
        if (fuzz_any(seed, 3) == 0)
                change_parameter_of(s, &s->step[at], seed);
        else if (fuzz_any(seed, 4) > 0)
                seq_change(s, &s->step[at], seed);
}

static bool is_auth(const struct seq_step *step)
{
        return step->kind == SEQ_PDU && nvme_template(step->template)->data == SEQ_AUTH;
}

/* A length, a count or an identifier at the beginning of an authentication message. Sessions that have none get another
 * command: those that have one are about it, and few. */
static void change_auth(struct sequence *s, uint64_t *seed)
{
        static const uint8_t values[] = { 1, 31, 64, 128, 255 }, places[] = { 6, 8, 10, 12, 16 };
        unsigned i = fuzz_any(seed, s->steps), n = 0;
        struct seq_step *step;
        uint8_t bytes[8];

        while (n < s->steps && !is_auth(&s->step[(i + n) % s->steps]))
                n++;
        if (n == s->steps) {
                insert_command(s, seed);
                return;
        }
        step = &s->step[(i + n) % s->steps];
        for (size_t k = 0; k < sizeof(bytes); k++)
                bytes[k] = fuzz_any(seed, 2) ? 0 : values[fuzz_any(seed, sizeof(values))];
        if (fuzz_any(seed, 4) == 0) /* in process: who does not know the key */
                s->config = (s->config | INPROC_SECRET) ^ INPROC_STRANGER;
        step->has_data = false;
        step->poke_at = places[fuzz_any(seed, sizeof(places))];
        step->poke = (struct seq_bytes) { 0 };
        (void)seq_pool(s, bytes, fuzz_any(seed, 4) ? 1 : sizeof(bytes), &step->poke);
}

static fuzz_mutator *const mutators[] = {
        change_blocks,  change_parameter, change_auth,    change_auth, change_auth,
        insert_command, insert_command,   insert_command, NULL,
};

/* --- what our own machines make of it ------------------------------------------------------------ */

struct playing {
        struct remote_answer *answer;
        void (*message)(void *user, unsigned on, enum party sender, const void *message);
        void *user;
        unsigned on;
};

static uint64_t digest_of(const struct message *m)
{
        const union sqe *sqe = message_sqe(m);
        const struct cqe *cqe = message_cqe(m);
        uint64_t what = (uint64_t)m->kind << 32;

        if (m->kind == MESSAGE_PDU)
                what |= (uint64_t)m->pdu.ch.type << 8 | m->pdu.ch.flags;
        if (message_is(m, PDU_C2H_TERM) || message_is(m, PDU_H2C_TERM))
                what |= (uint64_t)le16_get(m->pdu.term.fes) << 16;
        return what | (uint64_t)(cqe ? cqe_status(cqe) : sqe ? sqe->opc : 0) << 16;
}

static void on_message(void *user, enum party sender, const struct message *m)
{
        const struct playing *p = user;

        remote_answer_add(p->answer, digest_of(m) | (uint64_t)sender << 48);
        if (p->message)
                p->message(p->user, p->on, sender, m);
}

static void play(const struct sequence *s, struct remote_answer *a,
                 void (*message)(void *user, unsigned on, enum party sender, const void *message),
                 void *user)
{
        struct playing p = { a, message, user, s->config & SESSION_IO ? 1 : 0 };
        struct session_report r = { .message = on_message, .user = &p };

        session_play(s, SESSION_DECLARED, &r);
        remote_answer_add(a, (uint64_t)r.fault.rule << 32 | (uint64_t)r.end[0] << 16 |
                                 (uint64_t)r.end[1]);
        a->steps = r.steps;
        a->pdus = r.pdus;
        if (is_fault(r.fault))
                rule_add(&a->broken, r.fault.rule);
        snprintf(a->why, sizeof(a->why), "%s", r.end);
}

/* --- all of it ---------------------------------------------------------------------------------- */

static const struct fuzz_transport transports[] = {
        [SEQ_TCP] = { .stream = true,
                      .opening = { "icreq", "connect" },
                      .groups = tcp_groups,
                      .seeds = tcp_seeds,
                      .remote = &remote_tcp },
        [SEQ_RDMA] = { .device = true,
                       .keys = SEQ_KEYS,
                       .opening = { "request", "connect" },
                       .groups = rdma_groups,
                       .seeds = rdma_seeds,
                       .remote = &remote_rdma },
};

const struct fuzz_family nvme_fuzz = {
        .family = &nvme_family,
        .transports = transports,
        .template = nvme_template_at,
        .fields = nvme_template_fields,
        .is_field_of = is_field_of,
        .can_violate = can_violate,
        .mutators = mutators,
        .begin = start_sequence,
        .tame = nvme_tame,
        .read_capture = seq_capture,
        .play = play,
        .alive = nvme_alive,
        .limits = nvme_limits,
        .command = &nvme_fuzz_command,
};
