/* SPDX-License-Identifier: BSD-3-Clause */
#include "shell.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"

enum { NAP_US = 2000 };

static _Atomic bool stopped;

void shell_stop(void)
{
        stopped = true;
}

static _Noreturn void run(const char *command, int out)
{
        setpgid(0, 0);
        dup2(out, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
}

/* False: it took too long, or is not wanted any more, and is no more. */
static bool wait_for(pid_t child, int *status, unsigned ms)
{
        uint64_t until = loop_now_ms() + ms;
        pid_t gone;

        while ((gone = waitpid(child, status, WNOHANG)) == 0 && !stopped && loop_now_ms() < until)
                loop_sleep_us(NAP_US);
        if (gone != 0)
                return true;
        kill(-child, SIGKILL);
        waitpid(child, status, 0);
        return false;
}

/* A file, not a pipe: its end is not to be waited for, and nobody is ended by writing to it. */
int shell_run(const char *command, char says[SHELL_LINE], unsigned ms)
{
        int out = memfd_create("says", MFD_CLOEXEC), status = -1;
        pid_t child = out < 0 ? -1 : fork();
        ssize_t n = 0;
        bool ended;

        says[0] = '\0';
        if (child == 0)
                run(command, out);
        ended = child > 0 && wait_for(child, &status, ms);
        if (out >= 0) {
                n = pread(out, says, SHELL_LINE - 1, 0);
                close(out);
        }
        says[n > 0 ? n : 0] = '\0';
        says[strcspn(says, "\r\n")] = '\0';
        if (child > 0 && !ended && stopped)
                snprintf(says, SHELL_LINE, "interrupted");
        else if (child > 0 && !ended)
                snprintf(says, SHELL_LINE, "timed out after %u s", ms / 1000);
        if (!ended)
                return -1;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
