/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "campaign.h"

enum { NAP_US = 50000 }; /* between two questions to an oracle that may be late */

const char *trouble_name(enum trouble_kind k)
{
        static const char *const names[] = {
                [TROUBLE_NONE] = "none", [TROUBLE_LOST] = "lost",     [TROUBLE_HANG] = "hang",
                [TROUBLE_RULE] = "rule", [TROUBLE_ORACLE] = "oracle",
        };

        return names[k];
}

static void over(struct remote_session *s)
{
        ((struct player *)s->user)->over = true;
}

int player_init(struct player *p, const struct campaign_config *config, struct loop *loop)
{
        *p = (struct player) { .config = config, .loop = loop, .over = true };
        p->session = remote_open(loop, &config->target);
        if (!p->session)
                return -1;
        p->session->over = over;
        p->session->user = p;
        return 0;
}

void player_fini(struct player *p)
{
        if (p->session)
                remote_close(p->session);
}

void player_start(struct player *p, const struct sequence *s)
{
        p->over = false;
        remote_play(p->session, s);
}

static struct trouble broken(const struct player *p, unsigned rule)
{
        struct trouble t = { .kind = TROUBLE_RULE, .rule = rule };

        snprintf(t.says, sizeof(t.says), "%s", seq_rule_get(p->config->target.family, rule)->says);
        return t;
}

struct trouble player_judge(const struct player *p, const struct remote_answer *a)
{
        if (a->end == REMOTE_HANG)
                return (struct trouble) { .kind = TROUBLE_HANG };
        if (!rule_set_empty(&a->broken))
                return broken(p, rule_next(&a->broken, RULE_NONE));
        return (struct trouble) { .kind = TROUBLE_NONE };
}

static void finish(struct player *p)
{
        while (!p->over) {
                uint64_t now = loop_now_ms();

                loop_turn(p->loop,
                          p->session->deadline > now ? (int)(p->session->deadline - now) : 0);
                remote_late(p->session, loop_now_ms());
        }
}

void player_play(struct player *p, const struct sequence *s)
{
        player_start(p, s);
        finish(p);
}

bool oracle_complains(const struct campaign_config *config, uint64_t late, char says[ORACLE_LINE])
{
        const uint64_t until = loop_now_ms() + late;

        while (config->oracle) {
                if (shell_run(config->oracle, says, SHELL_MS) != 0)
                        return true;
                if (loop_now_ms() >= until)
                        break;
                loop_sleep_us(NAP_US);
        }
        return false;
}

struct trouble player_ask(struct player *p, bool probe, uint64_t late)
{
        struct trouble t = { 0 };

        if (probe && !oracle_alive(&p->config->target, t.says))
                t.kind = TROUBLE_LOST;
        else if (oracle_complains(p->config, late, t.says))
                t.kind = TROUBLE_ORACLE;
        else
                t = player_judge(p, &p->session->answer);
        return t;
}

struct trouble player_try(struct player *p, const struct sequence *s, bool probe)
{
        player_play(p, s);
        return player_ask(p, probe, 0);
}
