/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks in a file or on a block device, through the page cache: an acknowledged write survives the
 * death of this process, an acknowledged flush the loss of power.
 *
 * Two writers who do not lock each other out tear blocks. So all namespaces of this process on one
 * file, by whatever name, share one `struct file` and one lock of ranges, and no other process gets
 * it: a file is locked as a whole (which programs that lock parts of it see, too), a device is opened
 * exclusively, which fails if it is mounted.
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
#include <sys/xattr.h>
#include <unistd.h>

#include "ns_backend.h"
#include "pdu/io/log.h"

enum { ZEROES = 65536 };

/* Of a file, a flush of which has failed: what was written to it may be lost. */
#define FAILED "user.nvmfspec.flush-failed"
static const char was_lost[] = "an earlier flush failed, so that blocks may be lost: restore its "
                               "contents, remove its attribute " FAILED " and restart the target";

struct file {
        int fd;
        bool device;
        bool forgetful; /* its file system has no attributes */
        dev_t dev;      /* of a device: its own */
        ino_t ino;      /* of a device: 0 */
        struct ns_lock *ranges;
        unsigned users;
        struct file *next;
        pthread_t flusher;
        pthread_mutex_t lock; /* of what follows */
        pthread_cond_t wake;
        struct ns_wait *waiting, **last;
        bool stop;
        atomic_bool attributes; /* have changed since the last flush began */
        _Atomic bool
            failed; /* a flush failed: the kernel may have dropped what it should have written,
                              * and will not say so twice */
};

static struct {
        pthread_mutex_t lock;
        struct file *first;
} opened = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- reading and writing ---------------------------------------------------------------------- */

static enum ns_result file_read(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf)
{
        const struct file *f = ns->store;

        while (len > 0) {
                ssize_t n = pread(f->fd, buf, len, (off_t)offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return NS_READ_ERROR;
                buf += n;
                offset += (uint64_t)n;
                len -= (uint32_t)n;
        }
        return NS_DONE;
}

static enum ns_result write_status(int error)
{
        return error == ENOSPC || error == EDQUOT ? NS_NO_SPACE : NS_WRITE_ERROR;
}

static enum ns_result file_write(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf)
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
        return NS_DONE;
}

static enum ns_result write_zeroes(struct ns *ns, uint64_t offset, uint64_t len)
{
        static const uint8_t zeroes[ZEROES];
        enum ns_result result = NS_DONE;

        while (len > 0 && !result) {
                uint32_t n = len < ZEROES ? (uint32_t)len : ZEROES;

                result = file_write(ns, offset, n, zeroes);
                offset += n;
                len -= n;
        }
        return result;
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

static enum ns_result file_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        int mode = deallocate ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;

        return zero_range(ns, mode, offset, len) ? NS_DONE : write_zeroes(ns, offset, len);
}

/* --- write protection, remembered with a file ---------------------------------------------------- */

#define PROTECTED "user.nvmfspec.write-protected"

/* A device has no such attributes, nor has each file system: what cannot be kept is not promised. */
static enum ns_result file_protect(struct ns *ns, bool protect)
{
        struct file *f = ns->store;
        int rc = protect ? fsetxattr(f->fd, PROTECTED, "1", 1, 0) : fremovexattr(f->fd, PROTECTED);
        bool was_none = !protect && rc < 0 && (errno == ENODATA || errno == ENOTSUP);

        if (rc < 0 && !was_none)
                return NS_FIXED;
        atomic_store(&f->attributes, true);
        return NS_DONE;
}

