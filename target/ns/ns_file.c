/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks in a file or on a block device, through the page cache: an acknowledged write survives the
 * death of this process, an acknowledged flush the loss of power.
 *
 * Flushes run in a thread of their own, because fdatasync() takes as long as the disk does. All
 * that wait when it becomes free share one fdatasync().
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ns_backend.h"
#include "pdu/nvme/wire/nvme.h"

enum { ZEROES = 65536 };

struct file {
        int fd;
        bool device;
        pthread_t flusher;
        pthread_mutex_t lock; /* of what follows */
        pthread_cond_t wake;
        struct ns_wait *waiting, **last;
        bool stop;
        bool failed; /* a flush failed: the kernel may have dropped what it should have written, and
                      * will not say so twice */
};

/* --- reading and writing ---------------------------------------------------------------------- */

static uint16_t file_read(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf)
{
        const struct file *f = ns->store;

        while (len > 0) {
                ssize_t n = pread(f->fd, buf, len, (off_t)offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return NVME_UNRECOVERED_READ;
                buf += n;
                offset += (uint64_t)n;
                len -= (uint32_t)n;
        }
        return NVME_SUCCESS;
}

static uint16_t write_status(int error)
{
        return error == ENOSPC || error == EDQUOT ? NVME_CAPACITY_EXCEEDED : NVME_WRITE_FAULT;
}

static uint16_t file_write(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf)
{
        const struct file *f = ns->store;

        while (len > 0) {
                ssize_t n = pwrite(f->fd, buf, len, (off_t)offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return write_status(errno);
                buf += n;
                offset += (uint64_t)n;
                len -= (uint32_t)n;
        }
        return NVME_SUCCESS;
}

static uint16_t write_zeroes(struct ns *ns, uint64_t offset, uint64_t len)
{
        static const uint8_t zeroes[ZEROES];
        uint16_t status = NVME_SUCCESS;

        while (len > 0 && !status) {
                uint32_t n = len < ZEROES ? (uint32_t)len : ZEROES;

                status = file_write(ns, offset, n, zeroes);
                offset += n;
                len -= n;
        }
        return status;
}

/* False: the file system or device has no such thing. */
static bool zero_range(const struct ns *ns, int mode, uint64_t offset, uint64_t len)
{
        const struct file *f = ns->store;

        return fallocate(f->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len) == 0;
}

static bool file_deallocate(struct ns *ns, uint64_t offset, uint64_t len)
{
        return zero_range(ns, FALLOC_FL_PUNCH_HOLE, offset, len);
}

static uint16_t file_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        int mode = deallocate ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;

        return zero_range(ns, mode, offset, len) ? NVME_SUCCESS : write_zeroes(ns, offset, len);
}

/* --- flush ------------------------------------------------------------------------------------ */

/* Waits for work: all that is asked for by now; NULL: it is over. */
static struct ns_wait *take_waiting(struct file *f)
{
        struct ns_wait *list;

        pthread_mutex_lock(&f->lock);
        while (!f->waiting && !f->stop)
                pthread_cond_wait(&f->wake, &f->lock);
        list = f->waiting;
        f->waiting = NULL;
        f->last = &f->waiting;
        pthread_mutex_unlock(&f->lock);
        return list;
}

static void *flusher(void *arg)
{
        struct file *f = arg;
        struct ns_wait *list, *next;

        while ((list = take_waiting(f)) != NULL) {
                if (fdatasync(f->fd) < 0)
                        f->failed = true;
                for (; list; list = next) {
                        next = list->next;
                        list->status = f->failed ? NVME_WRITE_FAULT : NVME_SUCCESS;
                        list->done(list);
                }
        }
        return NULL;
}

static void file_flush(struct ns *ns, struct ns_wait *flush)
{
        struct file *f = ns->store;

        flush->next = NULL;
        pthread_mutex_lock(&f->lock);
        *f->last = flush;
        f->last = &flush->next;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
}

/* --- size, open, close ------------------------------------------------------------------------ */

static uint64_t size_of(int fd, bool device)
{
        struct stat st;
        uint64_t bytes;

        if (device)
                return ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? bytes : 0;
        return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t file_measure(struct ns *ns)
{
        const struct file *f = ns->store;

        return size_of(f->fd, f->device);
}

/* Files only grow: what someone has stored is not cut off by a number in a configuration. */
static uint16_t file_resize(struct ns *ns, uint64_t bytes)
{
        const struct file *f = ns->store;
        uint64_t now = size_of(f->fd, f->device);

        if (bytes < now)
                return NVME_INVALID_FIELD;
        if (bytes > now && f->device)
                return NVME_CAPACITY_EXCEEDED;
        return ftruncate(f->fd, (off_t)bytes) == 0 ? NVME_SUCCESS : write_status(errno);
}

static void file_close(struct ns *ns)
{
        struct file *f = ns->store;

        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->flusher, NULL);
        pthread_cond_destroy(&f->wake);
        pthread_mutex_destroy(&f->lock);
        close(f->fd);
        free(f);
}

static const struct ns_ops file_ops = {
        .name = "file",
        .read = file_read,
        .write = file_write,
        .zero = file_zero,
        .deallocate = file_deallocate,
        .flush = file_flush,
        .resize = file_resize,
        .measure = file_measure,
        .close = file_close,
};

/* A file that was just made is there after a loss of power, too. */
static void sync_folder(const char *path)
{
        char copy[4096];
        int fd;

        if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
                return;
        fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return;
        fsync(fd);
        close(fd);
}

/* Makes a file as long as it is asked for; what is wrong with it, or NULL. */
static const char *fit(struct file *f, const struct ns_spec *spec, uint64_t *bytes)
{
        struct stat st;

        if (fstat(f->fd, &st) < 0)
                return strerror(errno);
        f->device = S_ISBLK(st.st_mode);
        if (!f->device && !S_ISREG(st.st_mode))
                return "neither a file nor a block device";
        *bytes = size_of(f->fd, f->device);
        if (*bytes < spec->bytes && f->device)
                return "the device is smaller than its size=";
        if (*bytes < spec->bytes) {
                if (ftruncate(f->fd, (off_t)spec->bytes) < 0 || fsync(f->fd) < 0)
                        return strerror(errno);
                *bytes = spec->bytes;
        }
        return *bytes < UINT64_C(1) << spec->lbads ? "smaller than a block" : NULL;
}

static int open_file(const struct ns_spec *spec)
{
        int fd = open(spec->arg, O_RDWR | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT && spec->bytes > 0) {
                fd = open(spec->arg, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0644);
                sync_folder(spec->arg);
        }
        return fd;
}

static const char *start(struct file *f)
{
        int rc;

        f->last = &f->waiting;
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->wake, NULL);
        rc = pthread_create(&f->flusher, NULL, flusher, f);
        return rc == 0 ? NULL : strerror(rc);
}

bool ns_file_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size)
{
        struct file *f = calloc(1, sizeof(*f));
        const char *wrong;
        uint64_t bytes = 0;

        if (!f || (f->fd = open_file(spec)) < 0) {
                snprintf(error, size, "%s", strerror(errno));
                free(f);
                return false;
        }
        wrong = fit(f, spec, &bytes);
        if (!wrong)
                wrong = start(f);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                close(f->fd);
                free(f);
                return false;
        }
        ns->store = f;
        ns->ops = &file_ops;
        ns->blocks = bytes >> ns->lbads;
        return true;
}
