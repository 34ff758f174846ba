/* SPDX-License-Identifier: BSD-3-Clause */
#include "oracle.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/build.h"

enum { IO_QUEUE_SIZE = 4, NAP_NS = 2000000 };

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

/* --- commands ----------------------------------------------------------------------------------- */

static _Noreturn void run(const char *command, int out)
{
        setpgid(0, 0);
        dup2(out, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
}

/* False: it took too long, and is no more. */
static bool wait_for(pid_t child, int *status)
{
        uint64_t until = loop_now_ms() + ORACLE_MS;
        pid_t gone;

        while ((gone = waitpid(child, status, WNOHANG)) == 0 && loop_now_ms() < until)
                nanosleep(&(struct timespec) { .tv_nsec = NAP_NS }, NULL);
        if (gone != 0)
                return true;
        kill(-child, SIGKILL);
        waitpid(child, status, 0);
        return false;
}

/* A file, not a pipe: its end is not to be waited for, and nobody is ended by writing to it. */
int oracle_command(const char *command, char says[ORACLE_LINE])
{
        int out = memfd_create("says", MFD_CLOEXEC), status = -1;
        pid_t child = out < 0 ? -1 : fork();
        ssize_t n = 0;
        bool ended;

        says[0] = '\0';
        if (child == 0)
                run(command, out);
        ended = child > 0 && wait_for(child, &status);
        if (out >= 0) {
                n = pread(out, says, ORACLE_LINE - 1, 0);
                close(out);
        }
        says[n > 0 ? n : 0] = '\0';
        says[strcspn(says, "\r\n")] = '\0';
        if (child > 0 && !ended)
                snprintf(says, ORACLE_LINE, "did not end within %d s: %.200s", ORACLE_MS / 1000,
                         command);
        if (!ended)
                return -1;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