static bool is_protected(const struct file *f)
{
        return fgetxattr(f->fd, PROTECTED, NULL, 0) >= 0;
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

/* Whoever opens it next has to know as well, in this process or another. A device has no attributes,
 * and is remembered by this process only. */
static void file_sync(struct file *f)
{
        bool all = atomic_exchange(&f->attributes, false);

        if ((all ? fsync(f->fd) : fdatasync(f->fd)) == 0)
                return;
        f->failed = true;
        if (fsetxattr(f->fd, FAILED, "1", 1, 0) < 0 && !f->device && !f->forgetful)
                log_line(LOG_AS_ERROR, NULL, NULL,
                         "a flush of a file has failed, and the file cannot be marked (%s): its "
                         "blocks may be lost, and after a restart nothing says so",
                         strerror(errno));
}

static bool is_flush(const struct ns_wait *list)
{
        while (list && !list->durable)
                list = list->next;
        return list;
}

static void *flusher(void *arg)
{
        struct file *f = arg;
        struct ns_wait *list, *next;

        while ((list = take_waiting(f)) != NULL) {
                if (is_flush(list))
                        file_sync(f);
                for (; list; list = next) {
                        next = list->next;
                        list->result = f->failed ? NS_WRITE_ERROR : NS_DONE;
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

/* File systems that cannot sync a folder say so by EINVAL. */
bool ns_sync_folder(const char *path)
{
        char copy[4096];
        bool good;
        int fd;

        if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy)) {
                errno = ENAMETOOLONG;
                return false;
        }
        fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return false;
        good = fsync(fd) == 0 || errno == EINVAL;
        close(fd);
        return good;
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
static enum ns_result file_resize(struct ns *ns, uint64_t bytes)
{
        const struct file *f = ns->store;
        uint64_t now = size_of(f->fd, f->device);

        if (bytes < now)
                return NS_FIXED;
        if (bytes > now && f->device)
                return NS_NO_SPACE;
        return ftruncate(f->fd, (off_t)bytes) == 0 ? NS_DONE : write_status(errno);
}

static void file_free(struct file *f)
{
        pthread_cond_destroy(&f->wake);
        pthread_mutex_destroy(&f->lock);
        if (f->fd >= 0)
                close(f->fd);
        free(f);
}

static void stop_flusher(struct file *f)
{
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->flusher, NULL);
}

/* What has failed stays, and stays open, so that nobody forgets it. */
static void file_stop(struct file *f)
{
        struct file **at = &opened.first;

        stop_flusher(f);
        file_sync(f);
        if (f->failed)
                return;
        while (*at != f)
                at = &(*at)->next;
        *at = f->next;
        file_free(f);
}

static void file_close(struct ns *ns)
{
        struct file *f = ns->store;

        pthread_mutex_lock(&opened.lock);
        if (--f->users == 0)
                file_stop(f);
        pthread_mutex_unlock(&opened.lock);
}

static const struct ns_ops file_ops = {
        .name = "file",
        .read = file_read,
        .write = file_write,
        .zero = file_zero,
        .deallocate = file_deallocate,
        .flush = file_flush,
        .resize = file_resize,
        .protect = file_protect,
        .measure = file_measure,
        .close = file_close,
};

/* What is wrong, or NULL. */
static const char *open_file(struct file *f, const struct ns_spec *spec)
{
        struct flock whole = { .l_type = F_WRLCK };
        struct stat st;
        bool known = stat(spec->arg, &st) == 0;
        int flags = O_RDWR | O_CLOEXEC;

        f->device = known && S_ISBLK(st.st_mode);
        if (f->device)
                flags |= O_EXCL;
        f->fd = open(spec->arg, flags);
        if (f->fd < 0 && errno == ENOENT && spec->bytes > 0) {
                f->fd = open(spec->arg, flags | O_CREAT | O_EXCL, 0644);
                if (f->fd >= 0 && !ns_sync_folder(spec->arg))
                        return strerror(errno);
        }
        if (f->fd < 0 && f->device && errno == EBUSY)
                return "the device is mounted or in use";
        if (f->fd < 0 || fstat(f->fd, &st) < 0)
                return strerror(errno);
        if (S_ISBLK(st.st_mode) != f->device || (!f->device && !S_ISREG(st.st_mode)))
                return "neither a file nor a block device";
        f->dev = f->device ? st.st_rdev : st.st_dev;
        f->ino = f->device ? 0 : st.st_ino;
        if (!f->device && fcntl(f->fd, F_OFD_SETLK, &whole) < 0)
                return errno == EAGAIN || errno == EACCES ? "in use by another process"
                                                          : strerror(errno);
        if (fgetxattr(f->fd, FAILED, NULL, 0) >= 0)
                return was_lost;
        f->forgetful = !f->device && errno == ENOTSUP;
        return NULL;
}

/* Once for each file, however many namespaces it is. */
static void warn_if_forgetful(const struct file *f, const char *path)
{
        if (f->forgetful)
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "%s: its file system has no extended attributes: if a flush fails, the "
                         "target cannot know of it after a restart, and would offer the file again "
                         "with blocks that may be lost",
                         path);
}

static const char *start(struct file *f)
{
        int rc;

        f->last = &f->waiting;
        rc = pthread_create(&f->flusher, NULL, flusher, f);
        return rc == 0 ? NULL : strerror(rc);
}

/* Makes a file as long as it is asked for; what is wrong with it, or NULL. */
static const char *fit(const struct file *f, const struct ns_spec *spec, uint64_t *bytes)
{
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

static struct file *file_new(const struct ns_spec *spec, uint64_t *bytes, const char **wrong)
{
        struct file *f = calloc(1, sizeof(*f));

        *wrong = strerror(ENOMEM);
        if (!f)
                return NULL;
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->wake, NULL);
        if (!(*wrong = open_file(f, spec)) && !(*wrong = fit(f, spec, bytes)) &&
            !(*wrong = start(f)))
                return f;
        file_free(f);
        return NULL;
}

static struct file *find_opened(const char *path)
{
        struct file *f = opened.first;
        struct stat st;

        if (stat(path, &st) < 0)
                return NULL;
        while (f && (f->device ? !S_ISBLK(st.st_mode) || f->dev != st.st_rdev
                               : f->dev != st.st_dev || f->ino != st.st_ino))
                f = f->next;
        return f;
}

/* Of the one `opened`: its file, made if there is none yet. What is wrong, or NULL. */
static const char *attach(struct ns *ns, const struct ns_spec *spec, uint64_t *bytes, char why[256])
{
        struct file *f = find_opened(spec->arg);
        const char *wrong = f && f->failed ? was_lost : f ? fit(f, spec, bytes) : NULL;

        if (!wrong && f && !ns_lock_suits(f->ranges, ns->family))
                wrong = "served by another protocol";
        if (wrong)
                return wrong;
        if (f) {
                ns_lock_put(ns->lock);
                ns->lock = ns_lock_get(f->ranges);
        } else {
                f = file_new(spec, bytes, &wrong);
                if (!f)
                        return wrong;
                wrong = ns->family
                            ? ns->family->shared_restore(ns_shared(ns), spec->arg, f->device, why)
                            : NULL;
                if (wrong) {
                        stop_flusher(f);
                        file_free(f);
                        return wrong;
                }
                f->ranges = ns->lock;
                f->next = opened.first;
                opened.first = f;
                warn_if_forgetful(f, spec->arg);
        }
        f->users++;
        ns->store = f;
        return NULL;
}

bool ns_file_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size)
{
        char why[256];
        const char *wrong;
        uint64_t bytes = 0;

        pthread_mutex_lock(&opened.lock);
        wrong = attach(ns, spec, &bytes, why);
        pthread_mutex_unlock(&opened.lock);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                return false;
        }
        ns->ops = &file_ops;
        atomic_store(&ns->protection, is_protected(ns->store));
        ns->blocks = bytes >> ns->lbads;
        return true;
}
