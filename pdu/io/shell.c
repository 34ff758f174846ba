/* SPDX-License-Identifier: BSD-3-Clause */
#include "shell.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_dump.h"
#include "loop.h"

enum { NAP_US = 2000 };

static _Atomic bool stopped;

void shell_stop(void)
{
        stopped = true;
}

/* wrong -1: standard error is left as it is. */
static _Noreturn void run(const char *command, int out, int wrong)
{
        setpgid(0, 0);
        dup2(out, STDOUT_FILENO);
        if (wrong >= 0)
                dup2(wrong, STDERR_FILENO);
        core_dump_restore();
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

static void read_at(int fd, off_t at, char *buf, size_t size)
{
        ssize_t n = pread(fd, buf, size - 1, at);

        buf[n > 0 ? n : 0] = '\0';
}

/* A file, not a pipe: its end is not to be waited for, and nobody is ended by writing to it. */
static int run_into(const char *command, int out, int wrong, char says[SHELL_LINE], unsigned ms)
{
        pid_t child = fork();
        int status = -1;
        bool ended;

        if (child == 0)
                run(command, out, wrong);
        ended = child > 0 && wait_for(child, &status, ms);
        read_at(out, 0, says, SHELL_LINE);
        says[strcspn(says, "\r\n")] = '\0';
        if (child > 0 && !ended && stopped)
                snprintf(says, SHELL_LINE, "interrupted");
        else if (child > 0 && !ended)
                snprintf(says, SHELL_LINE, "timed out after %u s", ms / 1000);
        if (!ended)
                return -1;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int shell_run(const char *command, char says[SHELL_LINE], unsigned ms)
{
        int out = memfd_create("says", MFD_CLOEXEC), status = -1;

        says[0] = '\0';
        if (out < 0)
                return -1;
        status = run_into(command, out, -1, says, ms);
        close(out);
        return status;
}

int shell_hear(const char *command, char says[SHELL_LINE], char *wrong, size_t size, unsigned ms)
{
        int out = memfd_create("says", MFD_CLOEXEC), err = memfd_create("wrong", MFD_CLOEXEC);
        int status = -1;
        off_t end;

        says[0] = wrong[0] = '\0';
        if (out >= 0 && err >= 0) {
                status = run_into(command, out, err, says, ms);
                end = lseek(err, 0, SEEK_END);
                read_at(err, end >= (off_t)size ? end - (off_t)size + 1 : 0, wrong, size);
        }
        if (out >= 0)
                close(out);
        if (err >= 0)
                close(err);
        return status;
}
