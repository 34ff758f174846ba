/* SPDX-License-Identifier: BSD-3-Clause */
/* SRP, as the fuzzer knows it. */
#include "pdu/srp/wire/family.h"

#include "fuzz/sequence/seq_mutate.h"
#include "pdu/core/rng.h"
#include "pdu/srp/machine/spoil.h"
#include "srp_command.h"
#include "srp_templates.h"

/* --- sessions and steps that belong together ----------------------------------------------------- */

static const char *const seeds[] = {
        "sequence srp host\nlogin\nluns\nready\ninquiry\npage\ncapacity16\ncapacity\nmode\nsense\n"
        "opcodes\n",
        "sequence srp host\nlogin\nready\nwrite\nread\nwrite_table\nread_table\nwrite_external\n"
        "read_external\nwrite_immediate\nread16\nwrite16\nsync\n",
        "sequence srp host\nlogin\nready\nwrite_same\ncompare_write\nunmap\nverify\nboth\n"
        "long_cdb\nlogout\n",
        "sequence srp host\nlogin\nready\nwrite\nabort_task\nread\nabort_set\nclear_set\n"
        "reset_lun\nready\nclear_aca\n",
        "sequence srp host queues=3\nlogin\nready\nlogin on=1\nwrite on=1\nlogin on=2\nread on=2\n"
        "reset_lun\nread on=1\nready on=2\nclose on=1\nread\n",
        "sequence srp host queues=2\nlogin\nwrite\nlogin req_flags=0 on=1\nread on=1\n",
        "sequence srp host\nlogin req_flags=0 imm_data_offset=0\nread keys=16\nwrite keys=2\n"
        "write keys=1\nreset\n",
        "sequence srp host\nlogin req_it_iu_len=64 req_buf_fmt=2\nread\ncred_rsp\n",
        "sequence srp host\nlogin reads_in=0\nread\nwrite\ndelay 1\naer_rsp\n",
        NULL,
};

static const char *const groups[] = {
        "write\nabort_task\n",
        "write_external\nabort_task\nread\n",
        "read\nread\nread\nabort_set\n",
        "write attr=2\nread attr=2\nread attr=1\n",
        "write\nreset_lun\nready\n",
        "write_immediate\nread_external\n",
        "write keys=16\nread keys=16\n",
        "ready sol_not=6\nread sol_not=6\n",
        "logout\nread\n",
        NULL,
};

static void start_sequence(struct sequence *s, uint64_t *seed)
{
        static const char *const words[] = { "login", "ready",           "read",
                                             "write", "write_immediate", "read_table" };

        (void)seed;
        for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                struct seq_step step =
                    seq_step_of(seq_template(s->family, s->transport, s->side, words[i]));

                seq_insert(s, i, s, &step);
        }
}

/* --- mutants ------------------------------------------------------------------------------------ */

static struct seq_step *any_of(struct sequence *s, uint64_t *seed, uint8_t type)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        return step && step->template->type == type ? step : NULL;
}

/* Blocks, and the memory for them, at the end of what some limit says or at the start; one of them may be a little off. */
static void change_blocks(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_of(s, seed, SRP_CMD);
        uint64_t blocks = 1 + seq_boundary(seed, 6), off = fuzz_any(seed, 6),
                 end = seq_boundary(seed, 16);

        if (!step)
                return;
        seq_set(s, step, "blocks", blocks + (off == 0));
        seq_set(s, step, "lba", fuzz_any(seed, 2) && end >= blocks ? end - blocks + (off == 1) : 0);
        if (blocks * 512 > SEQ_DATA_MAX)
                return;
        step->has_data = true;
        step->is_literal = false;
        step->data_len = (uint16_t)(blocks * 512 - (off == 2 ? 4 : 0));
}

/* A table and what it is said to be: lengths, counts and places that do not fit together. */
static void change_table(struct sequence *s, uint64_t *seed)
{
        static const char *const names[] = { "bytes", "total",   "out_count", "in_count",
                                             "len",   "buf_fmt", "addr",      "add_cdb_len" };
        struct seq_step *step = any_of(s, seed, SRP_CMD);

        if (!step)
                return;
        step->keys = (uint8_t)(1 + fuzz_any(seed, SRP_KEYS_MAX + 1));
        if (fuzz_any(seed, 3) > 0)
                seq_set(s, step, names[fuzz_any(seed, 8)], seq_boundary(seed, 32));
}

/* One that names a task which is there. */
static void insert_management(struct sequence *s, uint64_t *seed)
{
        static const char *const names[] = { "abort_task", "abort_task", "abort_set", "clear_set",
                                             "reset_lun" };
        struct seq_step step = seq_step_of(
            seq_template(s->family, s->transport, PARTY_HOST, names[fuzz_any(seed, 5)]));
        unsigned at = fuzz_any(seed, s->steps + 1);

        step.of = (uint8_t)fuzz_any(seed, 4);
        step.on = at > 0 && !seq_is_for_all(&s->step[at - 1]) ? s->step[at - 1].on : 0;
        seq_insert(s, at, s, &step);
}

static void change_login(struct sequence *s, uint64_t *seed)
{
        for (unsigned i = 0; i < s->steps; i++)
                if (s->step[i].kind == SEQ_PDU && s->step[i].template->type == SRP_LOGIN_REQ &&
                    fuzz_any(seed, 2)) {
                        seq_change(s, &s->step[i], seed);
                        return;
                }
}

static fuzz_mutator *const mutators[] = { change_blocks,     change_table, change_table,
                                          insert_management, change_login, NULL };

static bool can_violate(unsigned transport, unsigned rule)
{
        (void)transport;
        return srp_spoil_kinds((enum srp_rule)rule) != 0;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static const struct fuzz_transport transports[] = {
        { .keys = SRP_KEYS_MAX,
          .opening = { "login" },
          .groups = groups,
          .seeds = seeds,
          .remote = &srp_remote },
};

const struct fuzz_family srp_fuzz = {
        .family = &srp_family,
        .transports = transports,
        .template = srp_template_at,
        .fields = srp_template_fields,
        .can_violate = can_violate,
        .mutators = mutators,
        .begin = start_sequence,
        .tame = srp_tame,
        .alive = srp_alive,
        .limits = srp_limits,
        .command = &srp_fuzz_command,
};
