/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that forget what is written and read as zeroes: for measuring everything else. */
#include <string.h>

#include "ns_backend.h"

static enum ns_result null_read(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf)
{
        (void)ns;
        (void)offset;
        memset(buf, 0, len);
        return NS_DONE;
}

static enum ns_result null_write(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf)
{
        (void)ns;
        (void)offset;
        (void)len;
        (void)buf;
        return NS_DONE;
}

static enum ns_result null_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        (void)ns;
        (void)offset;
        (void)len;
        (void)deallocate;
        return NS_DONE;
}

static bool null_deallocate(struct ns *ns, uint64_t offset, uint64_t len)
{
        (void)ns;
        (void)offset;
        (void)len;
        return true;
}

static enum ns_result null_resize(struct ns *ns, uint64_t bytes)
{
        (void)ns;
        (void)bytes;
        return NS_DONE;
}

static void null_close(struct ns *ns)
{
        (void)ns;
}

static const struct ns_ops null_ops = {
        .name = "null",
        .read = null_read,
        .write = null_write,
        .zero = null_zero,
        .deallocate = null_deallocate,
        .resize = null_resize,
        .close = null_close,
};

bool ns_null_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size)
{
        (void)error;
        (void)size;
        ns->ops = &null_ops;
        ns->blocks = spec->bytes >> ns->lbads;
        return true;
}
