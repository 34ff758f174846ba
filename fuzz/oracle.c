/* SPDX-License-Identifier: BSD-3-Clause */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "fuzz.h"
#include "host/build.h"

enum { IO_QUEUE_SIZE = 4 };

static bool reads(struct host_ctrl *c, uint32_t nsid, uint8_t page[IDENTIFY_LEN],
                  struct host_error *e)
{
        const struct id_ns *ns = (const void *)page;
        union sqe sqe = build_rw(NVME_READ, nsid, 0, 1, 0);
        uint32_t block;
        uint8_t *data;
        bool ok;

        if (host_ctrl_identify(c, CNS_NS, nsid, page, e) < 0)
                return false;
        block = 1u << (ns->lbaf[ns->flbas & 0xf].lbads & 31);
        if (le64_get(ns->nsze) == 0 || block < 512 || block > host_ctrl_max_transfer(c))
                return true;
        data = malloc(block);
        ok = data && host_ctrl_run(c, &c->io[0], &sqe, data, block, NULL, e) == 0;
        free(data);
        return ok;
}

static bool asks(struct host_ctrl *c, struct host_error *e)
{
        uint8_t page[IDENTIFY_LEN];
        le32_t first;

        if (host_ctrl_identify(c, CNS_NS_LIST, 0, page, e) < 0)
                return false;
        memcpy(&first, page, sizeof(first));
        return le32_get(first) == 0 || reads(c, le32_get(first), page, e);
}

bool oracle_alive(const struct remote_target *target, char why[ORACLE_LINE])
{
        const struct rule_policy tolerant = { .waived =
                                                  *fuzz_all_rules() }; /* it lives, well or not */
        struct host_params p = target->host;
        struct host_ctrl *c = calloc(1, sizeof(*c));
        struct host_error e = { .line = "no memory" };
        bool ok = false;

        p.io_queues = 1;
        p.queue_size = IO_QUEUE_SIZE;
        p.kato = 0;
        p.policy = &tolerant;
        if (c && host_ctrl_connect(c, &p, &e) == 0) {
                /* a status is an answer: blocks may be what sessions have made of them */
                ok = asks(c, &e) || e.kind == HOST_STATUS;
                if (ok && host_ctrl_disconnect(c, &e) < 0)
                        ok = false;
                else if (!ok)
                        host_ctrl_close(c);
        }
        free(c);
        if (!ok)
                snprintf(why, ORACLE_LINE, "%.*s", ORACLE_LINE - 1, e.line);
        return ok;
}

int oracle_command(const char *command, char says[ORACLE_LINE])
{
        FILE *f = popen(command, "re");
        char rest[ORACLE_LINE];
        int status;

        says[0] = '\0';
        if (!f)
                return -1;
        if (fgets(says, ORACLE_LINE, f))
                while (fgets(rest, sizeof(rest), f))
                        ;
        status = pclose(f);
        says[strcspn(says, "\r\n")] = '\0';
        if (status >= 0 && WIFSIGNALED(status))
                return 128 + WTERMSIG(status);
        return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
